#include "rounding.h"

#include "definitions.h"
#include "loops.h"
#include "tally/ptx/analysis/opcodes.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <array>
#include <set>
#include <span>
#include <utility>
#include <vector>

namespace tally::ptx {
namespace {

bool isApproximate(const Instruction &instruction) {
  return instruction.has("approx") || instruction.has("full");
}

/// Registers that follow from immediates alone, if the turns of loops are counted.
class KnownTurns {
public:
  KnownTurns(const Cfg &cfg, const Definitions &definitions)
      : cfg(cfg), definitions(definitions), known(cfg.function().registerCount, true),
        turns(known.size(), false) {
    findKnown();
    forEachLoop(cfg, [this](const Loop &loop) {
      if (hasKnownEnd(loop))
        addTurning(loop);
    });
    follow();
  }

  /// Whether known values decide a branch out of the loop.
  bool hasKnownEnd(const Loop &loop) const {
    return llvm::any_of(loop.blocks, [&](const CfgBlock *block) {
      const Instruction *last = cfg.terminator(*block);
      bool leaves =
          llvm::any_of(block->successors, [&](const CfgBlock *next) { return !loop.has(*next); });
      return leaves && last && last->guard && isKnown(last->guard->predicate);
    });
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

  /// Whether immediates alone make the result, whatever branches were taken.
  bool isOfKnown(const Instruction &instruction) const {
    bool readsCarry = intakeOf(instruction) == Intake::Carry && instruction.opcode.ends_with('c');
    return resultKindOf(instruction) == ResultKind::Pure && !readsCarry &&
           !instruction.operands.empty() &&
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

  /// Marks known registers that the loop assigns and that have another assignment: their value
  /// changes with each turn.
  void addTurning(const Loop &loop) {
    for (const CfgBlock *block : loop.blocks)
      for (std::uint32_t statement : block->instructions)
        forEachWrittenRegister(cfg.instruction(statement), [&](const Operand &written) {
          if (known[written.reg] && definitions.of(written.reg).size() > 1)
            turns[written.reg] = true;
        });
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

  /// ptxas folds a division whose divisor alone is known.
  bool mayBeFolded(const Instruction &instruction) const {
    auto sources = instruction.operands.subspan(1);
    if (turnsWith(sources.back()))
      return true;
    return areKnown(sources) &&
           llvm::any_of(sources, [this](const Operand &each) { return turnsWith(each); });
  }

  const Cfg &cfg;
  const Definitions &definitions;
  std::vector<bool> known; ///< immediates determine the register, if turns are counted
  /// By register: whether it is known and different in each turn of a loop.
  std::vector<bool> turns;
};

/// Whether the instruction is of floating point and has no rounding modifier.
bool isContractible(const Instruction &instruction) {
  auto isFloat = [](std::string_view type) {
    return type.starts_with("f16") || type.starts_with("bf16") || type.starts_with("f32") ||
           type == "f64";
  };
  return llvm::any_of(instruction.modifiers, isFloat) &&
         llvm::none_of(std::array{"rn", "rz", "rm", "rp"},
                       [&](const char *each) { return instruction.has(each); });
}

bool isProduct(const Instruction &instruction) {
  return instruction.opcode == "mul" && isContractible(instruction);
}
bool isSum(const Instruction &instruction) {
  return (instruction.opcode == "add" || instruction.opcode == "sub") &&
         !instruction.operands.empty() && isContractible(instruction);
}

/// Paths from products to sums, and whether polls stand in them.
class Contractions {
public:
  Contractions(const Cfg &cfg, const Definitions &definitions, const KnownTurns &turns,
               llvm::ArrayRef<std::uint32_t> polls)
      : cfg(cfg), definitions(definitions) {
    for (std::uint32_t poll : polls)
      points.push_back(firstInstruction(poll));
    llvm::erase_if(points, [&](std::uint32_t each) { return !cfg.blockOf(each); });
    forEachLoop(cfg, [&](const Loop &loop) {
      if (llvm::any_of(points, [&](std::uint32_t each) { return loop.has(*cfg.blockOf(each)); }))
        loops.push_back({loop.contains, turns.hasKnownEnd(loop)});
    });
  }

  /// Whether a product reaches the sum across a poll, and ptxas might contract both without the
  /// poll.
  bool isCut(std::uint32_t sum) {
    seen.clear();
    return llvm::any_of(cfg.instruction(sum).operands.subspan(1), [&](const Operand &each) {
      return each.kind == OperandKind::Register && comesPastPoll(each.reg, sum, sum, false);
    });
  }

private:
  struct PolledLoop {
    std::vector<bool> contains; ///< by block number
    bool hasKnownEnd;
  };

  std::uint32_t firstInstruction(std::uint32_t statement) const {
    const auto &body = cfg.function().body;
    while (statement + 1 < body.size() && body[statement].kind != StatementKind::Instruction)
      ++statement;
    return statement;
  }

  /// Follows copies back from `reader`. `past`: whether a poll stands behind `reader` already.
  bool comesPastPoll(RegisterId reg, std::uint32_t reader, std::uint32_t sum, bool past) {
    if (!seen.insert({reg, past}).second)
      return false;
    return llvm::any_of(definitions.of(reg), [&](std::uint32_t by) {
      const Instruction &each = cfg.instruction(by);
      bool isCopy = each.opcode == "mov" && each.operands.size() == 2 &&
                    each.operands[1].kind == OperandKind::Register;
      if (!isCopy && !isProduct(each))
        return false;
      bool isPast = past || llvm::any_of(points, [&](std::uint32_t poll) {
                      return standsBetween(reg, by, poll, reader);
                    });
      if (isCopy)
        return comesPastPoll(each.operands[1].reg, by, sum, isPast);
      return isPast && mayComeTogether(by, sum);
    });
  }

  /// Whether `poll` stands on a path from the register's assignment `by` to `reader`.
  bool standsBetween(RegisterId reg, std::uint32_t by, std::uint32_t poll,
                     std::uint32_t reader) const {
    // A path into the block from its begin passes the assignment again.
    if (cfg.blockOf(by) == cfg.blockOf(reader) && by < reader)
      return by < poll && poll <= reader && cfg.blockOf(poll) == cfg.blockOf(by);
    return reaches(reg, by, false, poll) && reaches(reg, poll, true, reader);
  }

  /// Whether ptxas may bring both together: of two turns of a loop, where it unrolls some; of a
  /// value from before the loop, where it unrolls all.
  bool mayComeTogether(std::uint32_t product, std::uint32_t sum) const {
    return llvm::any_of(loops, [&](const PolledLoop &each) {
      return each.contains[cfg.blockOf(sum)->number] &&
             (each.hasKnownEnd || each.contains[cfg.blockOf(product)->number]);
    });
  }

  /// Whether a path leads to `to` from behind `from`, or with `itself` from before `from`, without
  /// a new assignment of the register.
  bool reaches(RegisterId reg, std::uint32_t from, bool itself, std::uint32_t to) const {
    std::vector<bool> entered(cfg.size(), false);
    llvm::SmallVector<const CfgBlock *, 16> blocks;
    auto goesThrough = [&](const CfgBlock &block, auto first) {
      for (auto at = first; at != block.instructions.end(); ++at) {
        if (*at == to)
          return true;
        if (llvm::is_contained(definitions.of(reg), *at))
          return false;
      }
      for (const CfgBlock *next : block.successors)
        if (!entered[next->number]) {
          entered[next->number] = true;
          blocks.push_back(next);
        }
      return false;
    };
    const CfgBlock &start = *cfg.blockOf(from);
    if (goesThrough(start, llvm::find(start.instructions, from) + (itself ? 0 : 1)))
      return true;
    while (!blocks.empty()) {
      const CfgBlock *block = blocks.pop_back_val();
      if (goesThrough(*block, block->instructions.begin()))
        return true;
    }
    return false;
  }

  const Cfg &cfg;
  const Definitions &definitions;
  std::vector<std::uint32_t> points; ///< the instructions behind the polls
  std::vector<PolledLoop> loops;     ///< loops with a poll inside
  std::set<std::pair<RegisterId, bool>> seen;
};

template <class Is> bool hasAny(const Cfg &cfg, Is is) {
  return llvm::any_of(cfg.function().body, [&](const Statement &each) {
    return each.kind == StatementKind::Instruction && is(each.instruction);
  });
}

/// Returns a sum that a product reaches across one of the polls. A product from outside a loop
/// counts where immediates determine the loop's number of turns.
std::optional<std::uint32_t> findCutSum(const Cfg &cfg, const Definitions &definitions,
                                        const KnownTurns &turns,
                                        llvm::ArrayRef<std::uint32_t> polls) {
  Contractions contractions(cfg, definitions, turns, polls);
  for (const auto &block : cfg.blocks())
    for (std::uint32_t statement : block->instructions)
      if (isSum(cfg.instruction(statement)) && contractions.isCut(statement))
        return statement;
  return std::nullopt;
}

} // namespace

std::vector<Finding> findRounding(const Function &entry, llvm::ArrayRef<std::uint32_t> naps,
                                  llvm::ArrayRef<std::uint32_t> saves) {
  std::vector<Finding> findings;
  auto find = [&](std::uint32_t statement, const char *what, KindSet kinds) {
    findings.push_back({Reason::Rounding, entry.body[statement].text, what, kinds});
  };
  Cfg cfg(entry);
  bool approximates = hasAny(cfg, isApproximate);
  bool contracts = hasAny(cfg, isProduct) && hasAny(cfg, isSum);
  if (!approximates && !contracts)
    return findings;
  Definitions definitions(cfg);
  KnownTurns turns(cfg, definitions);
  if (auto statement = approximates ? turns.firstApproximation() : std::nullopt) {
    find(*statement, "an approximation of what the turns of a loop count", everyKind);
    return findings;
  }
  for (auto [polls, kinds] : {std::pair(naps, onPause), std::pair(saves, onCheckpoint)})
    if (contracts && !polls.empty())
      if (auto statement = findCutSum(cfg, definitions, turns, polls))
        find(*statement, "a sum of a product that comes past the poll", kinds);
  return findings;
}

} // namespace tally::ptx
