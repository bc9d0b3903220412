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

/// The extents that a directive names; 1 each for those it leaves out.
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
  // A predicate is one mask: any 32-bit row of ones or zeros serves.
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

void ModuleDecoder::declareFunctions() {
  for (const ptx::Item &item : module.items()) {
    if (item.kind != ptx::ItemKind::Function)
      continue;
    const ptx::Function &function = *item.function;
    auto found = program->functionIndex.find(function.name);
    std::uint32_t index;
    if (found != program->functionIndex.end()) {
      index = found->second;
      if (!function.hasBody)
        continue;
      program->functions[index] = {};
    } else {
      index = static_cast<std::uint32_t>(program->functions.size());
      program->functions.emplace_back();
      program->functionIndex.emplace(function.name, index);
    }
    layOutFunction(function, program->functions[index]);
    symbols[function.name] = {SymbolInfo::Code, index};
  }
  for (const ptx::Alias &alias : module.aliases())
    if (const ptx::Function *function = module.function(alias.name)) {
      std::uint32_t index = program->functionIndex.find(function->name)->second;
      program->functionIndex.insert_or_assign(std::string(alias.name), index);
      symbols[alias.name] = {SymbolInfo::Code, index};
    }
}

void ModuleDecoder::declareShared(std::string_view name, std::uint64_t bytes,
                                  std::uint32_t alignment) {
  SharedVariable shared{bytes, alignment, 0};
  shared.fixedOffset = alignUp(moduleSharedEnd, alignment);
  moduleSharedEnd = shared.fixedOffset + shared.bytes;
  symbols[name] = {SymbolInfo::ModuleShared, sharedVariables.size()};
  sharedVariables.push_back(shared);
}

Result<void> ModuleDecoder::declareVariables() {
  if (module.source().find(reservedSharedName) != std::string_view::npos)
    declareShared(reservedSharedName, reservedSharedBytes, 128);
  for (const ptx::Item &item : module.items()) {
    for (const ptx::Variable &variable : item.variables) {
      if (variable.space == ptx::StateSpace::Shared) {
        if (variable.isExtern || variable.sizeInBytes == 0) {
          symbols[variable.name] = {SymbolInfo::DynamicShared, 0};
          continue;
        }
        declareShared(variable.name, variable.sizeInBytes, variable.alignment);
        continue;
      }
      if (variable.space != ptx::StateSpace::Global && variable.space != ptx::StateSpace::Const)
        continue; // textures and the like: an instruction that names one says so
      if (variable.isExtern && symbols.contains(variable.name))
        continue;
      std::uint64_t bytes = variable.sizeInBytes;
      Result<std::uint64_t> address = arena.allocate(bytes, std::byte{0});
      if (!address)
        return address.error();
      symbols[variable.name] = {SymbolInfo::Global, *address};
      if (variable.space == ptx::StateSpace::Const)
        program->constSegments.push_back({*address, *address + bytes});
      program->ownedMemory.push_back(*address);
    }
  }
  return {};
}

Result<void> ModuleDecoder::initialise(const ptx::Variable &variable) {
  std::uint32_t elementBytes = sizeOf(typeNamed(variable.type));
  std::uint64_t address = symbols[variable.name].value;
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
      auto found = symbols.find(value->symbol);
      if (found == symbols.end())
        return Error{fmt::format("line {}: the initialiser of {} names {}, which is not declared",
                                 module.lineOf(variable.name), variable.name, value->symbol)};
      const SymbolInfo &info = found->second;
      bits = info.kind == SymbolInfo::Code ? codeAddress(info.value) : info.value + value->bits;
      bits >>= shift;
    } else if (value->kind == ptx::OperandKind::Float64 && elementBytes == 4) {
      bits = std::bit_cast<std::uint32_t>(static_cast<float>(std::bit_cast<double>(bits)));
    } else if (value->kind == ptx::OperandKind::Float32 && elementBytes == 8) {
      bits = std::bit_cast<std::uint64_t>(
          double{std::bit_cast<float>(static_cast<std::uint32_t>(bits))});
    } else if (value->kind == ptx::OperandKind::Opaque) {
      return Error{fmt::format("line {}: the emulator lacks the initialiser '{}' of {}",
                               module.lineOf(variable.name), value->text, variable.name)};
    }
    std::uint64_t offset = each.element * elementBytes;
    if (offset + elementBytes > variable.sizeInBytes || elementBytes > 8)
      return Error{fmt::format("line {}: {} has more initialisers than elements",
                               module.lineOf(variable.name), variable.name)};
    std::memcpy(arena.host(address + offset), &bits, elementBytes);
  }
  return {};
}

Result<void> ModuleDecoder::initialiseVariables() {
  for (const ptx::Item &item : module.items())
    for (const ptx::Variable &variable : item.variables)
      if (!variable.initializers.empty() &&
          (variable.space == ptx::StateSpace::Global || variable.space == ptx::StateSpace::Const))
        if (Result<void> done = initialise(variable); !done)
          return done;
  return {};
}

Result<std::shared_ptr<const Program>> ModuleDecoder::decode() {
  program->text = std::string(module.source());
  program->code.emplace_back(); // so that 0 is nobody's program counter
  program->sources.emplace_back();
  declareFunctions();
  if (Result<void> done = declareVariables(); !done)
    return done.error();
  if (Result<void> done = initialiseVariables(); !done)
    return done.error();
  // Device functions first: shared memory of their own extends what every entry must hold.
  for (bool entries : {false, true})
    for (const ptx::Item &item : module.items()) {
      if (item.kind != ptx::ItemKind::Function || !item.function->hasBody ||
          item.function->isEntry != entries)
        continue;
      std::uint32_t index = program->functionIndex.find(item.function->name)->second;
      if (Result<void> done = FunctionDecoder(*this, *item.function, index).decode(); !done)
        return done.error();
    }
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
