#include "member_mask.h"

#include "tally/ptx/analysis/opcodes.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSwitch.h"

#include <algorithm>

namespace tally::ptx {
namespace {

using Statements = std::vector<std::uint32_t>;

bool writes(const Instruction &instruction, RegisterId reg) {
  bool found = false;
  forEachWrittenRegister(instruction, [&](const Operand &each) { found |= each.reg == reg; });
  return found;
}

/// Walks along control flow, or against it.
class Walk {
public:
  /// A path ends well at `goals`, and badly at `others` and at the end (beginning) of the body.
  Walk(const Cfg &cfg, const Statements &goals, const Statements &others, bool forward)
      : cfg(cfg), goals(goals), others(others), forward(forward), visited(cfg.size()) {}

  /// Adds the paths that begin behind (in front of) `statement` in its block.
  void startAt(std::uint32_t statement) {
    const CfgBlock &block = *cfg.blockOf(statement);
    Met met = scan(block, statement);
    good &= met != Met::Other;
    if (met == Met::Nothing)
      goOn(block);
  }
  /// Adds the paths that begin with `block`.
  void startWith(const CfgBlock &block) { meet(block); }

  /// Whether every path ended well.
  bool run() {
    while (good && !worklist.empty()) {
      const CfgBlock *block = worklist.pop_back_val();
      Met met = scan(*block, std::nullopt);
      good &= met != Met::Other;
      if (met == Met::Nothing)
        goOn(*block);
    }
    return good;
  }

private:
  enum class Met { Nothing, Goal, Other };

  void meet(const CfgBlock &block) {
    if (!visited[block.number]) {
      visited[block.number] = true;
      worklist.push_back(&block);
    }
  }
  void goOn(const CfgBlock &block) {
    good &= &block != (forward ? &cfg.exit() : &cfg.front());
    for (const CfgBlock *next : forward ? block.successors : block.predecessors)
      meet(*next);
  }
  Met scan(const CfgBlock &block, std::optional<std::uint32_t> start) const {
    auto look = [&](auto begin, auto end) {
      if (start)
        begin = std::next(std::find(begin, end, *start));
      for (; begin != end; ++begin) {
        if (llvm::is_contained(goals, *begin))
          return Met::Goal;
        if (llvm::is_contained(others, *begin))
          return Met::Other;
      }
      return Met::Nothing;
    };
    return forward ? look(block.instructions.begin(), block.instructions.end())
                   : look(block.instructions.rbegin(), block.instructions.rend());
  }

  const Cfg &cfg;
  const Statements &goals, &others;
  bool forward;
  bool good = true;
  std::vector<bool> visited;
  llvm::SmallVector<const CfgBlock *, 16> worklist;
};

/// An integer comparison of setp. `<=` and `>` by a constant become `<` and `>=` by the next
/// constant.
struct Comparison {
  enum class Relation : std::uint8_t { Less, NotLess, Equal, NotEqual, UpTo, Above } relation;
  std::string_view type;
  const Operand *left, *right;
  std::uint64_t bound = 0; ///< where `right` is a constant

  bool sameOperands(const Comparison &other) const {
    auto same = [](const Operand &a, const Operand &b) {
      return a.kind == b.kind && (a.kind == OperandKind::Integer || a.text == b.text);
    };
    return type == other.type && same(*left, *other.left) && left->kind == OperandKind::Register &&
           same(*right, *other.right) && bound == other.bound;
  }
  bool isComplementOf(const Comparison &other) const {
    return (static_cast<unsigned>(relation) ^ 1u) == static_cast<unsigned>(other.relation);
  }
};

std::optional<Comparison> comparisonOf(const Instruction &setp) {
  using Relation = Comparison::Relation;
  if (setp.opcode != "setp" || setp.guard || setp.operands.size() != 3 ||
      setp.modifiers.size() != 2 || setp.operands[0].kind != OperandKind::Register)
    return std::nullopt;
  llvm::StringRef type(setp.modifiers[1].data(), setp.modifiers[1].size());
  bool isSignedType = type == "s32" || type == "s64";
  if (!isSignedType && type != "u32" && type != "u64" && type != "b32" && type != "b64")
    return std::nullopt;
  llvm::StringRef name(setp.modifiers[0].data(), setp.modifiers[0].size());
  auto relation = llvm::StringSwitch<std::optional<Relation>>(name)
                      .Cases({"lt", "lo"}, Relation::Less)
                      .Cases({"ge", "hs"}, Relation::NotLess)
                      .Case("eq", Relation::Equal)
                      .Case("ne", Relation::NotEqual)
                      .Cases({"le", "ls"}, Relation::UpTo)
                      .Cases({"gt", "hi"}, Relation::Above)
                      .Default(std::nullopt);
  if (!relation)
    return std::nullopt;
  Comparison result{*relation, setp.modifiers[1], &setp.operands[1], &setp.operands[2]};
  if (result.right->kind == OperandKind::Integer) {
    unsigned width = type.ends_with("64") ? 64 : 32;
    std::uint64_t all = ~std::uint64_t{0} >> (64 - width);
    result.bound = result.right->bits & all;
    if (result.bound != (isSignedType ? all >> 1 : all) && *relation >= Relation::UpTo) {
      result.relation = *relation == Relation::UpTo ? Relation::Less : Relation::NotLess;
      ++result.bound;
    }
  }
  return result;
}

/// Returns, for the threads for which `vote`'s predicate holds, the value of the predicate that
/// guards the end of its block; nothing where that is unknown.
std::optional<bool> guardWhereVoted(const Cfg &cfg, std::uint32_t vote) {
  const CfgBlock &block = *cfg.blockOf(vote);
  const Instruction *last = cfg.terminator(block);
  if (!last || !last->guard || last->opcode != "bra")
    return std::nullopt;
  const Operand &voted = cfg.instruction(vote).operands[1];
  const Operand &guard = last->guard->predicate;
  if (voted.kind != OperandKind::Register || guard.kind != OperandKind::Register)
    return std::nullopt;
  // Returns the last assignment in this block of a register that `statement` reads.
  auto assignment = [&](RegisterId reg, std::uint32_t statement) -> std::optional<std::uint32_t> {
    std::optional<std::uint32_t> found;
    for (std::uint32_t each : block.instructions) {
      if (each == statement)
        break;
      if (writes(cfg.instruction(each), reg))
        found = each;
    }
    return found;
  };
  std::uint32_t end = block.instructions.back();
  auto ofVoted = assignment(voted.reg, vote), ofGuard = assignment(guard.reg, end);
  bool holds = !voted.negated;
  if (voted.reg == guard.reg)
    return ofVoted == ofGuard ? std::optional(holds) : std::nullopt;
  if (!ofVoted || !ofGuard)
    return std::nullopt;
  auto a = comparisonOf(cfg.instruction(*ofVoted)), b = comparisonOf(cfg.instruction(*ofGuard));
  if (!a || !b || !a->sameOperands(*b) || (!a->isComplementOf(*b) && a->relation != b->relation))
    return std::nullopt;
  auto [first, second] = std::minmax(*ofVoted, *ofGuard);
  for (std::uint32_t each : block.instructions)
    if (each > first && each < second)
      for (const Operand *operand : {a->left, a->right})
        if (operand->kind == OperandKind::Register && writes(cfg.instruction(each), operand->reg))
          return std::nullopt;
  return holds == (a->relation == b->relation);
}

/// Starts `walk` with the paths of the threads for which the ballot's predicate holds.
void startBehindBallot(Walk &walk, const Cfg &cfg, std::uint32_t vote) {
  const CfgBlock &block = *cfg.blockOf(vote);
  std::optional<bool> guard = guardWhereVoted(cfg, vote);
  if (!guard || block.successors.size() != 2) {
    walk.startAt(vote);
    return;
  }
  bool branches = *guard != cfg.terminator(block)->guard->predicate.negated;
  for (const CfgBlock *next : block.successors)
    if ((next->number != block.number + 1) == branches)
      walk.startWith(*next);
}

bool isBallot(const Instruction &instruction) {
  return instruction.opcode == "vote" && instruction.has("sync") && instruction.has("ballot") &&
         instruction.operands.size() == 3;
}

} // namespace

bool MemberMasks::nameOnlyComers(std::uint32_t sync) {
  const Instruction &instruction = cfg.instruction(sync);
  if (instruction.operands.empty()) // not valid PTX, but it parses
    return false;
  const Operand &mask = instruction.operands.back();
  if (mask.kind != OperandKind::Register || instruction.guard)
    return false;
  if (!definitions)
    definitions.emplace(cfg);
  Statements assignments = definitions->of(mask.reg).vec();
  bool unguarded = llvm::none_of(
      assignments, [&](std::uint32_t each) { return cfg.instruction(each).guard != nullptr; });
  bool areActive = llvm::all_of(assignments, [&](std::uint32_t each) {
    return cfg.instruction(each).opcode == "activemask";
  });
  bool isVoted = assignments.size() == 1 && isBallot(cfg.instruction(assignments.front()));
  if (assignments.empty() || !unguarded || (!areActive && !isVoted))
    return false;
  Statements here = {sync};
  Walk back(cfg, assignments, here, false);
  back.startAt(sync);
  Walk on(cfg, here, assignments, true);
  for (std::uint32_t each : assignments)
    if (isVoted)
      startBehindBallot(on, cfg, each);
    else
      on.startAt(each);
  return back.run() && on.run();
}

} // namespace tally::ptx
