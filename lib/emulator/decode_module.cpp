// Module-scope declarations: functions' frames, variables and their initialisers.
#include "decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace tally::emulator {

namespace {
constexpr std::uint64_t alignUp(std::uint64_t value, std::uint64_t alignment) {
  return alignment > 1 ? (value + alignment - 1) / alignment * alignment : value;
}

/// Returns the extents in a directive; 1 for each missing extent.
Dim3 extentsOf(const ptx::HeaderDirective &directive) {
  Dim3 all{1, 1, 1};
  std::uint32_t *each[] = {&all.x, &all.y, &all.z};
  for (std::size_t i = 0; i < directive.values.size() && i < 3; ++i)
    *each[i] = static_cast<std::uint32_t>(directive.values[i]);
  return all;
}

std::uint32_t launchLimit(const ptx::HeaderDirective &directive, Dim3 *extents) {
  Dim3 all = extentsOf(directive);
  if (extents)
    *extents = all;
  return static_cast<std::uint32_t>(all.count() < 1024 ? all.count() : 1024);
}
} // namespace

Slot ModuleDecoder::constant(std::uint64_t bits, std::uint32_t bytes) {
  if (bytes < 8)
    bits &= (std::uint64_t{1} << (8 * bytes)) - 1;
  auto [found, isNew] = constantSlots.try_emplace({bits, bytes}, noSlot);
  if (!isNew)
    return found->second;
  std::size_t offset = alignUp(constantBytes.size(), 64);
  constantBytes.resize(offset + std::size_t{warpSize} * bytes);
  for (std::uint32_t lane = 0; lane < warpSize; ++lane)
    std::memcpy(constantBytes.data() + offset + std::size_t{lane} * bytes, &bits,
                bytes < 8 ? bytes : 8);
  found->second = static_cast<Slot>(offset) | ConstantBase;
  return found->second;
}

Slot ModuleDecoder::predicateConstant(bool value) {
  // A predicate is one mask: any 32-bit row of all ones or zeros serves.
  return constant(value ? fullMask : 0, 4);
}

void ModuleDecoder::layOutFunction(const ptx::Function &function, FunctionCode &code) {
  code.name = function.name;
  code.isEntry = function.isEntry;
  code.hasBody = function.hasBody;
  if (const auto *limit = function.directive("maxntid"))
    code.maxThreads = launchLimit(*limit, nullptr);
  if (const auto *required = function.directive("reqntid"))
    code.maxThreads = launchLimit(*required, &code.requiredBlock);
  if (const auto *cluster = function.directive("reqnctapercluster"))
    code.requiredCluster = extentsOf(*cluster);
  if (const auto *limit = function.directive("maxclusterrank"); limit && !limit->values.empty())
    code.maxClusterRank =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(limit->values[0], code.maxClusterRank));
  code.demandsExplicitCluster = function.directive("explicitcluster") != nullptr;
  if (function.isEntry) {
    code.parameterBytes = function.parameterBytes();
    for (const ptx::Variable &each : function.parameters)
      code.entryParameters.push_back(
          {each.paramOffset, static_cast<std::uint32_t>(each.sizeInBytes)});
    return;
  }
  auto layOut = [&](const ptx::Variable &variable) {
    FormalParameter formal;
    formal.inRegister = variable.space == ptx::StateSpace::Register;
    formal.isPredicate = variable.type == "pred";
    formal.bytes = static_cast<std::uint32_t>(variable.sizeInBytes);
    if (!formal.inRegister) {
      formal.offset = static_cast<std::uint32_t>(alignUp(code.localBytes, variable.alignment));
      code.localBytes = formal.offset + formal.bytes;
    }
    return formal;
  };
  for (const ptx::Variable &each : function.parameters)
    code.parameters.push_back(layOut(each));
  for (const ptx::Variable &each : function.results)
    code.results.push_back(layOut(each));
}

ModuleDecoder::ModuleDecoder(std::span<const ptx::Module *const> modules,
                             GlobalMemory &globalMemory)
    : globalMemory(globalMemory) {
  for (const ptx::Module *each : modules) {
    units.push_back({each, static_cast<std::uint32_t>(program->text.size()), {}});
    program->text += each->source();
  }
}

std::optional<SymbolInfo> ModuleDecoder::symbol(const ModuleUnit &unit,
                                                std::string_view name) const {
  for (const auto *table : {&unit.symbols, &symbols})
    if (auto found = table->find(name); found != table->end())
      return found->second;
  return std::nullopt;
}

SymbolInfo &ModuleDecoder::declared(ModuleUnit &unit, std::string_view linkage,
                                    std::string_view name) {
  return linkage.empty() ? unit.symbols[name] : symbols[name];
}

Result<void> ModuleDecoder::declareFunctions(ModuleUnit &unit) {
  for (const ptx::Item &item : unit.module->items()) {
    if (item.kind != ptx::ItemKind::Function)
      continue;
    const ptx::Function &function = *item.function;
    // A declaration may omit the linkage of its definition.
    auto known = symbol(unit, function.name);
    std::uint32_t index;
    if (known && known->kind == SymbolInfo::Code) {
      index = static_cast<std::uint32_t>(known->value);
      if (!function.hasBody)
        continue;
      const ptx::Function *other = definitions[index];
      if (other && function.linkage != "weak" && other->linkage != "weak")
        return Error{fmt::format("line {}: {} is defined twice", unit.module->lineOf(function.name),
                                 function.name)};
      if (other)
        continue;
      program->functions[index] = {};
    } else {
      index = static_cast<std::uint32_t>(program->functions.size());
      program->functions.emplace_back();
      definitions.push_back(nullptr);
    }
    if (function.hasBody)
      definitions[index] = &function;
    layOutFunction(function, program->functions[index]);
    // An entry is launched by its name, whatever its linkage.
    if (function.isEntry)
      program->functionIndex.emplace(function.name, index);
    if (!known || known->kind != SymbolInfo::Code)
      declared(unit, function.linkage, function.name) = {SymbolInfo::Code, index, 0};
  }
  for (const ptx::Alias &alias : unit.module->aliases()) {
    const ptx::Function *function = unit.module->function(alias.name);
    auto known = function ? symbol(unit, function->name) : std::nullopt;
    for (auto *table : {&unit.symbols, &symbols})
      if (auto found = table->find(alias.name); known && found != table->end())
        found->second = *known;
  }
  return {};
}

std::uint32_t elementBytesOf(const ptx::Variable &variable) {
  return variable.isArray ? sizeOf(typeNamed(variable.type)) : 0;
}

SymbolInfo ModuleDecoder::declareShared(std::uint64_t bytes, std::uint32_t alignment) {
  SharedVariable shared{bytes, alignment, 0};
  shared.fixedOffset = alignUp(moduleSharedEnd, alignment);
  moduleSharedEnd = shared.fixedOffset + shared.bytes;
  sharedVariables.push_back(shared);
  return {SymbolInfo::ModuleShared, sharedVariables.size() - 1, 0};
}

Result<void> ModuleDecoder::declareVariable(ModuleUnit &unit, const ptx::Variable &variable,
                                            std::string_view linkage, bool isManaged) {
  bool isShared = variable.space == ptx::StateSpace::Shared;
  if (isShared && (variable.isExtern || variable.sizeInBytes == 0)) {
    unit.symbols[variable.name] = {SymbolInfo::DynamicShared, 0, elementBytesOf(variable)};
    return {};
  }
  if (!isShared && variable.space != ptx::StateSpace::Global &&
      variable.space != ptx::StateSpace::Const)
    return {}; // textures and similar: an instruction that names one reports it
  if (variable.isExtern) {
    externals.push_back(&variable);
    return {};
  }
  if (!linkage.empty()) {
    auto [found, isNew] = defined.try_emplace(variable.name, &variable);
    if (!isNew && linkage == "visible" && symbols.contains(variable.name))
      return Error{fmt::format("line {}: {} is defined twice", unit.module->lineOf(variable.name),
                               variable.name)};
    if (!isNew)
      return {};
  }
  if (isShared) {
    SymbolInfo info = declareShared(variable.sizeInBytes, variable.alignment);
    info.elementBytes = elementBytesOf(variable);
    declared(unit, linkage, variable.name) = info;
    return {};
  }
  std::uint64_t bytes = variable.sizeInBytes;
  Result<std::uint64_t> address = globalMemory.allocate(bytes, std::byte{0});
  if (!address)
    return address.error();
  declared(unit, linkage, variable.name) = {SymbolInfo::Global, *address, elementBytesOf(variable)};
  bool isConstant = variable.space == ptx::StateSpace::Const;
  if (isConstant)
    program->constSegments.push_back({*address, *address + bytes});
  program->ownedMemory.push_back(*address);
  program->variables.try_emplace(std::string(variable.name),
                                 VariableInfo{*address, bytes, isConstant, isManaged});
  return {};
}

namespace {
/// Returns the linkage directive at the start of the declaration, without its dot.
std::string_view linkageOf(const ptx::Item &item) {
  for (std::string_view each : {"visible", "weak", "common", "extern"})
    if (item.text.starts_with(".") && item.text.substr(1).starts_with(each))
      return each;
  return {};
}
} // namespace

Result<void> ModuleDecoder::declareVariables(ModuleUnit &unit) {
  if (unit.module->source().find(reservedSharedName) != std::string_view::npos &&
      !symbols.contains(reservedSharedName))
    symbols[reservedSharedName] = declareShared(reservedSharedBytes, 128);
  for (const ptx::Item &item : unit.module->items()) {
    bool isManaged = false;
    if (!item.variables.empty()) {
      std::string_view head = item.text.substr(0, item.text.find('='));
      std::size_t attribute = head.find(".attribute");
      isManaged = attribute != std::string_view::npos &&
                  head.substr(attribute, head.find(')', attribute) - attribute).find(".managed") !=
                      std::string_view::npos;
    }
    for (const ptx::Variable &variable : item.variables)
      if (Result<void> done = declareVariable(unit, variable, linkageOf(item), isManaged); !done)
        return done;
  }
  return {};
}

/// Gives memory to variables that no module defines, as a module that runs by itself needs.
Result<void> ModuleDecoder::resolveExternals() {
  for (const ptx::Variable *each : externals) {
    if (symbols.contains(each->name))
      continue;
    Result<std::uint64_t> address = globalMemory.allocate(each->sizeInBytes, std::byte{0});
    if (!address)
      return address.error();
    symbols[each->name] = {SymbolInfo::Global, *address, elementBytesOf(*each)};
    program->ownedMemory.push_back(*address);
  }
  return {};
}

Result<void> ModuleDecoder::initialise(const ModuleUnit &unit, const ptx::Variable &variable) {
  std::uint32_t elementBytes = sizeOf(typeNamed(variable.type));
  std::uint64_t address = symbol(unit, variable.name)->value;
  for (const ptx::Initializer &each : variable.initializers) {
    const ptx::Operand whole = each.value();
    const ptx::Operand *value = &whole;
    std::uint64_t bits = value->bits;
    std::uint32_t shift = 0;
    if (value->kind == ptx::OperandKind::Opaque && value->children.size() == 1 && value->bits) {
      // A byte mask: `0xFF00(symbol)` is byte 1 of the address.
      shift = static_cast<std::uint32_t>(std::countr_zero(value->bits));
      value = &value->children[0];
    }
    if (value->kind == ptx::OperandKind::Symbol) {
      auto found = symbol(unit, value->symbol);
      if (!found)
        return Error{fmt::format("line {}: the initialiser of {} names {}, which is not declared",
                                 unit.module->lineOf(variable.name), variable.name, value->symbol)};
      const SymbolInfo &info = *found;
      bits = info.kind == SymbolInfo::Code ? codeAddress(info.value) : info.value + value->bits;
      bits >>= shift;
    } else if (value->kind == ptx::OperandKind::Float64 && elementBytes == 4) {
      bits = std::bit_cast<std::uint32_t>(static_cast<float>(std::bit_cast<double>(bits)));
    } else if (value->kind == ptx::OperandKind::Float32 && elementBytes == 8) {
      bits = std::bit_cast<std::uint64_t>(
          double{std::bit_cast<float>(static_cast<std::uint32_t>(bits))});
    } else if (value->kind == ptx::OperandKind::Opaque) {
      return Error{fmt::format("line {}: the emulator lacks the initialiser '{}' of {}",
                               unit.module->lineOf(variable.name), value->text, variable.name)};
    }
    std::uint64_t offset = each.element * elementBytes;
    if (offset + elementBytes > variable.sizeInBytes || elementBytes > 8)
      return Error{fmt::format("line {}: {} has more initialisers than elements",
                               unit.module->lineOf(variable.name), variable.name)};
    std::memcpy(globalMemory.host(address + offset), &bits, elementBytes);
  }
  return {};
}

Result<void> ModuleDecoder::initialiseVariables() {
  for (const ModuleUnit &unit : units)
    for (const ptx::Item &item : unit.module->items())
      for (const ptx::Variable &variable : item.variables) {
        if (variable.initializers.empty() ||
            (variable.space != ptx::StateSpace::Global && variable.space != ptx::StateSpace::Const))
          continue;
        auto other = linkageOf(item).empty() ? defined.end() : defined.find(variable.name);
        if (other != defined.end() && other->second != &variable)
          continue; // another module's definition applies
        if (Result<void> done = initialise(unit, variable); !done)
          return done;
      }
  return {};
}

Result<void> ModuleDecoder::decodeBodies(bool entries) {
  for (const ModuleUnit &unit : units)
    for (const ptx::Item &item : unit.module->items()) {
      if (item.kind != ptx::ItemKind::Function || !item.function->hasBody ||
          item.function->isEntry != entries)
        continue;
      const ptx::Function &function = *item.function;
      auto index = static_cast<std::uint32_t>(symbol(unit, function.name)->value);
      if (definitions[index] != &function)
        continue;
      if (Result<void> done = FunctionDecoder(*this, unit, function, index).decode(); !done)
        return done.error();
    }
  return {};
}

Result<std::shared_ptr<const Program>> ModuleDecoder::decode() {
  program->code.emplace_back(); // so that no instruction has program counter 0
  program->sources.emplace_back();
  for (ModuleUnit &unit : units)
    if (Result<void> done = declareFunctions(unit); !done)
      return done.error();
  for (ModuleUnit &unit : units)
    if (Result<void> done = declareVariables(unit); !done)
      return done.error();
  if (Result<void> done = resolveExternals(); !done)
    return done.error();
  if (Result<void> done = initialiseVariables(); !done)
    return done.error();
  // Device functions come first: their shared memory adds to the shared memory of every entry.
  for (bool entries : {false, true})
    if (Result<void> done = decodeBodies(entries); !done)
      return done.error();
  for (FunctionCode &function : program->functions)
    if (!function.isEntry) {
      function.frameStart = program->levelBytes + static_cast<std::uint32_t>(sizeof(SavedRow));
      program->levelBytes = function.frameStart + function.frameBytes;
    }
  program->constants.grow(alignUp(constantBytes.size() + 64, 64));
  std::ranges::copy(constantBytes, program->constants.data());
  return std::shared_ptr<const Program>(program);
}

} // namespace tally::emulator
