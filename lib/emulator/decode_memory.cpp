// ld, st, ldu, prefetches, fences, cp.async and parameters. PTX ISA 9.7.9, 9.7.13.
#include "access.h"
#include "decoder.h"
#include "handlers.h"
#include "mbarrier.h"

#include <atomic>
#include <bit>
#include <cstring>

namespace tally::emulator {

Status nothing(Warp &, const Op &, std::uint32_t) { return Status::Next; }

namespace {

using ptx::Instruction;
using ptx::OperandKind;

Status fence(Warp &, const Op &, std::uint32_t) {
#ifndef __SANITIZE_THREAD__ // it does not model fences, and every access here is atomic anyway
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
  return Status::Next;
}

// ld.param of a kernel's parameter: one value for all lanes. `extra` holds the bytes per element,
// addressSize the register's bytes, and flags whether to extend the sign.
template <class R> Status loadParameter(Warp &warp, const Op &op, std::uint32_t mask) {
  const auto &parameters = warp.block->launch->parameters;
  std::uint64_t value = 0;
  std::memcpy(&value, parameters.data() + op.immediate, op.extra);
  if (op.flags) {
    std::uint32_t unused = 64 - 8 * op.extra;
    value = static_cast<std::uint64_t>(static_cast<std::int64_t>(value << unused) >> unused);
  }
  R *d = warp.row<R>(op.slot[0]);
  for (; mask; mask &= mask - 1)
    d[std::countr_zero(mask)] = static_cast<R>(value);
  return Status::Next;
}

std::uint32_t vectorWidth(const Instruction &instruction) {
  return instruction.has("v2") ? 2 : instruction.has("v4") ? 4 : instruction.has("v8") ? 8 : 1;
}

std::span<const ptx::Operand> elements(const ptx::Operand &operand) {
  return operand.kind == OperandKind::Vector ? operand.children
                                             : std::span<const ptx::Operand>(&operand, 1);
}

/// Returns the offset in the kernel's parameters when the address is a parameter's name.
std::optional<std::uint64_t> kernelParameter(FunctionDecoder &decoder,
                                             const ptx::Operand &address) {
  if (address.kind != OperandKind::Address || address.children.empty() ||
      address.children[0].kind != OperandKind::Symbol)
    return std::nullopt;
  std::optional<SymbolInfo> info = decoder.symbol(address.children[0].symbol);
  if (!info || info->kind != SymbolInfo::KernelParameter)
    return std::nullopt;
  return info->value + address.bits + address.children[0].bits;
}

/// A name in `.param` space is a local variable of a device function; a register is generic.
Space parameterSpace(FunctionDecoder &decoder, const ptx::Operand &address) {
  if (!address.children.empty() && address.children[0].kind == OperandKind::Symbol) {
    std::optional<SymbolInfo> info = decoder.symbol(address.children[0].symbol);
    if (info && info->kind == SymbolInfo::Local)
      return Space::Local;
  }
  return Space::Generic;
}

bool decodeParameterLoad(FunctionDecoder &decoder, std::span<const ptx::Operand> to, Type type,
                         std::uint64_t offset) {
  std::uint32_t bytes = sizeOf(type);
  if (bytes > 8)
    return false;
  if (offset + bytes * to.size() > decoder.code().parameterBytes)
    return decoder.fail("the load goes beyond the kernel's parameters");
  for (std::size_t n = 0; n < to.size(); ++n) {
    if (to[n].kind == OperandKind::Sink)
      continue;
    const RegisterInfo *info = decoder.registerOf(to[n]);
    if (!info || info->bytes == 0)
      return decoder.fail("a load needs registers to go to");
    Op op;
    op.handler = info->bytes == 2   ? loadParameter<std::uint16_t>
                 : info->bytes == 4 ? loadParameter<std::uint32_t>
                                    : loadParameter<std::uint64_t>;
    op.slot[0] = info->slot;
    op.extra = bytes;
    op.flags = isSigned(type);
    op.immediate = static_cast<std::int64_t>(offset + n * bytes);
    if (info->bytes > 8 || info->width > 1)
      return false;
    decoder.emit(op);
  }
  return true;
}

/// Returns the common size of the elements' registers; 0 when sizes differ or an element is no
/// register.
std::uint32_t commonRegisterBytes(FunctionDecoder &decoder, std::span<const ptx::Operand> all,
                                  Type type) {
  std::uint32_t bytes = 0;
  for (const ptx::Operand &each : all) {
    const RegisterInfo *info = decoder.registerOf(each);
    std::uint32_t mine = info && each.component.empty() && info->width == 1 ? info->bytes : 0;
    if (!mine)
      continue;
    if (bytes && bytes != mine)
      return registerSizeOf(type);
    bytes = mine;
  }
  return bytes >= sizeOf(type) && bytes ? bytes : registerSizeOf(type);
}

Type typeOfBytes(std::uint32_t bytes) {
  return bytes == 2 ? Type::B16 : bytes == 4 ? Type::B32 : bytes == 8 ? Type::B64 : Type::B128;
}

/// v8 of 32 bits (sm_100) becomes two accesses of four elements. A load copies the address first,
/// because the registers of its first half may include the address register.
bool emitHalves(FunctionDecoder &decoder, Op op, std::span<const ptx::Operand> values, Type type,
                std::uint32_t registerBytes, bool loads) {
  std::uint32_t count = static_cast<std::uint32_t>(values.size()) / 2;
  op.handler = loads ? vectorHandlers().load(type, registerBytes, count)
                     : vectorHandlers().store(type, registerBytes, count);
  if (!op.handler)
    return false;
  if (op.slot[4] != noSlot && loads && !decoder.failed()) {
    Slot kept = decoder.temporary(op.addressSize);
    decoder.emit(vectorHandlers().move(op.addressSize), {kept, op.slot[4]});
    op.slot[4] = kept;
  }
  Op halves[2] = {op, op};
  halves[1].immediate += std::int64_t{count} * sizeOf(type);
  Type row = typeOfBytes(registerBytes);
  for (std::uint32_t n = 0; n < values.size(); ++n)
    if (values[n].kind != OperandKind::Sink)
      halves[n / count].slot[n % count] =
          loads ? decoder.destination(values[n], row) : decoder.source(values[n], row);
  if (!decoder.failed())
    for (const Op &each : halves)
      decoder.emit(each);
  return true;
}

bool decodeAccess(FunctionDecoder &decoder, const Instruction &instruction, bool loads) {
  if (instruction.operands.size() < 2)
    return false;
  Type type = lastType(instruction);
  const ptx::Operand &where = instruction.operands[loads ? 1 : 0];
  auto values = elements(instruction.operands[loads ? 0 : 1]);
  std::uint32_t count = vectorWidth(instruction);
  if (type == Type::None || values.size() != count)
    return false;
  if (!loads && instruction.has("async") && instruction.operands.size() != 3)
    return false;
  Op op;
  op.space = spaceOf(instruction);
  if (op.space == Space::Parameter) {
    if (auto offset = kernelParameter(decoder, where))
      return loads ? decodeParameterLoad(decoder, values, type, *offset)
                   : decoder.fail("a kernel's parameters are read-only");
    op.space = parameterSpace(decoder, where);
  }
  std::uint32_t registerBytes = commonRegisterBytes(decoder, values, type);
  if (count == 8) {
    decoder.address(where, op);
    return emitHalves(decoder, op, values, type, registerBytes, loads);
  }
  op.handler = loads ? vectorHandlers().load(type, registerBytes, count)
                     : vectorHandlers().store(type, registerBytes, count);
  if (!op.handler)
    return false;
  decoder.address(where, op);
  for (std::uint32_t n = 0; n < count; ++n) {
    if (loads && values[n].kind == OperandKind::Sink)
      op.slot[n] = count > 1 ? noSlot : decoder.temporary(registerBytes);
    else
      op.slot[n] = loads ? decoder.destination(values[n], typeOfBytes(registerBytes))
                         : decoder.source(values[n], typeOfBytes(registerBytes));
  }
  if (decoder.failed())
    return true;
  // A relaxed access with a fence gives acquire or release; on x86-64 the fences cost little.
  if (!loads && instruction.has("release"))
    decoder.emit(fence, {});
  decoder.emit(op);
  if (!loads && instruction.has("async")) // done at once
    emitCompleteTransaction(decoder, instruction.operands[2], sizeOf(type) * count);
  if (loads && instruction.has("acquire"))
    decoder.emit(fence, {});
  return true;
}

// cp.async copies at once: a copy may always complete earlier than the wait for it.
Status copyAsync(Warp &warp, const Op &op, std::uint32_t mask) {
  std::uint64_t to[warpSize], from[warpSize];
  Op read = op;
  read.slot[4] = op.slot[5];
  read.addressSize = op.flags;
  read.space = Space::Global;
  read.immediate = static_cast<std::int32_t>(op.slot[7]);
  std::uint32_t bytes = op.extra;
  const auto *wanted = op.slot[6] == noSlot ? nullptr : warp.row<std::uint32_t>(op.slot[6]);
  std::uint32_t readers = mask;
  if (wanted)
    for (std::uint32_t i = 0; i < warpSize; ++i)
      if (wanted[i] == 0)
        readers &= ~(1u << i);
  if (!resolveAddresses(warp, op, mask, bytes, AccessKind::Write, to) ||
      (readers && !resolveAddresses(warp, read, readers, bytes, AccessKind::Read, from)))
    return Status::Fault;
  for (; mask; mask &= mask - 1) {
    int i = std::countr_zero(mask);
    std::uint32_t taken = wanted && wanted[i] < bytes ? wanted[i] : bytes;
    auto *target = reinterpret_cast<std::byte *>(to[i]);
    if (taken)
      std::memcpy(target, reinterpret_cast<const std::byte *>(from[i]), taken);
    std::memset(target + taken, 0, bytes - taken); // zeros fill the rest
  }
  return Status::Next;
}

bool decodeCopyAsync(FunctionDecoder &decoder, const Instruction &instruction) {
  if (instruction.has("bulk") || instruction.has("mbarrier"))
    return false;
  if (instruction.has("commit_group") || instruction.has("wait_group") ||
      instruction.has("wait_all")) {
    decoder.emit(nothing, {});
    return true;
  }
  const auto &operands = instruction.operands;
  if (operands.size() < 3 || operands.size() > 5 || operands[2].kind != OperandKind::Integer)
    return false;
  Op op, from;
  op.handler = copyAsync;
  op.space = Space::Shared;
  op.extra = static_cast<std::uint32_t>(operands[2].bits);
  if (op.extra != 4 && op.extra != 8 && op.extra != 16)
    return false;
  decoder.address(operands[0], op);
  decoder.address(operands[1], from);
  op.slot[5] = from.slot[4];
  op.flags = from.addressSize;
  op.slot[7] = static_cast<std::uint32_t>(from.immediate);
  if (op.slot[5] == noSlot) { // an address without a register does not fit the op's offset
    op.slot[5] = decoder.constant(static_cast<std::uint64_t>(from.immediate), 8);
    op.slot[7] = 0;
    op.flags = 8;
  }
  if (operands.size() > 3) {
    const RegisterInfo *info = decoder.registerOf(operands[3]);
    if (info && info->bytes == 0)
      return false; // the ignore-src predicate
    if (!instruction.has("L2::cache_hint") || operands.size() == 5)
      op.slot[6] = decoder.source(operands[3], Type::U32);
  }
  if (!decoder.failed())
    decoder.emit(op);
  return true;
}

} // namespace

bool decodeMemory(FunctionDecoder &decoder, const Instruction &instruction) {
  std::string_view opcode = instruction.opcode;
  if (opcode == "ld" || opcode == "ldu")
    return decodeAccess(decoder, instruction, true);
  if (opcode == "st")
    return decodeAccess(decoder, instruction, false);
  if (opcode == "membar" || opcode == "fence") {
    decoder.emit(fence, {});
    return true;
  }
  if (opcode == "prefetch" || opcode == "prefetchu" || opcode == "applypriority" ||
      opcode == "discard") {
    decoder.emit(nothing, {});
    return true;
  }
  if (opcode == "createpolicy" && !instruction.operands.empty()) {
    // A hint for the cache, which is not modelled: any value serves.
    Slot d = decoder.destination(instruction.operands[0], Type::B64);
    if (!decoder.failed())
      decoder.emit(vectorHandlers().move(8), {d, decoder.constant(0, 8)});
    return true;
  }
  if (opcode == "cp" && instruction.has("async"))
    return decodeCopyAsync(decoder, instruction);
  return false;
}

} // namespace tally::emulator
