#include "tally/ptx/analysis/waits.h"

#include "loops.h"
#include "tally/ptx/analysis/opcodes.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"

#include <optional>

namespace tally::ptx {
namespace {

/// Where each register is assigned inside one loop.
using Definitions = llvm::DenseMap<RegisterId, llvm::SmallVector<std::uint32_t, 2>>;

Definitions definitionsIn(const Cfg &cfg, const Loop &loop) {
  Definitions definitions;
  for (const CfgBlock *block : loop.blocks)
    for (std::uint32_t statement : block->instructions)
      forEachWrittenRegister(cfg.instruction(statement), [&](const Operand &each) {
        definitions[each.reg].push_back(statement);
      });
  return definitions;
}

/// Recognises the retry loop around an atom.cas: see waits.h.
class CasRetry {
public:
  CasRetry(const Cfg &cfg, const Loop &loop, std::uint32_t statement)
      : cfg(cfg), loop(loop), definitions(definitionsIn(cfg, loop)), statement(statement),
        cas(cfg.instruction(statement)) {}

  bool recognised() const {
    if (cas.opcode != "atom" || !cas.has("cas") || cas.guard || cas.operands.size() != 4 ||
        cas.operands[0].kind != OperandKind::Register ||
        cas.operands[1].kind != OperandKind::Address ||
        cas.operands[2].kind != OperandKind::Register)
      return false;
    bool fixedAddress = true;
    forEachOperand(cas.operands[1], [&](const Operand &each) {
      fixedAddress &= each.kind != OperandKind::Register || !definitions.contains(each.reg);
    });
    return fixedAddress && isLastSeen(cas.operands[2].reg) && leavesOnSuccess() &&
           !hasCycleWithout(loop, *cfg.blockOf(statement));
  }

private:
  /// Whether every assignment of `reg` in the loop copies what the cas returned.
  bool isLastSeen(RegisterId reg, unsigned depth = 0) const {
    if (reg == cas.operands[0].reg)
      return true;
    auto found = definitions.find(reg);
    if (depth > 4 || found == definitions.end())
      return false;
    return llvm::all_of(found->second, [&](std::uint32_t each) {
      const Instruction &copy = cfg.instruction(each);
      return copy.opcode == "mov" && !copy.guard && copy.operands.size() == 2 &&
             copy.operands[0].kind == OperandKind::Register &&
             copy.operands[1].kind == OperandKind::Register &&
             isLastSeen(copy.operands[1].reg, depth + 1);
    });
  }

  /// After the cas its block compares what it returned with the comparand and leaves when equal.
  bool leavesOnSuccess() const {
    const CfgBlock &block = *cfg.blockOf(statement);
    const Instruction *last = cfg.terminator(block);
    if (!last || !last->guard || block.successors.size() != 2)
      return false;
    RegisterId seen = cas.operands[0].reg, expected = cas.operands[2].reg;
    std::optional<bool> testsEqual; // of the branch's predicate
    for (std::uint32_t each : block.instructions) {
      if (each <= statement)
        continue;
      const Instruction &instruction = cfg.instruction(each);
      bool overwrites = false;
      forEachWrittenRegister(instruction, [&](const Operand &written) {
        overwrites |= written.reg == last->guard->predicate.reg;
      });
      if (overwrites)
        testsEqual = equalityTest(instruction, seen, expected);
      forEachWrittenRegister(instruction, [&](const Operand &written) {
        if (written.reg == seen)
          seen = noRegister;
        if (written.reg == expected)
          expected = noRegister;
      });
    }
    if (!testsEqual)
      return false;
    bool takenWhenEqual = *testsEqual != last->guard->predicate.negated;
    return !loop.has(*block.successors[takenWhenEqual ? 0 : 1]);
  }

  /// True for `setp.eq p, a, b`, false for `setp.ne`, none for anything else.
  static std::optional<bool> equalityTest(const Instruction &instruction, RegisterId a,
                                          RegisterId b) {
    const auto &operands = instruction.operands;
    if (instruction.opcode != "setp" || instruction.guard || instruction.modifiers.size() != 2 ||
        operands.size() != 3 || operands[0].kind != OperandKind::Register ||
        operands[1].kind != OperandKind::Register || operands[2].kind != OperandKind::Register)
      return std::nullopt;
    bool same = (operands[1].reg == a && operands[2].reg == b) ||
                (operands[1].reg == b && operands[2].reg == a);
    // Equal bits, not equal floats: -0.0 == 0.0 says nothing of the exchange.
    if (!same || a == noRegister || b == noRegister || instruction.modifiers[1].starts_with("f"))
      return std::nullopt;
    if (instruction.modifiers[0] == "eq")
      return true;
    return instruction.modifiers[0] == "ne" ? std::optional(false) : std::nullopt;
  }

  const Cfg &cfg;
  const Loop &loop;
  Definitions definitions;
  std::uint32_t statement;
  const Instruction &cas;
};

/// Follows what other blocks wrote through one loop.
class Taint {
public:
  Taint(const Cfg &cfg, const Loop &loop, const llvm::DenseSet<std::uint32_t> &sources)
      : cfg(cfg), loop(loop), sources(sources) {
    if (!loop.header)
      return;
    turn.emplace(cfg, loop.blocks, *loop.header);
    dependence.emplace(*turn);
  }

  bool reachesExit() {
    do {
      changed = false;
      for (const CfgBlock *block : loop.blocks)
        visit(*block);
    } while (changed);
    return llvm::any_of(loop.blocks, [&](const CfgBlock *block) {
      if (block->successors.size() < 2 || !(decides(*block) || control.contains(block)))
        return false;
      // Without a header every decision may be a way out of some turn.
      return !loop.header || llvm::any_of(block->successors,
                                          [&](const CfgBlock *next) { return !loop.has(*next); });
    });
  }

private:
  bool isTainted(const Operand &operand) const {
    bool any = false;
    forEachOperand(operand, [&](const Operand &each) {
      any |= each.kind == OperandKind::Register && registers.contains(each.reg);
    });
    return any;
  }

  bool decides(const CfgBlock &block) const {
    const Instruction *last = cfg.terminator(block);
    return last && ((last->guard && isTainted(last->guard->predicate)) ||
                    (last->opcode == "brx" && llvm::any_of(last->operands, [&](const auto &each) {
                       return isTainted(each);
                     })));
  }

  const CfgBlock *copyOf(const CfgBlock &block) const {
    return turn->blockOf(block.instructions.front());
  }

  void visit(const CfgBlock &block) {
    if (dependence && !block.instructions.empty())
      for (const CfgBlock *branch : dependence->controllers(*copyOf(block))) {
        const CfgBlock *original = cfg.blockOf(branch->instructions.front());
        if (decides(*original) || control.contains(original))
          changed |= control.insert(&block).second;
      }
    for (std::uint32_t statement : block.instructions) {
      const Instruction &instruction = cfg.instruction(statement);
      bool tainted = control.contains(&block) || sources.contains(statement) ||
                     (instruction.guard && isTainted(instruction.guard->predicate)) ||
                     (memory && mayReadWritten(instruction));
      if (!tainted)
        forEachReadRegister(instruction,
                            [&](const Operand &each) { tainted |= registers.contains(each.reg); });
      if (!tainted)
        continue;
      forEachWrittenRegister(
          instruction, [&](const Operand &each) { changed |= registers.insert(each.reg).second; });
      if (!memory && mayWrite(instruction))
        changed = memory = true;
    }
  }

  /// All memory is one cell here, kernel parameters and constants aside.
  bool mayReadWritten(const Instruction &instruction) const {
    switch (resultKindOf(instruction)) {
    case ResultKind::Memory:
      return !instruction.has("const") && !readsEntryParameter(instruction);
    case ResultKind::Varying:
    case ResultKind::Unknown:
      return true;
    case ResultKind::None:
    case ResultKind::Pure:
      break;
    }
    return false;
  }

  bool readsEntryParameter(const Instruction &instruction) const {
    if (!instruction.has("param") || instruction.operands.size() < 2 ||
        instruction.operands[1].children.empty())
      return false;
    const Operand &base = instruction.operands[1].children[0];
    return base.kind == OperandKind::Symbol &&
           llvm::any_of(cfg.function().parameters,
                        [&](const Variable &each) { return each.name == base.symbol; });
  }

  static bool mayWrite(const Instruction &instruction) {
    return !isTerminator(instruction) && resultKindOf(instruction) != ResultKind::Pure &&
           resultKindOf(instruction) != ResultKind::Memory;
  }

  const Cfg &cfg;
  const Loop &loop;
  const llvm::DenseSet<std::uint32_t> &sources;
  std::optional<Cfg> turn; ///< one turn of the loop
  std::optional<ControlDependence> dependence;
  llvm::DenseSet<RegisterId> registers;
  llvm::DenseSet<const CfgBlock *> control;
  bool memory = false, changed = false;
};

} // namespace

std::vector<Finding> findWaits(const Cfg &cfg, const FunctionFacts &facts, bool calleesAidPolling) {
  std::vector<Finding> findings;
  forEachLoop(cfg, [&](const Loop &loop) {
    auto inLoop = [&](std::uint32_t statement) { return loop.has(*cfg.blockOf(statement)); };
    llvm::DenseSet<std::uint32_t> sources;
    llvm::SmallVector<std::uint32_t, 4> places;
    auto addReads = [&](const std::vector<std::uint32_t> &reads) {
      for (std::uint32_t statement : reads)
        if (inLoop(statement)) {
          sources.insert(statement);
          places.push_back(statement);
        }
    };
    addReads(facts.strongReads);
    bool polls = calleesAidPolling || llvm::any_of(loop.blocks, [&](const CfgBlock *block) {
                   return llvm::any_of(block->instructions, [&](std::uint32_t statement) {
                     return isPollingAid(cfg.instruction(statement));
                   });
                 });
    if (polls)
      addReads(facts.plainReads);
    if (places.empty() || (places.size() == 1 && CasRetry(cfg, loop, places.front()).recognised()))
      return;
    if (Taint(cfg, loop, sources).reachesExit())
      findings.push_back({Reason::WaitsOnBlocks, cfg.function().body[places.front()].text, {}});
  });
  return findings;
}

bool isInLoop(const Cfg &cfg, std::uint32_t statement) {
  bool found = false;
  forEachLoop(cfg, [&](const Loop &loop) { found |= loop.has(*cfg.blockOf(statement)); });
  return found;
}

} // namespace tally::ptx
