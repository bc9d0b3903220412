// A function's frame, scopes and labels, and the dispatch of an instruction to its theme.
#include "decoder.h"
#include "handlers.h"

#include <fmt/format.h>

#include <algorithm>

namespace tally::emulator {

namespace {
constexpr std::uint64_t alignUp(std::uint64_t value, std::uint64_t alignment) {
  return alignment > 1 ? (value + alignment - 1) / alignment * alignment : value;
}

using Theme = bool (*)(FunctionDecoder &, const ptx::Instruction &);
constexpr Theme themes[] = {
    decodeBulkCopy, decodeCluster,  decodeMemory,  decodeInteger, decodeHalf,    decodeFloat,
    decodeCompare,  decodeMove,     decodeConvert, decodeControl, decodeBarrier, decodeWarpOp,
    decodeAtomic,   decodeMbarrier, decodeMatrix,  decodeVideo,   decodeTexture};
} // namespace

FunctionDecoder::FunctionDecoder(ModuleDecoder &owner, const ModuleUnit &unit,
                                 const ptx::Function &function, std::uint32_t index)
    : owner(owner), unit(unit), function(function), functionNumber(index) {
  localBytes = owner.program->functions[index].localBytes;
  scopes.emplace_back();
  for (const ptx::Statement &each : function.body)
    if (each.kind == ptx::StatementKind::Instruction && each.instruction.opcode == "call")
      callsOthers = true;
  sharedBytes = function.isEntry && !callsOthers ? 0 : owner.moduleSharedEnd;
}

Slot FunctionDecoder::rowOf(std::uint32_t bytes, std::uint32_t count) {
  Slot slot = frameBytes;
  frameBytes += static_cast<std::uint32_t>(alignUp(warpSize * bytes, 64)) * count;
  return slot;
}

Slot FunctionDecoder::temporary(std::uint32_t bytes) { return rowOf(bytes); }

Slot FunctionDecoder::temporaryPredicate() {
  Slot slot = frameBytes;
  frameBytes += 64;
  return slot;
}

Slot FunctionDecoder::carryFlag() {
  if (carry == noSlot)
    carry = temporaryPredicate();
  return carry;
}

void FunctionDecoder::layOutRegisters() {
  registers.resize(function.registerCount);
  std::uint32_t predicates = 0;
  for (const ptx::RegisterDeclaration &each : function.registers) {
    Type type = typeNamed(each.type);
    for (std::uint32_t i = 0; i < each.count; ++i) {
      RegisterInfo &info = registers[each.first + i];
      info.width = each.vectorWidth;
      if (type == Type::Pred)
        info.slot = predicates++;
      else {
        info.bytes = registerSizeOf(type);
        info.slot = rowOf(info.bytes, each.vectorWidth);
      }
    }
  }
  for (RegisterInfo &info : registers)
    if (info.bytes == 0 && info.slot != noSlot)
      info.slot = frameBytes + 4 * info.slot;
  for (const ptx::RegisterDeclaration &each : function.registers)
    for (std::uint32_t i = 0; i < each.count && each.name.starts_with("%tally_"); ++i)
      if (const RegisterInfo &info = registers[each.first + i]; info.slot != noSlot)
        code().unwrittenRows.emplace_back(info.slot, info.bytes == 0 ? 4 : info.bytes * warpSize);
  frameBytes += static_cast<std::uint32_t>(alignUp(std::uint64_t{4} * predicates, 64));
}

void FunctionDecoder::declareFormals() {
  Scope &outer = scopes[0];
  if (function.isEntry) {
    for (const ptx::Variable &each : function.parameters)
      outer.symbols[each.name] = {SymbolInfo::KernelParameter, each.paramOffset, 0};
    return;
  }
  auto declareList = [&](const std::vector<ptx::Variable> &variables,
                         std::vector<FormalParameter> &formals) {
    for (std::size_t i = 0; i < variables.size(); ++i) {
      if (!formals[i].inRegister) {
        outer.symbols[variables[i].name] = {SymbolInfo::Local, formals[i].offset, 0};
        continue;
      }
      for (const ptx::RegisterDeclaration &each : function.registers)
        if (each.name == variables[i].name && !each.isRange) {
          formals[i].offset = registers[each.first].slot;
          formals[i].bytes = registers[each.first].bytes;
          formals[i].width = registers[each.first].width;
          break; // parameters are the first of the function's registers
        }
    }
  };
  declareList(function.parameters, code().parameters);
  declareList(function.results, code().results);
}

void FunctionDecoder::declare(const ptx::Variable &variable) {
  SymbolInfo info;
  switch (variable.space) {
  case ptx::StateSpace::Shared:
    if (variable.isExtern || variable.sizeInBytes == 0) {
      info.kind = SymbolInfo::DynamicShared;
      break;
    }
    sharedBytes = alignUp(sharedBytes, variable.alignment);
    info = {SymbolInfo::Shared, sharedBytes, 0};
    sharedBytes += variable.sizeInBytes;
    break;
  case ptx::StateSpace::Local:
  case ptx::StateSpace::Param:
    localBytes = alignUp(localBytes, variable.alignment);
    info = {SymbolInfo::Local, localBytes, 0};
    localBytes += variable.sizeInBytes;
    break;
  default:
    return; // a use of the name is then refused with the name
  }
  info.elementBytes = elementBytesOf(variable);
  scopes[scope].symbols[variable.name] = info;
}

std::optional<SymbolInfo> FunctionDecoder::symbol(std::string_view name) const {
  for (std::uint32_t each = scope;; each = scopes[each].parent) {
    auto found = scopes[each].symbols.find(name);
    if (found != scopes[each].symbols.end())
      return found->second;
    if (each == 0)
      break;
  }
  return owner.symbol(unit, name);
}

std::uint32_t FunctionDecoder::sharedOffset(std::uint64_t variable) {
  const SharedVariable &shared = owner.sharedVariables[variable];
  if (!function.isEntry || callsOthers)
    return static_cast<std::uint32_t>(shared.fixedOffset);
  auto [found, isNew] = ownShared.try_emplace(variable, 0);
  if (isNew) {
    found->second = alignUp(sharedBytes, shared.alignment);
    sharedBytes = found->second + shared.bytes;
  }
  return static_cast<std::uint32_t>(found->second);
}

Op &FunctionDecoder::emit(const Op &op) {
  Op &added = program().code.emplace_back(op);
  added.guard = guard;
  added.guardNegated = guardNegated;
  added.sourceIndex = sourceIndex;
  return added;
}

Op &FunctionDecoder::emit(Handler handler, std::initializer_list<Slot> slots) {
  Op op;
  op.handler = handler;
  std::size_t i = 0;
  for (Slot each : slots)
    op.slot[i++] = each;
  return emit(op);
}

bool FunctionDecoder::fail(std::string why) {
  if (failure.empty())
    failure = std::move(why);
  return true;
}

void FunctionDecoder::branchTo(std::string_view label, std::uint32_t opIndex) {
  fixups.push_back({opIndex, scope, label});
}

std::uint32_t FunctionDecoder::branchTable(std::string_view label) {
  auto table = static_cast<std::uint32_t>(program().branchTables.size());
  program().branchTables.emplace_back();
  tableFixups.push_back({table, scope, label});
  return table;
}

const std::uint32_t *FunctionDecoder::findLabel(std::uint32_t from, std::string_view label) const {
  for (std::uint32_t each = from;; each = scopes[each].parent) {
    auto found = scopes[each].labels.find(label);
    if (found != scopes[each].labels.end())
      return &found->second;
    if (each == 0)
      return nullptr;
  }
}

Result<void> FunctionDecoder::resolveLabels() {
  auto unknown = [&](std::string_view label) {
    return Error{fmt::format("line {}: no label {} in {}", unit.module->lineOf(label), label,
                             function.name)};
  };
  for (const Fixup &each : fixups) {
    const std::uint32_t *pc = findLabel(each.scope, each.label);
    if (!pc)
      return unknown(each.label);
    program().code[each.op].immediate = *pc;
  }
  for (const TableFixup &each : tableFixups) {
    const std::vector<std::string_view> *names = nullptr;
    for (std::uint32_t at = each.scope; !names; at = scopes[at].parent) {
      auto found = scopes[at].targets.find(each.label);
      if (found != scopes[at].targets.end())
        names = &found->second;
      else if (at == 0)
        return unknown(each.label);
    }
    for (std::string_view name : *names) {
      const std::uint32_t *pc = findLabel(each.scope, name);
      if (!pc)
        return unknown(name);
      program().branchTables[each.table].push_back(*pc);
    }
  }
  return {};
}

void FunctionDecoder::decodeInstruction(const ptx::Statement &statement) {
  instruction = &statement.instruction;
  sourceIndex = static_cast<std::uint32_t>(program().sources.size());
  program().sources.push_back(
      {unit.textBegin +
           static_cast<std::uint32_t>(statement.text.data() - unit.module->source().data()),
       static_cast<std::uint32_t>(statement.text.size()), unit.module->lineOf(statement.text)});
  failure.clear();
  after.clear();
  guard = noSlot;
  if (instruction->guard) {
    bool negated = false;
    guard = predicateSource(instruction->guard->predicate, negated);
    guardNegated = negated;
  }
  std::size_t start = program().code.size(), firstFixup = fixups.size();
  bool known = false;
  for (Theme theme : themes)
    if (!failed() && (known = theme(*this, *instruction)))
      break;
  if (known && !failed()) {
    for (const Op &each : after)
      emit(each);
    // A form that a theme recognised but has no handler for is unimplemented like any other.
    const std::vector<Op> &code = program().code;
    if (std::all_of(code.begin() + static_cast<std::ptrdiff_t>(start), code.end(),
                    [](const Op &each) { return each.handler != nullptr; }))
      return;
  }
  program().code.resize(start);
  fixups.resize(firstFixup);
  program().unimplemented.push_back(failed() ? failure : "");
  emit(unimplemented, {}).extra = static_cast<std::uint32_t>(program().unimplemented.size() - 1);
}

void FunctionDecoder::decodeStatement(const ptx::Statement &statement) {
  switch (statement.kind) {
  case ptx::StatementKind::ScopeBegin:
    scopes.emplace_back().parent = scope;
    scope = static_cast<std::uint32_t>(scopes.size() - 1);
    break;
  case ptx::StatementKind::ScopeEnd:
    scope = scopes[scope].parent;
    break;
  case ptx::StatementKind::Label:
    scopes[scope].labels[statement.label] = static_cast<std::uint32_t>(program().code.size());
    break;
  case ptx::StatementKind::Instruction:
    decodeInstruction(statement);
    break;
  case ptx::StatementKind::Variable:
    for (const ptx::Variable &each : statement.variables)
      declare(each);
    break;
  case ptx::StatementKind::BranchTargets:
    scopes[scope].targets[statement.label].assign(statement.names.begin(), statement.names.end());
    break;
  default:
    break; // registers are laid out already; the other directives compute nothing
  }
}

Result<void> FunctionDecoder::decode() {
  layOutRegisters();
  declareFormals();
  code().entryPc = static_cast<std::uint32_t>(program().code.size());
  for (const ptx::Statement &each : function.body)
    decodeStatement(each);
  // Running off the end is a return.
  guard = noSlot;
  sourceIndex =
      program().sources.empty() ? 0 : static_cast<std::uint32_t>(program().sources.size() - 1);
  emit(returnFromFunction, {});
  if (Result<void> done = resolveLabels(); !done)
    return done;
  code().frameBytes = static_cast<std::uint32_t>(alignUp(frameBytes, 64));
  code().localBytes = static_cast<std::uint32_t>(alignUp(localBytes, 16));
  code().staticSharedBytes = static_cast<std::uint32_t>(sharedBytes);
  if (!function.isEntry && sharedBytes > owner.moduleSharedEnd)
    owner.moduleSharedEnd = sharedBytes;
  return {};
}

} // namespace tally::emulator
