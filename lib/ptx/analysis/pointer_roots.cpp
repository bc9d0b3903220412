#include "pointer_roots.h"

#include "tally/ptx/analysis/opcodes.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSwitch.h"

#include <optional>

namespace tally::ptx {
namespace {

using Place = std::pair<std::string_view, std::int64_t>;

/// Returns the place that `operand` names, the address of a parameter plus constants.
std::optional<Place> placeOf(const Cfg &cfg, const Definitions &whole, const Operand &operand,
                             unsigned depth) {
  if (operand.kind == OperandKind::Symbol)
    return Place(operand.symbol, static_cast<std::int64_t>(operand.bits));
  if (operand.kind != OperandKind::Register || depth == 0 || whole.of(operand.reg).size() != 1)
    return std::nullopt;
  const Instruction &made = cfg.instruction(whole.of(operand.reg).front());
  if (made.guard)
    return std::nullopt;
  if (made.opcode == "mov" && made.operands.size() == 2)
    return placeOf(cfg, whole, made.operands[1], depth - 1);
  if (made.opcode != "add" || made.operands.size() != 3 ||
      made.operands[2].kind != OperandKind::Integer)
    return std::nullopt;
  auto place = placeOf(cfg, whole, made.operands[1], depth - 1);
  if (place)
    place->second += static_cast<std::int64_t>(made.operands[2].bits);
  return place;
}

class RootFinder {
public:
  RootFinder(const Cfg &cfg, const Definitions &whole) : cfg(cfg), whole(whole) {}

  PointerRoots run(const Operand &address) {
    for (const Operand &child : address.children)
      follow(child);
    return std::move(roots);
  }

private:
  void follow(const Operand &operand) {
    switch (operand.kind) {
    case OperandKind::Symbol:
      roots.known.emplace(operand.symbol, 0);
      return;
    case OperandKind::Register:
      if (visited.insert(operand.reg).second)
        for (std::uint32_t statement : whole.of(operand.reg))
          followAssignment(cfg.instruction(statement), operand.reg);
      return;
    case OperandKind::Integer:
    case OperandKind::SpecialRegister:
      return;
    default:
      roots.unknown = true;
    }
  }

  void followAssignment(const Instruction &instruction, RegisterId reg) {
    const auto &operands = instruction.operands;
    std::string_view type = instruction.modifiers.empty() ? "" : instruction.modifiers.back();
    // A smaller type cannot hold a pointer; a product, a shift or a conversion is an offset.
    bool is64 = type.ends_with("64");
    auto kind = llvm::StringSwitch<int>(
                    llvm::StringRef(instruction.opcode.data(), instruction.opcode.size()))
                    .Cases({"mul", "shl", "shr", "cvt", "mul24"}, 0)
                    .Cases({"mov", "cvta", "add", "sub", "and", "or", "min", "max"}, 1)
                    .Case("selp", 1)
                    .Cases({"mad", "mad24"}, 2)
                    .Case("ld", 3)
                    .Default(4);
    if (kind == 0 || (kind == 1 && !is64))
      return;
    if (kind == 1) {
      for (std::size_t i = 1; i != operands.size(); ++i)
        follow(operands[i]);
    } else if (kind == 2) {
      follow(operands.back());
    } else if (kind == 3 && !is64) {
      return;
    } else if (auto place =
                   kind == 3 ? loadedParameter(cfg, whole, instruction, reg) : std::nullopt) {
      roots.known.insert(*place);
    } else {
      roots.unknown = true;
    }
  }

  const Cfg &cfg;
  const Definitions &whole;
  llvm::DenseSet<RegisterId> visited;
  PointerRoots roots;
};

} // namespace

std::optional<Place> loadedParameter(const Cfg &cfg, const Definitions &whole,
                                     const Instruction &load, RegisterId reg) {
  if (load.opcode != "ld" || !load.has("param") || load.operands.size() != 2 ||
      load.operands[1].children.size() != 1 || load.modifiers.back().size() != 3)
    return std::nullopt;
  auto place = placeOf(cfg, whole, load.operands[1].children[0], 4);
  if (!place || llvm::none_of(cfg.function().parameters,
                              [&](const Variable &each) { return each.name == place->first; }))
    return std::nullopt;
  place->second += static_cast<std::int64_t>(load.operands[1].bits);
  for (const Operand &child : load.operands[0].children) {
    if (child.reg == reg)
      break;
    place->second += load.modifiers.back().ends_with("64") ? 8 : 4;
  }
  return place;
}

bool PointerRoots::meets(const PointerRoots &other) const {
  return (unknown && other.unknown) ||
         llvm::any_of(known, [&](const Place &each) { return other.known.contains(each); });
}

void PointerRoots::add(const PointerRoots &other) {
  known.insert(other.known.begin(), other.known.end());
  unknown |= other.unknown;
}

PointerRoots rootsOfAddress(const Cfg &cfg, const Definitions &whole,
                            const Instruction &instruction) {
  for (const Operand &operand : instruction.operands)
    if (operand.kind == OperandKind::Address)
      return RootFinder(cfg, whole).run(operand);
  PointerRoots roots;
  roots.unknown = true;
  return roots;
}

} // namespace tally::ptx
