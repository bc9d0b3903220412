// atom and red. PTX ISA 9.7.13.7 and 9.7.13.8.
//
// Every update is one host atomic operation (a compare-and-swap loop), so that blocks on several
// host threads agree. Lanes of a warp with the same address update it in the order of lanes.
#include "access.h"
#include "decoder.h"
#include "half.h"
#include "handlers.h"
#include "mbarrier.h"

#include <bit>
#include <type_traits>

namespace tally::emulator {

namespace {

using ptx::Instruction;

template <class T>
using Word = std::conditional_t<sizeof(T) == 2, std::uint16_t,
                                std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>;

template <class T> struct AddOf {
  static T apply(T old, T b) {
    if constexpr (std::is_floating_point_v<T>)
      return old + b;
    else
      return static_cast<T>(old + b);
  }
};
template <class T> struct ExchangeOf {
  static T apply(T, T b) { return b; }
};
template <class T> struct MinOf {
  static T apply(T old, T b) { return b < old ? b : old; }
};
template <class T> struct MaxOf {
  static T apply(T old, T b) { return old < b ? b : old; }
};
template <class T> struct AndOf {
  static T apply(T old, T b) { return old & b; }
};
template <class T> struct OrOf {
  static T apply(T old, T b) { return old | b; }
};
template <class T> struct XorOf {
  static T apply(T old, T b) { return old ^ b; }
};
template <class T> struct IncrementOf {
  static T apply(T old, T b) { return old >= b ? 0 : old + 1; }
};
template <class T> struct DecrementOf {
  static T apply(T old, T b) { return old == 0 || old > b ? b : old - 1; }
};

// atom.add.f32 flushes subnormals in global memory without .noftz, PTX ISA 9.7.13.7: "atom.add.f32
// on global memory flushes subnormal inputs and results".
float flushed(float a) {
  auto bits = std::bit_cast<std::uint32_t>(a);
  return (bits & 0x7f800000u) == 0 ? std::bit_cast<float>(bits & 0x80000000u) : a;
}
struct FlushingAdd {
  static float apply(float old, float b) { return flushed(flushed(old) + flushed(b)); }
};

/// f16 and bf16 sums, alone or in pairs.
template <bool IsBfloat> std::uint16_t addHalves(std::uint16_t a, std::uint16_t b) {
  constexpr HalfFormat format = IsBfloat ? bfloatFormat : halfFormat;
  return toHalf(fromHalf(a, format) + fromHalf(b, format), format, Rounding::Nearest);
}
template <bool IsBfloat> struct AddHalf {
  static std::uint16_t apply(std::uint16_t old, std::uint16_t b) {
    return addHalves<IsBfloat>(old, b);
  }
};
template <bool IsBfloat> struct AddHalfPair {
  static std::uint32_t apply(std::uint32_t old, std::uint32_t b) {
    std::uint32_t low =
        addHalves<IsBfloat>(static_cast<std::uint16_t>(old), static_cast<std::uint16_t>(b));
    std::uint32_t high = addHalves<IsBfloat>(static_cast<std::uint16_t>(old >> 16),
                                             static_cast<std::uint16_t>(b >> 16));
    return low | high << 16;
  }
};

// Op::slot: 0 destination or noSlot (red), 1 b, 2 c (of cas), 4 the address.
template <class T, class F> Status update(Warp &warp, const Op &op, std::uint32_t mask) {
  std::uint64_t host[warpSize];
  if (!resolveAddresses(warp, op, mask, sizeof(T), AccessKind::ReadWrite, host))
    return Status::Fault;
  const T *b = warp.row<T>(op.slot[1]);
  T *d = op.slot[0] == noSlot ? nullptr : warp.row<T>(op.slot[0]);
  for (; mask; mask &= mask - 1) {
    int i = std::countr_zero(mask);
    auto *word = reinterpret_cast<Word<T> *>(host[i]);
    Word<T> old = __atomic_load_n(word, __ATOMIC_RELAXED);
    T operand = b[i];
    while (!__atomic_compare_exchange_n(
        word, &old, std::bit_cast<Word<T>>(F::apply(std::bit_cast<T>(old), operand)), true,
        __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {
    }
    if (d)
      d[i] = std::bit_cast<T>(old);
  }
  return Status::Next;
}

template <class T> Status compareAndSwap(Warp &warp, const Op &op, std::uint32_t mask) {
  std::uint64_t host[warpSize];
  if (!resolveAddresses(warp, op, mask, sizeof(T), AccessKind::ReadWrite, host))
    return Status::Fault;
  const T *b = warp.row<T>(op.slot[1]), *c = warp.row<T>(op.slot[2]);
  T *d = op.slot[0] == noSlot ? nullptr : warp.row<T>(op.slot[0]);
  for (; mask; mask &= mask - 1) {
    int i = std::countr_zero(mask);
    T expected = b[i];
    __atomic_compare_exchange_n(reinterpret_cast<T *>(host[i]), &expected, c[i], false,
                                __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    if (d)
      d[i] = expected;
  }
  return Status::Next;
}

template <class U, class S> Handler ordered(const Instruction &instruction, bool isSignedType) {
  bool least = instruction.has("min");
  if (isSignedType)
    return least ? update<S, MinOf<S>> : update<S, MaxOf<S>>;
  return least ? update<U, MinOf<U>> : update<U, MaxOf<U>>;
}

template <class U, class S> Handler integerUpdate(const Instruction &instruction, Type type) {
  if (instruction.has("add"))
    return update<U, AddOf<U>>;
  if (instruction.has("exch"))
    return update<U, ExchangeOf<U>>;
  if (instruction.has("and"))
    return update<U, AndOf<U>>;
  if (instruction.has("or"))
    return update<U, OrOf<U>>;
  if (instruction.has("xor"))
    return update<U, XorOf<U>>;
  if (instruction.has("inc"))
    return update<U, IncrementOf<U>>;
  if (instruction.has("dec"))
    return update<U, DecrementOf<U>>;
  if (instruction.has("min") || instruction.has("max"))
    return ordered<U, S>(instruction, isSigned(type));
  if (instruction.has("cas"))
    return compareAndSwap<U>;
  return nullptr;
}

Handler floatUpdate(const Instruction &instruction, Type type, Space space) {
  if (!instruction.has("add"))
    return nullptr;
  switch (type) {
  case Type::F32:
    return space == Space::Shared || space == Space::SharedCluster ? update<float, AddOf<float>>
                                                                   : update<float, FlushingAdd>;
  case Type::F64:
    return update<double, AddOf<double>>;
  case Type::F16:
    return update<std::uint16_t, AddHalf<false>>;
  case Type::BF16:
    return update<std::uint16_t, AddHalf<true>>;
  case Type::F16x2:
    return update<std::uint32_t, AddHalfPair<false>>;
  case Type::BF16x2:
    return update<std::uint32_t, AddHalfPair<true>>;
  default:
    return nullptr;
  }
}

Handler handlerOf(const Instruction &instruction, Type type, Space space) {
  if (isFloat(type) || type == Type::F16x2 || type == Type::BF16x2)
    return floatUpdate(instruction, type, space);
  switch (sizeOf(type)) {
  case 2:
    return instruction.has("cas") ? compareAndSwap<std::uint16_t> : nullptr;
  case 4:
    return integerUpdate<std::uint32_t, std::int32_t>(instruction, type);
  case 8:
    return integerUpdate<std::uint64_t, std::int64_t>(instruction, type);
  default:
    return nullptr;
  }
}

/// Updates a vector's elements one by one: the ISA promises only that each element is atomic.
bool decodeVectorAtomic(FunctionDecoder &decoder, const Instruction &instruction, Type type,
                        bool returns) {
  std::span<const ptx::Operand> operands = instruction.operands;
  std::size_t next = returns ? 1 : 0;
  if (operands.size() != next + 2 || operands[next + 1].kind != ptx::OperandKind::Vector ||
      (returns && operands[0].kind != ptx::OperandKind::Vector))
    return false;
  std::span<const ptx::Operand> values = operands[next + 1].children;
  if (returns && operands[0].children.size() != values.size())
    return false;
  Op op;
  op.space = spaceOf(instruction);
  op.handler = handlerOf(instruction, type, op.space);
  decoder.address(operands[next], op);
  std::vector<Op> each;
  for (std::size_t n = 0; n < values.size(); ++n) {
    op.slot[1] = decoder.source(values[n], type);
    if (returns && operands[0].children[n].kind != ptx::OperandKind::Sink)
      op.slot[0] = decoder.destination(operands[0].children[n], type);
    each.push_back(op);
    op.immediate += sizeOf(type);
    op.slot[0] = noSlot;
  }
  if (!decoder.failed())
    for (const Op &one : each)
      decoder.emit(one);
  return true;
}

} // namespace

bool decodeAtomic(FunctionDecoder &decoder, const Instruction &instruction) {
  bool returns = instruction.opcode == "atom";
  if (!returns && instruction.opcode != "red")
    return false;
  bool isAsync = instruction.has("async"); // done at once, followed by a complete_tx of its bytes
  Type type = lastType(instruction);
  std::span<const ptx::Operand> operands = instruction.operands;
  if (instruction.has("v2") || instruction.has("v4") || instruction.has("v8"))
    return decodeVectorAtomic(decoder, instruction, type, returns);
  bool isCas = instruction.has("cas");
  std::size_t wanted = (returns ? 1 : 0) + 2 + (isCas || isAsync ? 1 : 0);
  if (operands.size() != wanted)
    return false;
  Op op;
  op.space = spaceOf(instruction);
  op.handler = handlerOf(instruction, type, op.space);
  if (!op.handler)
    return false;
  std::size_t next = returns ? 1 : 0;
  decoder.address(operands[next], op);
  op.slot[1] = decoder.source(operands[next + 1], type);
  if (isCas)
    op.slot[2] = decoder.source(operands[next + 2], type);
  if (returns && operands[0].kind != ptx::OperandKind::Sink)
    op.slot[0] = decoder.destination(operands[0], type);
  if (!decoder.failed())
    decoder.emit(op);
  if (isAsync)
    emitCompleteTransaction(decoder, operands[2], sizeOf(type));
  return true;
}

} // namespace tally::emulator
