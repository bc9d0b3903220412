// Branches, calls, returns, exits and traps. PTX ISA 9.7.12.
#include "warp_scheduler.h"

#include "decoder.h"
#include "handlers.h"
#include "library_calls.h"

#include <fmt/format.h>

#include <bit>

namespace tally::emulator {

namespace {

using ptx::Instruction;
using ptx::OperandKind;

Status branch(Warp &warp, const Op &op, std::uint32_t mask) {
  return moveLanes(warp, mask, static_cast<std::uint32_t>(op.immediate));
}

Status branchIndexed(Warp &warp, const Op &op, std::uint32_t mask) {
  const auto *index = warp.row<std::uint32_t>(op.slot[0]);
  const auto &table = warp.block->program->branchTables[op.extra];
  std::uint32_t rest = mask;
  while (rest) {
    auto lane = static_cast<std::uint32_t>(std::countr_zero(rest));
    if (index[lane] >= table.size())
      return raise(warp, op, lane, FaultKind::OutOfBounds,
                   fmt::format("brx.idx with index {} of {} targets", index[lane], table.size()));
    std::uint32_t same = 0;
    for (std::uint32_t i = 0; i < warpSize; ++i)
      if ((rest >> i & 1u) && index[i] == index[lane])
        same |= 1u << i;
    rest &= ~same;
    Status moved = moveLanes(warp, same, table[index[lane]]);
    if (same == mask)
      return moved; // else the group has lost lanes, even if its last lanes went on
  }
  return Status::Reschedule;
}

/// No time passes, but other runnable warps go first.
Status nap(Warp &warp, const Op &, std::uint32_t mask) {
  warp.block->napped = true;
  Group back = warp.group();
  back.mask = mask;
  ++back.pc;
  return replaceLanes(warp, mask, back);
}

Status trap(Warp &warp, const Op &op, std::uint32_t mask) {
  return raise(warp, op, static_cast<std::uint32_t>(std::countr_zero(mask)), FaultKind::Trap,
               "trap");
}

// Calls -----------------------------------------------------------------------------------------

static_assert(warpSize == 32, "SavedRow has a column for each lane");

/// Returns the offset of the registers of a function at call depth `depth`; 0: the kernel's own.
std::uint32_t frameOf(const Block &block, std::uint32_t depth, std::uint32_t function) {
  if (depth == 0)
    return 0;
  const Program &program = *block.program;
  return block.launch->function->frameBytes + (depth - 1) * program.levelBytes +
         program.functions[function].frameStart;
}

constexpr std::uint32_t maximumDepth = 1024;
constexpr std::uint32_t maximumLocalBytes = 512 * 1024;

std::byte *localOf(Warp &warp, std::uint32_t lane, std::uint64_t offset) {
  return warp.local.data() + std::size_t{lane} * warp.localStride + offset;
}

void growLocal(Warp &warp, std::uint32_t needed) {
  if (needed <= warp.localStride)
    return;
  std::uint32_t stride = std::max(needed, warp.localStride * 2);
  stride = (stride + 63) / 64 * 64;
  std::vector<std::byte> larger(std::size_t{stride} * warpSize, unwrittenByte);
  for (std::uint32_t lane = 0; lane < warpSize; ++lane)
    if (warp.localStride)
      std::memcpy(larger.data() + std::size_t{lane} * stride, localOf(warp, lane, 0),
                  warp.localStride);
  warp.local = std::move(larger);
  warp.localStride = stride;
}

/// An argument or a result on one side of a call: in local memory, or in a register's rows.
struct ValuePlace {
  bool inRegister;
  std::uint32_t frame; ///< the begin of the function's rows, or of its part of local memory
  std::uint64_t offset;
  std::uint32_t bytes, width;

  std::byte *of(Warp &warp, std::uint32_t lane, std::uint32_t component) const {
    if (!inRegister)
      return localOf(warp, lane, frame + offset);
    auto slot = static_cast<Slot>(offset);
    std::byte *base = (slot & 3u) == FrameBase ? warp.rows.data() + frame : warp.base[slot & 3u];
    return base + (slot & ~3u) + std::size_t{component} * rowBytes(bytes) +
           std::size_t{lane} * bytes;
  }
};

ValuePlace placeOf(const FormalParameter &formal, const Group &callee) {
  return {formal.inRegister, formal.inRegister ? callee.frame : callee.local, formal.offset,
          formal.bytes, formal.width};
}

ValuePlace placeOf(const CallArgument &argument, const Group &caller, std::uint32_t bytes) {
  bool isSingle = argument.single != 0 && bytes == 4;
  return {argument.inRegister, argument.inRegister ? caller.frame : caller.local,
          isSingle ? argument.single : argument.offset, isSingle ? 4 : argument.bytes,
          argument.width};
}

/// Copies one argument or result between the frames.
void copyValue(Warp &warp, std::uint32_t mask, const ValuePlace &to, const ValuePlace &from) {
  std::uint32_t bytes = std::min(to.bytes, from.bytes);
  for (; mask; mask &= mask - 1) {
    auto lane = static_cast<std::uint32_t>(std::countr_zero(mask));
    for (std::uint32_t component = 0; component < std::min(to.width, from.width); ++component)
      std::memmove(to.of(warp, lane, component), from.of(warp, lane, component), bytes);
  }
}

Status enter(Warp &warp, const Op &op, std::uint32_t mask, const CallSite &site,
             std::uint32_t calleeIndex) {
  const Program &program = *warp.block->program;
  const FunctionCode &callee = program.functions[calleeIndex];
  auto firstLane = static_cast<std::uint32_t>(std::countr_zero(mask));
  if (!callee.hasBody)
    return raise(warp, op, firstLane, FaultKind::Unimplemented,
                 fmt::format("the function {} has no body", callee.name));
  if (callee.isEntry || callee.parameters.size() != site.arguments.size())
    return raise(warp, op, firstLane, FaultKind::Trap,
                 fmt::format("{} does not take these arguments", callee.name));
  Group caller = warp.group();
  Group inside = caller;
  const FunctionCode &outer = program.functions[caller.function];
  inside.mask = mask;
  inside.pc = callee.entryPc;
  inside.function = calleeIndex;
  inside.local = caller.local + outer.localBytes;
  inside.depth = caller.depth + 1;
  if (inside.depth > maximumDepth || inside.local + callee.localBytes > maximumLocalBytes)
    return raise(warp, op, firstLane, FaultKind::Trap,
                 fmt::format("stack overflow: {} calls deep in {}", inside.depth, callee.name));
  inside.frame = frameOf(*warp.block, inside.depth, calleeIndex);
  warp.rows.grow(inside.frame + callee.frameBytes);
  growLocal(warp, inside.local + callee.localBytes);
  auto *saved = reinterpret_cast<SavedRow *>(warp.rows.data() + inside.frame - sizeof(SavedRow));
  for (std::uint32_t rest = mask; rest; rest &= rest - 1) {
    int lane = std::countr_zero(rest);
    saved->pc[lane] = caller.pc + 1;
    saved->site[lane] = op.extra;
    saved->function[lane] = caller.function;
  }
  for (std::size_t i = 0; i < site.arguments.size(); ++i) {
    const FormalParameter &to = callee.parameters[i];
    copyValue(warp, mask, placeOf(to, inside), placeOf(site.arguments[i], caller, to.bytes));
  }
  return replaceLanes(warp, mask, inside);
}

Status call(Warp &warp, const Op &op, std::uint32_t mask) {
  const CallSite &site = warp.block->program->calls[op.extra];
  return enter(warp, op, mask, site, site.function);
}

Status callIndirect(Warp &warp, const Op &op, std::uint32_t mask) {
  const auto *target = warp.row<std::uint64_t>(op.slot[0]);
  const Program &program = *warp.block->program;
  auto lane = static_cast<std::uint32_t>(std::countr_zero(mask));
  std::uint64_t address = target[lane];
  std::uint64_t index = (address - codeAddress(0)) / 16;
  if (address < codeAddress(0) || address % 16 || index >= program.functions.size())
    return raise(warp, op, lane, FaultKind::OutOfBounds,
                 fmt::format("an indirect call of {:#x}, which is no function", address));
  std::uint32_t same = 0;
  for (std::uint32_t i = 0; i < warpSize; ++i)
    if ((mask >> i & 1u) && target[i] == address)
      same |= 1u << i;
  // Lanes with other targets stay at this op and execute it again separately.
  if (same != mask)
    splitLanes(warp, mask & ~same, warp.group().pc);
  return enter(warp, op, same, program.calls[op.extra], static_cast<std::uint32_t>(index));
}

bool callOperand(FunctionDecoder &decoder, const ptx::Operand &operand, CallArgument &argument) {
  if (operand.kind == OperandKind::Symbol) {
    std::optional<SymbolInfo> info = decoder.symbol(operand.symbol);
    if (!info || info->kind != SymbolInfo::Local)
      return false;
    argument.offset = static_cast<std::uint32_t>(info->value);
    argument.bytes = ~0u; // the callee's formal parameter has the number
    return true;
  }
  const RegisterInfo *info = decoder.registerOf(operand);
  if (info && info->bytes && operand.component.empty()) {
    argument = {true, info->slot, info->bytes, info->width};
    return true;
  }
  return false;
}

bool callOperands(FunctionDecoder &decoder, const ptx::Operand &list,
                  std::vector<CallArgument> &arguments) {
  for (const ptx::Operand &each : list.children) {
    CallArgument argument;
    // The callee's formal parameter tells how many of the bytes are used.
    if (each.kind == OperandKind::Integer || each.kind == OperandKind::Float32)
      argument = {true, decoder.constant(each.bits, 8), 8};
    else if (each.kind == OperandKind::Float64)
      argument = {true, decoder.source(each, Type::F64), 8, 1, decoder.source(each, Type::F32)};
    else if (!callOperand(decoder, each, argument))
      return false;
    arguments.push_back(argument);
  }
  return true;
}

bool decodeCall(FunctionDecoder &decoder, const Instruction &instruction) {
  CallSite site;
  std::span<const ptx::Operand> operands = instruction.operands;
  if (!operands.empty() && operands[0].kind == OperandKind::List) {
    if (!callOperands(decoder, operands[0], site.results))
      return false;
    operands = operands.subspan(1);
  }
  if (operands.empty())
    return false;
  const ptx::Operand &callee = operands[0];
  if (operands.size() > 1 && operands[1].kind == OperandKind::List &&
      !callOperands(decoder, operands[1], site.arguments))
    return false;
  Program &program = decoder.program();
  Op op;
  op.extra = static_cast<std::uint32_t>(program.calls.size());
  if (callee.kind == OperandKind::Register) {
    op.handler = callIndirect;
    op.slot[0] = decoder.source(callee, Type::U64);
  } else {
    std::optional<SymbolInfo> found = decoder.symbol(callee.symbol);
    if (!found || found->kind != SymbolInfo::Code)
      return decoder.fail(fmt::format("no function {}", callee.symbol));
    site.function = static_cast<std::uint32_t>(found->value);
    const FunctionCode &function = program.functions[site.function];
    op.handler = call;
    if (!function.hasBody)
      if (Handler known = libraryCall(function.name, site.arguments.size()))
        op.handler = known;
  }
  if (decoder.failed())
    return true;
  program.calls.push_back(std::move(site));
  decoder.emit(op);
  return true;
}

bool decodeBranch(FunctionDecoder &decoder, const Instruction &instruction) {
  if (instruction.opcode == "brx") {
    if (instruction.operands.size() != 2)
      return false;
    Slot index = decoder.source(instruction.operands[0], Type::U32);
    if (!decoder.failed())
      decoder.emit(branchIndexed, {index}).extra =
          decoder.branchTable(instruction.operands[1].symbol);
    return true;
  }
  if (instruction.operands.size() != 1 || instruction.operands[0].symbol.empty())
    return false;
  decoder.emit(branch, {});
  decoder.branchTo(instruction.operands[0].symbol,
                   static_cast<std::uint32_t>(decoder.program().code.size() - 1));
  return true;
}

} // namespace

Status exitThread(Warp &warp, const Op &, std::uint32_t mask) { return retireLanes(warp, mask); }

Status returnFromFunction(Warp &warp, const Op &, std::uint32_t mask) {
  Group inside = warp.group();
  if (inside.depth == 0)
    return retireLanes(warp, mask);
  const Program &program = *warp.block->program;
  const FunctionCode &callee = program.functions[inside.function];
  const auto *saved =
      reinterpret_cast<const SavedRow *>(warp.rows.data() + inside.frame - sizeof(SavedRow));
  // Lanes that were called from different places return to different places.
  std::uint32_t rest = mask;
  while (rest) {
    auto lane = static_cast<std::uint32_t>(std::countr_zero(rest));
    std::uint32_t same = 0;
    for (std::uint32_t i = 0; i < warpSize; ++i)
      if ((rest >> i & 1u) && saved->pc[i] == saved->pc[lane] &&
          saved->site[i] == saved->site[lane] && saved->function[i] == saved->function[lane])
        same |= 1u << i;
    rest &= ~same;
    const CallSite &site = program.calls[saved->site[lane]];
    const FunctionCode &outer = program.functions[saved->function[lane]];
    Group back = inside;
    back.mask = same;
    back.pc = saved->pc[lane];
    back.function = saved->function[lane];
    back.local = inside.local - outer.localBytes;
    back.depth = inside.depth - 1;
    back.frame = frameOf(*warp.block, back.depth, back.function);
    for (std::size_t i = 0; i < site.results.size() && i < callee.results.size(); ++i) {
      const FormalParameter &from = callee.results[i];
      copyValue(warp, same, placeOf(site.results[i], back, from.bytes), placeOf(from, inside));
    }
    replaceLanes(warp, same, back);
  }
  return Status::Reschedule;
}

bool decodeControl(FunctionDecoder &decoder, const Instruction &instruction) {
  std::string_view opcode = instruction.opcode;
  if (opcode == "bra" || opcode == "brx")
    return decodeBranch(decoder, instruction);
  if (opcode == "call")
    return decodeCall(decoder, instruction);
  Handler handler = opcode == "ret"         ? returnFromFunction
                    : opcode == "exit"      ? exitThread
                    : opcode == "trap"      ? trap
                    : opcode == "nanosleep" ? nap
                                            : nullptr;
  if (opcode == "griddepcontrol" || opcode == "brkpt" || opcode == "pmevent" ||
      opcode == "setmaxnreg")
    handler = nothing;
  if (!handler)
    return false;
  decoder.emit(handler, {});
  return true;
}

} // namespace tally::emulator
