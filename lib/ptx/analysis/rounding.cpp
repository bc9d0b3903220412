#include "rounding.h"

#include "definitions.h"
#include "loops.h"
#include "tally/ptx/analysis/opcodes.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"

#include <array>
#include <span>
#include <vector>

namespace tally::ptx {
namespace {

bool isApproximate(const Instruction &instruction) {
  return instruction.has("approx") || instruction.has("full");
}

class KnownTurns {
public:
  explicit KnownTurns(const Cfg &cfg)
      : cfg(cfg), known(cfg.function().registerCount, true), turns(known.size(), false) {
    findKnown();
    forEachLoop(cfg, [this](const Loop &loop) {
      if (hasKnownEnd(loop))
        addTurning(loop);
    });
    follow();
  }

  std::optional<std::uint32_t> firstApproximation() const {
    for (const auto &block : cfg.blocks())
      for (std::uint32_t statement : block->instructions) {
        const Instruction &each = cfg.instruction(statement);
        if (isApproximate(each) && each.operands.size() > 1 && mayBeFolded(each))
          return statement;
      }
    return std::nullopt;
  }

private:
  template <class Visit> void forEachInstruction(Visit visit) const {
    for (const auto &block : cfg.blocks())
      for (std::uint32_t statement : block->instructions)
        visit(cfg.instruction(statement));
  }

  bool isKnown(const Operand &operand) const {
    switch (operand.kind) {
    case OperandKind::Register:
      return known[operand.reg];
    case OperandKind::Integer:
    case OperandKind::Float32:
    case OperandKind::Float64:
      return true;
    default:
      return false;
    }
  }
  bool areKnown(std::span<const Operand> operands) const {
    return llvm::all_of(operands, [this](const Operand &each) { return isKnown(each); });
  }
  bool turnsWith(const Operand &operand) const {
    return operand.kind == OperandKind::Register && turns[operand.reg];
  }

  /// Of what immediates alone make; whether a branch was taken does not count.
  bool isOfKnown(const Instruction &instruction) const {
    bool readsCarry = intakeOf(instruction) == Intake::Carry && instruction.opcode.ends_with('c');
    return resultKindOf(instruction) == ResultKind::Pure && !readsCarry &&
           (!instruction.guard || isKnown(instruction.guard->predicate)) &&
           areKnown(instruction.operands.subspan(1));
  }

  void findKnown() {
    for (bool changed = true; changed;) {
      changed = false;
      forEachInstruction([&](const Instruction &each) {
        if (isOfKnown(each))
          return;
        forEachWrittenRegister(each, [&](const Operand &written) {
          changed |= known[written.reg];
          known[written.reg] = false;
        });
      });
    }
  }

  /// Whether a branch out of the loop is decided by known values.
  bool hasKnownEnd(const Loop &loop) const {
    return llvm::any_of(loop.blocks, [&](const CfgBlock *block) {
      const Instruction *last = cfg.terminator(*block);
      bool leaves =
          llvm::any_of(block->successors, [&](const CfgBlock *next) { return !loop.has(*next); });
      return leaves && last && last->guard && isKnown(last->guard->predicate);
    });
  }

  /// What the loop assigns and reads before: such a register is its turns'.
  void addTurning(const Loop &loop) {
    for (const CfgBlock *block : loop.blocks)
      for (std::uint32_t statement : block->instructions) {
        const Instruction &each = cfg.instruction(statement);
        forEachWrittenRegister(each, [&](const Operand &written) {
          if (known[written.reg] && readsItself(loop, written.reg))
            turns[written.reg] = true;
        });
      }
  }

  /// Whether a turn's value of the register is made of the one before.
  bool readsItself(const Loop &loop, RegisterId reg) const {
    std::vector<bool> from(known.size(), false);
    from[reg] = true;
    bool does = false;
    for (bool changed = true; changed && !does;) {
      changed = false;
      for (const CfgBlock *block : loop.blocks)
        for (std::uint32_t statement : block->instructions) {
          const Instruction &each = cfg.instruction(statement);
          bool reads = false;
          forEachReadRegister(each, [&](const Operand &read) { reads |= from[read.reg]; });
          if (!reads)
            continue;
          forEachWrittenRegister(each, [&](const Operand &written) {
            does |= written.reg == reg;
            changed |= !from[written.reg];
            from[written.reg] = true;
          });
        }
    }
    return does;
  }

  void follow() {
    for (bool changed = true; changed;) {
      changed = false;
      forEachInstruction([&](const Instruction &each) {
        bool reads = false;
        forEachReadRegister(each, [&](const Operand &read) { reads |= turns[read.reg]; });
        if (!reads)
          return;
        forEachWrittenRegister(each, [&](const Operand &written) {
          changed |= known[written.reg] && !turns[written.reg];
          turns[written.reg] = turns[written.reg] || known[written.reg];
        });
      });
    }
  }

  /// A division is folded by its divisor alone.
  bool mayBeFolded(const Instruction &instruction) const {
    auto sources = instruction.operands.subspan(1);
    if (turnsWith(sources.back()))
      return true;
    return areKnown(sources) &&
           llvm::any_of(sources, [this](const Operand &each) { return turnsWith(each); });
  }

  const Cfg &cfg;
  std::vector<bool> known; ///< by register: immediates make it, if the turns of loops are counted
  std::vector<bool> turns; ///< known, and another one in each turn of a loop
};

/// In a type of floating point, and nothing says how it is rounded.
bool isContractible(const Instruction &instruction) {
  auto isFloat = [](std::string_view type) {
    return type.starts_with("f16") || type.starts_with("bf16") || type.starts_with("f32") ||
           type == "f64";
  };
  return llvm::any_of(instruction.modifiers, isFloat) &&
         llvm::none_of(std::array{"rn", "rz", "rm", "rp"},
                       [&](const char *each) { return instruction.has(each); });
}

/// Products that copies alone bring to a register.
class Products {
public:
  explicit Products(const Cfg &cfg) : cfg(cfg), definitions(cfg) {}

  /// Whether one of the register's does not stand before `sum` in its block.
  bool comeFromElsewhere(RegisterId reg, std::uint32_t sum) {
    if (!seen.insert(reg).second)
      return false;
    return llvm::any_of(definitions.of(reg), [&](std::uint32_t by) {
      const Instruction &each = cfg.instruction(by);
      if (each.opcode == "mul" && isContractible(each))
        return cfg.blockOf(by) != cfg.blockOf(sum) || by > sum;
      return each.opcode == "mov" && each.operands.size() == 2 &&
             each.operands[1].kind == OperandKind::Register &&
             comeFromElsewhere(each.operands[1].reg, sum);
    });
  }
  bool areSummed(std::uint32_t statement) {
    const Instruction &sum = cfg.instruction(statement);
    if ((sum.opcode != "add" && sum.opcode != "sub") || !isContractible(sum))
      return false;
    seen.clear();
    return llvm::any_of(sum.operands.subspan(1), [&](const Operand &each) {
      return each.kind == OperandKind::Register && comeFromElsewhere(each.reg, statement);
    });
  }

private:
  const Cfg &cfg;
  const Definitions definitions;
  llvm::SmallDenseSet<RegisterId, 8> seen;
};

} // namespace

std::optional<std::uint32_t> contractionOverBlocks(const Cfg &cfg) {
  Products products(cfg);
  for (const auto &block : cfg.blocks())
    for (std::uint32_t statement : block->instructions)
      if (products.areSummed(statement))
        return statement;
  return std::nullopt;
}

std::optional<std::uint32_t> approximationOfTurns(const Cfg &cfg) {
  bool hasAny = llvm::any_of(cfg.function().body, [](const Statement &each) {
    return each.kind == StatementKind::Instruction && isApproximate(each.instruction);
  });
  return hasAny ? KnownTurns(cfg).firstApproximation() : std::nullopt;
}

} // namespace tally::ptx
