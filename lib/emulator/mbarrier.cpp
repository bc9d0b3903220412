// mbarrier objects in shared memory: init, inval, arrive, test_wait, try_wait. PTX ISA 9.7.13.15.
//
// The object is opaque to programs; here it is: bits 0..19 arrivals still missing in this phase,
// 20..39 arrivals that a phase takes, bit 62 set by init, bit 63 the phase's parity. The state that
// arrive returns is the object before the arrival, of which the waits look at the parity.
// Transaction counts, clusters and arrive_drop are not here.
#include "access.h"
#include "decoder.h"

#include <bit>

namespace tally::emulator {

namespace {

using ptx::Instruction;

constexpr std::uint64_t countMask = (1u << 20) - 1;
constexpr unsigned expectedShift = 20, parityShift = 63;
constexpr std::uint64_t live = std::uint64_t{1} << 62;

std::uint64_t *objectOf(std::uint64_t host) { return reinterpret_cast<std::uint64_t *>(host); }

/// Faults unless init() made an object of what lies there.
bool checkLive(Warp &warp, const Op &op, std::uint32_t mask, const std::uint64_t *host) {
  for (; mask; mask &= mask - 1) {
    auto lane = static_cast<std::uint32_t>(std::countr_zero(mask));
    if (*objectOf(host[lane]) & live)
      continue;
    static_cast<void>(raise(warp, op, lane, FaultKind::BarrierMisuse,
                            "an mbarrier that was not initialised, or is invalid"));
    return false;
  }
  return true;
}

// Op::slot: 0 destination or noSlot, 1 count, state or parity, 4 the address.
Status initialise(Warp &warp, const Op &op, std::uint32_t mask) {
  std::uint64_t host[warpSize];
  if (!resolveAddresses(warp, op, mask, 8, AccessKind::Write, host))
    return Status::Fault;
  const auto *count = warp.row<std::uint32_t>(op.slot[1]);
  for (; mask; mask &= mask - 1) {
    auto lane = static_cast<std::uint32_t>(std::countr_zero(mask));
    std::uint64_t expected = count[lane];
    if (expected == 0 || expected > countMask)
      return raise(warp, op, lane, FaultKind::BarrierMisuse,
                   "an mbarrier's count is from 1 to 2^20 - 1");
    *objectOf(host[lane]) = expected | expected << expectedShift | live;
  }
  return Status::Next;
}

Status invalidate(Warp &warp, const Op &op, std::uint32_t mask) {
  std::uint64_t host[warpSize];
  if (!resolveAddresses(warp, op, mask, 8, AccessKind::Write, host) ||
      !checkLive(warp, op, mask, host))
    return Status::Fault;
  for (; mask; mask &= mask - 1)
    *objectOf(host[std::countr_zero(mask)]) = 0;
  return Status::Next;
}

Status arrive(Warp &warp, const Op &op, std::uint32_t mask) {
  std::uint64_t host[warpSize];
  if (!resolveAddresses(warp, op, mask, 8, AccessKind::ReadWrite, host) ||
      !checkLive(warp, op, mask, host))
    return Status::Fault;
  const auto *count = warp.row<std::uint32_t>(op.slot[1]);
  auto *state = op.slot[0] == noSlot ? nullptr : warp.row<std::uint64_t>(op.slot[0]);
  for (; mask; mask &= mask - 1) {
    auto lane = static_cast<std::uint32_t>(std::countr_zero(mask));
    std::uint64_t &object = *objectOf(host[lane]);
    std::uint64_t missing = object & countMask;
    if (count[lane] == 0 || count[lane] > missing)
      return raise(warp, op, lane, FaultKind::BarrierMisuse,
                   "more arrivals than the mbarrier's phase takes");
    if (state)
      state[lane] = object;
    object -= count[lane];
    if (count[lane] == missing) {
      object ^= std::uint64_t{1} << parityShift;
      object |= object >> expectedShift & countMask;
    }
  }
  return Status::Next;
}

/// Whether the phase of slot 1's parity, or state, is over. A wait that may block is free to say no
/// at once.
template <class T, unsigned Shift> Status test(Warp &warp, const Op &op, std::uint32_t mask) {
  std::uint64_t host[warpSize];
  if (!resolveAddresses(warp, op, mask, 8, AccessKind::Read, host) ||
      !checkLive(warp, op, mask, host))
    return Status::Fault;
  const T *wanted = warp.row<T>(op.slot[1]);
  std::uint32_t &done = warp.predicate(op.slot[0]);
  for (; mask; mask &= mask - 1) {
    int lane = std::countr_zero(mask);
    bool over = *objectOf(host[lane]) >> parityShift != (wanted[lane] >> Shift & 1);
    done = (done & ~(1u << lane)) | static_cast<std::uint32_t>(over) << lane;
  }
  return Status::Next;
}

bool decodeArrive(FunctionDecoder &decoder, const Instruction &instruction, Op &op) {
  std::span<const ptx::Operand> operands = instruction.operands;
  bool returns = !operands.empty() && operands[0].kind != ptx::OperandKind::Address;
  std::size_t next = returns ? 1 : 0;
  if (operands.size() <= next || operands.size() > next + 2)
    return false;
  op.handler = arrive;
  decoder.address(operands[next], op);
  op.slot[1] = operands.size() == next + 2 ? decoder.source(operands[next + 1], Type::U32)
                                           : decoder.constant(1, 4);
  if (returns && operands[0].kind != ptx::OperandKind::Sink)
    op.slot[0] = decoder.destination(operands[0], Type::U64);
  return true;
}

bool decodeTest(FunctionDecoder &decoder, const Instruction &instruction, Op &op) {
  std::span<const ptx::Operand> operands = instruction.operands;
  // try_wait may name a time limit behind the state; it is a hint.
  std::size_t most = instruction.has("try_wait") ? 4 : 3;
  if (operands.size() < 3 || operands.size() > most)
    return false;
  bool byParity = instruction.has("parity");
  op.handler = byParity ? test<std::uint32_t, 0> : test<std::uint64_t, parityShift>;
  decoder.address(operands[1], op);
  op.slot[1] = decoder.source(operands[2], byParity ? Type::U32 : Type::U64);
  op.slot[0] = decoder.predicateDestination(operands[0]);
  return true;
}

} // namespace

bool decodeMbarrier(FunctionDecoder &decoder, const Instruction &instruction) {
  if (instruction.opcode != "mbarrier")
    return false;
  for (std::string_view each : {"expect_tx", "complete_tx", "noComplete", "shared::cluster"})
    if (instruction.has(each))
      return false;
  Op op;
  op.space = spaceOf(instruction);
  std::span<const ptx::Operand> operands = instruction.operands;
  bool known = false;
  if (instruction.has("init") && operands.size() == 2) {
    op.handler = initialise;
    decoder.address(operands[0], op);
    op.slot[1] = decoder.source(operands[1], Type::U32);
    known = true;
  } else if (instruction.has("inval") && operands.size() == 1) {
    op.handler = invalidate;
    decoder.address(operands[0], op);
    known = true;
  } else if (instruction.has("arrive")) {
    known = decodeArrive(decoder, instruction, op);
  } else if (instruction.has("test_wait") || instruction.has("try_wait")) {
    known = decodeTest(decoder, instruction, op);
  }
  if (known && !decoder.failed())
    decoder.emit(op);
  return known;
}

} // namespace tally::emulator
