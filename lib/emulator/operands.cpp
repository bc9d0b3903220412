// Operands: registers, immediates, special registers, symbols and addresses.
#include "decoder.h"
#include "handlers.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <utility>

namespace tally::emulator {

using ptx::OperandKind;

const RegisterInfo *FunctionDecoder::registerOf(const ptx::Operand &operand) const {
  if (operand.kind != OperandKind::Register || operand.reg >= registers.size())
    return nullptr;
  return &registers[operand.reg];
}

namespace {
/// Offset of `.x`, `.y`, … in a vector register's rows; 0 without a component.
std::uint32_t componentOffset(const ptx::Operand &operand, const RegisterInfo &info) {
  if (operand.component.empty())
    return 0;
  static constexpr std::string_view names[] = {"xyzw", "rgba"};
  for (std::string_view each : names) {
    std::size_t index = each.find(operand.component[0]);
    if (index != std::string_view::npos && index < info.width)
      return static_cast<std::uint32_t>(index) * rowBytes(info.bytes);
  }
  return 0;
}
} // namespace

Slot FunctionDecoder::converted(Slot from, std::uint32_t fromBytes, std::uint32_t toBytes,
                                bool isSignedValue) {
  auto typeOf = [&](std::uint32_t bytes) {
    return bytes == 2   ? (isSignedValue ? Type::S16 : Type::U16)
           : bytes == 4 ? (isSignedValue ? Type::S32 : Type::U32)
                        : (isSignedValue ? Type::S64 : Type::U64);
  };
  if (fromBytes > 8 || toBytes > 8) {
    fail("a 128-bit register where another size is needed");
    return noSlot;
  }
  Slot to = temporary(toBytes);
  emit(vectorHandlers().convert(typeOf(toBytes), typeOf(fromBytes)), {to, from});
  return to;
}

Slot FunctionDecoder::source(const ptx::Operand &operand, Type type) {
  std::uint32_t bytes = registerSizeOf(type);
  switch (operand.kind) {
  case OperandKind::Register: {
    const RegisterInfo *info = registerOf(operand);
    if (!info || info->bytes == 0 || operand.negated) {
      fail(fmt::format("operand '{}' is no value", operand.text));
      return noSlot;
    }
    Slot slot = info->slot + componentOffset(operand, *info);
    return info->bytes == bytes ? slot : converted(slot, info->bytes, bytes, isSigned(type));
  }
  case OperandKind::Integer:
  case OperandKind::Float32:
  case OperandKind::Float64:
    return immediate(operand, type);
  case OperandKind::SpecialRegister:
    return specialRegister(operand, type);
  case OperandKind::Symbol:
    if (operand.symbol == "WARP_SZ")
      return constant(warpSize, bytes);
    return symbolAddress(operand, bytes);
  case OperandKind::Opaque:
    if (Slot slot = elementAddress(operand); slot != noSlot)
      return bytes == 8 ? slot : converted(slot, 8, bytes, false);
    [[fallthrough]];
  default:
    fail(fmt::format("operand '{}' is no value", operand.text));
    return noSlot;
  }
}

Slot FunctionDecoder::immediate(const ptx::Operand &operand, Type type) {
  std::uint64_t bits = operand.bits;
  std::uint32_t bytes = registerSizeOf(type);
  if (operand.kind == OperandKind::Float64 && bytes == 4)
    bits = std::bit_cast<std::uint32_t>(static_cast<float>(std::bit_cast<double>(bits)));
  else if (operand.kind == OperandKind::Float32 && bytes == 8)
    bits = std::bit_cast<std::uint64_t>(
        double{std::bit_cast<float>(static_cast<std::uint32_t>(bits))});
  return constant(bits, bytes);
}

Slot FunctionDecoder::specialRegister(const ptx::Operand &operand, Type type) {
  std::string_view name = operand.symbol;
  if (!name.empty() && name[0] == '%')
    name.remove_prefix(1);
  struct Row {
    std::string_view name;
    std::uint32_t row; ///< row of the first component
    std::uint32_t bytes;
  };
  static constexpr Row rows[] = {
      {"tid", TidX, 4},
      {"ntid", NtidX, 4},
      {"ctaid", CtaidX, 4},
      {"nctaid", NctaidX, 4},
      {"laneid", LaneId, 4},
      {"warpid", WarpId, 4},
      {"nwarpid", NwarpId, 4},
      {"lanemask_eq", LanemaskEq, 4},
      {"lanemask_le", LanemaskLe, 4},
      {"lanemask_lt", LanemaskLt, 4},
      {"lanemask_ge", LanemaskGe, 4},
      {"lanemask_gt", LanemaskGt, 4},
      {"smid", SmId, 4},
      {"nsmid", NsmId, 4},
      {"gridid", GridId64, 8},
      {"dynamic_smem_size", DynamicSharedSize, 4},
      {"total_smem_size", TotalSharedSize, 4},
      {"aggr_smem_size", TotalSharedSize, 4},
      {"clusterid", ClusterIdX, 4},
      {"nclusterid", NclusterIdX, 4},
      {"cluster_ctaid", ClusterCtaidX, 4},
      {"cluster_nctaid", ClusterNctaidX, 4},
      {"cluster_ctarank", ClusterCtaRank, 4},
      {"cluster_nctarank", ClusterNctaRank, 4},
      {"envreg1", Envreg1, 4},
      {"envreg2", Envreg2, 4},
  };
  auto isComponent = [&](std::string_view one, std::string_view other) {
    return operand.component == one || operand.component == other;
  };
  std::uint32_t component = isComponent("y", "g") ? 1 : isComponent("z", "b") ? 2 : 0;
  std::uint32_t bytes = registerSizeOf(type);
  auto sized = [&](Slot slot, std::uint32_t rowBytes) {
    return rowBytes == bytes ? slot : converted(slot, rowBytes, bytes, false);
  };
  if (isComponent("w", "a"))
    return constant(0, bytes);
  for (const Row &each : rows)
    if (each.name == name)
      return sized(specialSlot(each.row + component), each.bytes);
  if (name.starts_with("reserved_smem_offset_")) {
    std::optional<SymbolInfo> reserved = symbol(reservedSharedName);
    std::uint64_t begin = sharedOffset(reserved->value);
    bool isEnd = name.ends_with("end");
    return name.ends_with("cap") ? constant(reservedSharedBytes, bytes)
                                 : constant(begin + (isEnd ? reservedSharedBytes : 0), bytes);
  }
  if (name.starts_with("envreg") || name.starts_with("pm"))
    return constant(0, bytes);
  static constexpr std::pair<std::string_view, std::uint32_t> clocks[] = {
      {"clock", 4},       {"clock_hi", 4},       {"clock64", 8},
      {"globaltimer", 8}, {"globaltimer_lo", 4}, {"globaltimer_hi", 4}};
  for (const auto &[clock, clockBytes] : clocks)
    if (clock == name) {
      Slot raw = temporary(8);
      emit(name.starts_with("clock") ? readClock : readGlobalTimer, {raw});
      if (name.ends_with("_hi")) {
        Slot high = temporary(8);
        emit(vectorHandlers().integer(IntegerOp::Shr, Type::U64), {high, raw, constant(32, 4)});
        raw = high;
      }
      return sized(raw, 8);
    }
  fail(fmt::format("the special register {} is not implemented", operand.text));
  return noSlot;
}

Slot FunctionDecoder::destination(const ptx::Operand &operand, Type type) {
  std::uint32_t bytes = registerSizeOf(type);
  if (operand.kind == OperandKind::Sink)
    return temporary(bytes);
  const RegisterInfo *info = registerOf(operand);
  if (!info || info->bytes == 0) {
    fail(fmt::format("operand '{}' cannot take the result", operand.text));
    return noSlot;
  }
  Slot slot = info->slot + componentOffset(operand, *info);
  if (info->bytes == bytes)
    return slot;
  if (info->bytes > 8 || bytes > 8) {
    fail("a 128-bit register where another size is needed");
    return noSlot;
  }
  Slot narrow = temporary(bytes);
  auto typeOf = [&](std::uint32_t size) {
    bool s = isSigned(type);
    return size == 2   ? (s ? Type::S16 : Type::U16)
           : size == 4 ? (s ? Type::S32 : Type::U32)
                       : (s ? Type::S64 : Type::U64);
  };
  Op extend;
  extend.handler = vectorHandlers().convert(typeOf(info->bytes), typeOf(bytes));
  extend.slot[0] = slot;
  extend.slot[1] = narrow;
  after.push_back(extend);
  return narrow;
}

Slot FunctionDecoder::predicateSource(const ptx::Operand &operand, bool &negated) {
  negated = operand.negated;
  if (operand.kind == OperandKind::Integer)
    return owner.predicateConstant(operand.bits != 0);
  if (operand.kind == OperandKind::SpecialRegister &&
      operand.symbol.ends_with("is_explicit_cluster"))
    return specialSlot(IsExplicitCluster);
  const RegisterInfo *info = registerOf(operand);
  if (!info || info->bytes != 0) {
    fail(fmt::format("operand '{}' is no predicate", operand.text));
    return noSlot;
  }
  return info->slot;
}

Slot FunctionDecoder::predicateDestination(const ptx::Operand &operand) {
  if (operand.kind == OperandKind::Sink)
    return noSlot;
  const RegisterInfo *info = registerOf(operand);
  if (!info || info->bytes != 0 || operand.negated) {
    fail(fmt::format("operand '{}' is no predicate", operand.text));
    return noSlot;
  }
  return info->slot;
}

Slot FunctionDecoder::symbolAddress(const ptx::Operand &operand, std::uint32_t bytes) {
  std::optional<SymbolInfo> info = symbol(operand.symbol);
  if (!info || bytes < 4 || bytes > 8) {
    fail(fmt::format("'{}' has no address here", operand.symbol));
    return noSlot;
  }
  switch (info->kind) {
  case SymbolInfo::Global:
  case SymbolInfo::Shared:
    return constant(info->value + operand.bits, bytes);
  case SymbolInfo::ModuleShared:
    return constant(sharedOffset(info->value) + operand.bits, bytes);
  case SymbolInfo::Code:
    return constant(codeAddress(info->value), bytes);
  case SymbolInfo::KernelParameter:
    return constant(parameterWindow + info->value + operand.bits, bytes);
  case SymbolInfo::DynamicShared: {
    Slot base = specialSlot(bytes == 4 ? DynamicSharedBase : DynamicSharedBase64);
    if (operand.bits == 0)
      return base;
    Slot sum = temporary(bytes);
    emit(vectorHandlers().integer(IntegerOp::Add, bytes == 4 ? Type::U32 : Type::U64),
         {sum, base, constant(operand.bits, bytes)});
    return sum;
  }
  case SymbolInfo::Local: {
    Slot result = temporary(bytes);
    emit(bytes == 4 ? localAddress32 : localAddress64, {result}).immediate =
        static_cast<std::int64_t>(info->value + operand.bits);
    return result;
  }
  }
  return noSlot;
}

namespace {

/// Returns the number that `text`, `array[%r1+2]`, adds to the register; nothing for another form.
/// ptxas 13.0 allows no `-`, and adds in the register's width.
std::optional<std::uint64_t> addedToIndex(std::string_view text, std::string_view array,
                                          std::string_view index) {
  auto skip = [&](std::string_view expected) {
    text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
    bool matches = text.starts_with(expected);
    text.remove_prefix(matches ? expected.size() : 0);
    return matches;
  };
  if (!skip(array) || !skip("[") || !skip(index))
    return std::nullopt;
  std::uint64_t added = 0;
  if (skip("+")) {
    skip("");
    bool isHex = text.starts_with("0x") || text.starts_with("0X");
    text.remove_prefix(isHex ? 2 : 0);
    auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), added, isHex ? 16 : 10);
    if (error != std::errc())
      return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    skip("U");
  }
  return skip("]") && text.empty() ? std::optional(added) : std::nullopt;
}

} // namespace

Slot FunctionDecoder::elementAddress(const ptx::Operand &operand) {
  if (operand.kind != OperandKind::Opaque || operand.children.size() != 2 ||
      operand.children[0].kind != OperandKind::Symbol || !operand.children[0].component.empty() ||
      operand.children[1].kind != OperandKind::Register)
    return noSlot;
  const ptx::Operand &array = operand.children[0], &index = operand.children[1];
  std::optional<std::uint64_t> added = addedToIndex(operand.text, array.symbol, index.text);
  std::optional<SymbolInfo> info = symbol(array.symbol);
  const RegisterInfo *row = registerOf(index);
  if (!added || !info || info->elementBytes == 0 || !row || row->bytes == 0 || row->bytes > 8)
    return noSlot;
  // An index counts the array's scalars, even where the elements are vectors, and is unsigned
  // whatever the register's type (ptxas 13.0).
  const VectorHandlers &vector = vectorHandlers();
  Type type = row->bytes == 8 ? Type::U64 : Type::U32;
  Slot count = source(index, type);
  if (*added != 0) {
    Slot sum = temporary(sizeOf(type));
    emit(vector.integer(IntegerOp::Add, type), {sum, count, constant(*added, sizeOf(type))});
    count = sum;
  }
  Slot result = temporary(8);
  if (type == Type::U32)
    emit(vector.convert(Type::U64, Type::U32), {result, count});
  emit(vector.integer(IntegerOp::MulLo, Type::U64),
       {result, type == Type::U32 ? result : count, constant(info->elementBytes, 8)});
  Slot base = symbolAddress(array, 8);
  emit(vector.integer(IntegerOp::Add, Type::U64), {result, result, base});
  return result;
}

void FunctionDecoder::address(const ptx::Operand &operand, Op &op) {
  if (Slot slot = elementAddress(operand); slot != noSlot) {
    op.slot[4] = slot;
    op.addressSize = 8;
    op.immediate = 0;
    return;
  }
  if (operand.kind != OperandKind::Address || operand.children.empty()) {
    fail(fmt::format("operand '{}' is no address", operand.text));
    return;
  }
  const ptx::Operand &base = operand.children[0];
  op.immediate = static_cast<std::int64_t>(operand.bits);
  if (base.kind == OperandKind::Integer) {
    op.immediate += static_cast<std::int64_t>(base.bits);
    return;
  }
  if (base.kind == OperandKind::Register) {
    const RegisterInfo *info = registerOf(base);
    if (!info || (info->bytes != 4 && info->bytes != 8)) {
      fail(fmt::format("'{}' cannot be an address", base.text));
      return;
    }
    op.slot[4] = info->slot;
    op.addressSize = static_cast<std::uint8_t>(info->bytes);
    return;
  }
  if (base.kind != OperandKind::Symbol) {
    fail(fmt::format("'{}' cannot be an address", base.text));
    return;
  }
  std::optional<SymbolInfo> info = symbol(base.symbol);
  if (info && info->kind == SymbolInfo::KernelParameter && op.space != Space::Parameter) {
    op.immediate += static_cast<std::int64_t>(base.bits + parameterWindow + info->value);
    return;
  }
  bool isConstant = info && (info->kind == SymbolInfo::Global || info->kind == SymbolInfo::Shared ||
                             info->kind == SymbolInfo::ModuleShared);
  if (isConstant) {
    std::uint64_t value =
        info->kind == SymbolInfo::ModuleShared ? sharedOffset(info->value) : info->value;
    op.immediate += static_cast<std::int64_t>(base.bits + value);
    return;
  }
  op.slot[4] = symbolAddress(base, 8);
  op.addressSize = 8;
}

} // namespace tally::emulator
