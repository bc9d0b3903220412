#include "checkpoints.h"

#include "loops.h"
#include "recomputation.h"
#include "string_ref.h"
#include "tally/ptx/analysis/barriers.h"
#include "tally/ptx/analysis/liveness.h"
#include "tally/ptx/analysis/opcodes.h"
#include "tally/ptx/analysis/uniformity.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSwitch.h"

#include <algorithm>
#include <limits>
#include <string>

namespace tally::ptx {
namespace {

/// A loop that polls in one of this many turns, or more rarely, polls with an extra barrier.
constexpr std::uint32_t turnsWithoutCarrier = 4;

/// Special registers whose value depends on the SM or the time (PTX ISA 9.0, chapter 10). %laneid
/// does not: it is the thread's place in the block.
bool isPhysical(const Operand &operand) {
  if (operand.kind != OperandKind::SpecialRegister)
    return false;
  llvm::StringRef name = ref(specialRegisterName(operand));
  return name == "smid" || name == "warpid" || name.starts_with("clock") ||
         name.starts_with("globaltimer") || name.starts_with("pm");
}

/// Operations that make threads of a warp meet, or that assume a whole warp.
bool joinsWarp(const Instruction &instruction) {
  if (instruction.has("sync") || instruction.has("aligned"))
    return true;
  return llvm::StringSwitch<bool>(ref(instruction.opcode))
      .Cases({"shfl", "vote", "match", "redux", "elect", "mma", "wmma", "ldmatrix", "stmatrix"},
             true)
      .Default(false);
}

template <class Visit> void forEachInstruction(const Function &body, Visit &&visit) {
  for (const Statement &statement : body.body)
    if (statement.kind == StatementKind::Instruction)
      visit(statement);
}

class CheckpointFinder {
public:
  CheckpointFinder(ModuleFacts &modules, const Function &entry,
                   const llvm::SetVector<const Function *> &callees, const LoopPlan &loop,
                   const PollRules &polls)
      : modules(modules), entry(entry), loop(loop), polls(polls), bodies(callees), cfg(entry),
        dependence(cfg), uniformity(cfg, dependence), liveness(cfg) {
    bodies.insert(&entry);
  }

  Checkpoints run() {
    refusePhysical();
    collectShared();
    collectLocal();
    result.plan.byBlock |= worksTogether();
    checkLeaving();
    measureScopes();
    recomputed.emplace(cfg, inner, innerVariables);
    choosePoints();
    return std::move(result);
  }

private:
  void find(Reason reason, std::string_view place, std::string detail = {}) {
    result.findings.push_back({reason, place, std::move(detail)});
  }

  void refusePhysical() {
    for (const Function *body : bodies)
      forEachInstruction(*body, [&](const Statement &statement) {
        for (const Operand &operand : statement.instruction.operands)
          forEachOperand(operand, [&](const Operand &each) {
            if (isPhysical(each))
              find(Reason::PhysicalValue, statement.text, std::string(each.text));
          });
        // The generic address of a parameter differs between launches.
        if (statement.instruction.opcode == "cvta" && statement.instruction.has("param"))
          find(Reason::PhysicalValue, statement.text, "cvta.param");
      });
  }

  /// Collects shared variables, the entry's own and the module's. This body cannot name the
  /// variables that a callee declares.
  void collectShared() {
    auto see = [&](const Variable &variable) {
      if (variable.space != StateSpace::Shared)
        return;
      result.plan.byBlock = true;
      if (variable.isExtern || variable.sizeInBytes == 0) {
        if (!result.plan.dynamicShared || variable.alignment > result.plan.dynamicShared->alignment)
          result.plan.dynamicShared = &variable;
      } else if (!llvm::is_contained(result.plan.shared, &variable)) {
        result.plan.shared.push_back(&variable);
      }
    };
    for (const Function *body : bodies) {
      for (const Statement &statement : body->body)
        for (const Variable &variable : statement.variables) {
          if (variable.space == StateSpace::Shared && body != &entry)
            find(Reason::NoSavePoint, variable.name,
                 "a callee's shared variable has no name in it");
          see(variable);
        }
      for (std::string_view symbol : modules.of(*body).symbols)
        if (const Variable *variable = modules.sharedVariable(symbol))
          see(*variable);
    }
  }

  void collectLocal() {
    for (const Statement &statement : entry.body)
      for (const Variable &variable : statement.variables)
        if (variable.space == StateSpace::Local)
          result.plan.local.push_back(&variable);
  }

  /// Whether threads of a block depend on each other in other ways than shared variables.
  bool worksTogether() {
    for (const Function *body : bodies) {
      if (!modules.of(*body).blockBarriers.empty() || !modules.of(*body).warpSyncs.empty())
        return true;
      bool joins = false;
      forEachInstruction(
          *body, [&](const Statement &statement) { joins |= joinsWarp(statement.instruction); });
      if (joins)
        return true;
    }
    return false;
  }

  /// Threads that left without the rest of their warp are missing when their block is saved.
  void checkLeaving() {
    if (loop.spends || loop.parks)
      find(Reason::LoneExit, entry.name);
    if (!canSpend(modules.moduleOf()))
      find(Reason::NoSavePoint, entry.name, "the module is older than PTX 6.2 or sm_70");
  }

  void measureScopes() {
    unsigned depth = 0;
    for (std::uint32_t i = 0; i != entry.body.size(); ++i) {
      StatementKind kind = entry.body[i].kind;
      depth += kind == StatementKind::ScopeBegin;
      depthOf.push_back(depth);
      for (const RegisterDeclaration &each : entry.body[i].registers)
        for (std::uint32_t n = 0; n != each.count; ++n)
          if (depth > 1)
            inner.insert(each.first + n);
      for (const Variable &each : entry.body[i].variables)
        if (depth > 1)
          innerVariables.insert(ref(each.name));
      for (const Variable &each : entry.body[i].variables)
        if (depth > 1 && (each.space == StateSpace::Shared || each.space == StateSpace::Local))
          find(Reason::NoSavePoint, each.name, "a variable of an inner scope has no name there");
      depth -= kind == StatementKind::ScopeEnd;
    }
  }

  /// Where a loop that should poll cannot be a point, chooses the innermost loop around it that
  /// can.
  void choosePoints() {
    forEachLoop(cfg, [&](const Loop &each) { loops.push_back(each); });
    std::vector<PollSite> sites = findPollSites(cfg, polls);
    if (sites.empty())
      find(Reason::NoLongLoop, entry.name);
    result.plan.keepsAligned = everyLoopHasOneHead(cfg);
    std::string why;
    std::string_view place;
    for (const PollSite &site : sites) {
      std::string against;
      for (const Loop &each : llvm::reverse(loops)) {
        if (!each.has(*site.header))
          continue;
        bool itself = each.header == site.header;
        std::string found = addPoint(each, itself ? site : PollSite{each.header});
        if (found.empty())
          break;
        if (itself)
          against = std::move(found);
      }
      if (against.empty())
        continue;
      why = against;
      place = entry.body[site.statement].text;
    }
    // With two entries into a loop, ptxas leaves warps diverged in it. Declaring a value uniform
    // would tell ptxas that the warp is converged.
    if (!result.plan.keepsAligned)
      for (SavePoint &each : result.plan.points)
        each.alike.clear();
    llvm::sort(result.plan.points,
               [](const SavePoint &a, const SavePoint &b) { return a.statement < b.statement; });
    findPassages();
    if (result.plan.points.empty() && !sites.empty())
      find(Reason::NoSavePoint, place, why);
  }

  /// Whether `header` is the header of another loop inside `outer`.
  static bool isAround(const Loop &outer, const CfgBlock &header) {
    return outer.header && outer.header != &header && outer.has(header);
  }

  /// Finds the loops around the loops of points.
  void findPassages() {
    std::vector<const Loop *> around; // by passage
    auto innermost = [&](const CfgBlock &header) -> std::optional<unsigned> {
      for (std::size_t i = around.size(); i-- > 0;)
        if (isAround(*around[i], header))
          return static_cast<unsigned>(i);
      return std::nullopt;
    };
    auto &points = result.plan.points;
    for (const Loop &each : loops) {
      if (llvm::none_of(points, [&](const SavePoint &point) {
            return isAround(each, *headers.lookup(point.statement));
          }))
        continue;
      Passage passage;
      passage.statement = placeAt(each.header->instructions.front());
      passage.around = innermost(*each.header);
      auto here = llvm::find_if(
          points, [&](const SavePoint &point) { return point.statement == passage.statement; });
      if (here != points.end())
        passage.point = static_cast<unsigned>(here - points.begin());
      passage.live = liveness.liveIn(*each.header);
      llvm::erase_if(passage.live, [&](RegisterId reg) { return inner.contains(reg); });
      if (!passage.around) {
        passage.entrance = entranceOf(each);
        passage.recomputed = madeAround.lookup(each.header).getArrayRef().vec();
      }
      around.push_back(&each);
      result.plan.passages.push_back(std::move(passage));
    }
    for (SavePoint &point : points)
      point.passage = innermost(*headers.lookup(point.statement));
  }

  /// Makes the loop's head a point. Returns the reason where the head cannot be one, else an empty
  /// string.
  std::string addPoint(const Loop &each, const PollSite &site) {
    if (!each.header)
      return "the loop is entered at several places";
    if (each.header->instructions.empty())
      return "the loop is empty";
    SavePoint point;
    point.statement = placeAt(each.header->instructions.front());
    const Loop *outermost = nullptr;
    for (const Loop &around : llvm::reverse(loops))
      if (isAround(around, *each.header)) {
        if (around.header->instructions.empty() || isInner(around))
          return "a loop around it stands in an inner scope";
        outermost = &around;
      }
    if (llvm::any_of(result.plan.points,
                     [&](const SavePoint &other) { return other.statement == point.statement; }))
      return {};
    point.turns = site.turns;
    point.turnCycles = static_cast<std::uint32_t>(
        std::clamp<std::uint64_t>(site.cycles, 1, std::numeric_limits<std::int32_t>::max() / 2));
    if (!result.plan.byBlock ||
        (site.turn.reg != noRegister && uniformity.ofRegister(site.turn.reg) == Variation::None))
      point.turn = site.turn;
    if (result.plan.byBlock) {
      if (dependence.endless() || uniformity.ofControl(*each.header) != Variation::None)
        return "not all threads of the block are shown to go round the loop equally often";
    }
    // A barrier that carries the poll adds a cost to each turn. An extra barrier between long
    // strips, or in one of several turns, costs less.
    if (cutsAlike(site.strip))
      point.strip = site.strip;
    else if (result.plan.byBlock && site.turns < turnsWithoutCarrier)
      point.barrier = barrierIn(each);
    if (isInner(each))
      return "the loop stands in an inner scope";
    if (liveness.carryLiveBefore(each.header->instructions.front()))
      return "a condition code is live at the loop's head";
    std::vector<RegisterId> live = liveness.liveIn(*each.header);
    Recomputation recomputation(*recomputed, *each.header, live);
    llvm::SetVector<std::uint32_t> made;
    // Values that follow from parameters, ids and constants alone are computed before the outermost
    // loop if they are live there: every block, resumed or new, computes the same values.
    std::optional<Recomputation> before;
    std::vector<RegisterId> liveBefore;
    if (outermost && entranceOf(*outermost).label) {
      before.emplace(*recomputed, *outermost->header, std::vector<RegisterId>());
      liveBefore = liveness.liveIn(*outermost->header);
    }
    for (RegisterId reg : live) {
      if (before && std::ranges::binary_search(liveBefore, reg) && before->canMake(reg)) {
        before->addTo(madeAround[outermost->header], reg);
        continue;
      }
      if (recomputation.canMake(reg)) {
        recomputation.addTo(made, reg);
        continue;
      }
      if (inner.contains(reg))
        return "a register of an inner scope is live at the loop's head";
      point.saved.push_back(reg);
      if (result.plan.byBlock && uniformity.ofRegister(reg) == Variation::None)
        point.alike.push_back(reg);
    }
    point.recomputed = made.getArrayRef().vec();
    order(point.saved, each);
    point.entrance = entranceOf(each);
    headers[point.statement] = each.header;
    result.plan.points.push_back(std::move(point));
    return {};
  }

  /// Whether the loop's head is not in the body's outer scope, so that its names are not visible
  /// there.
  bool isInner(const Loop &each) const {
    std::uint32_t at = placeAt(each.header->instructions.front());
    return depthOf[at] - (entry.body[at].kind == StatementKind::ScopeBegin) > 1;
  }

  /// Puts first the registers that the loop reads in one operand together, in the order of reading.
  void order(std::vector<RegisterId> &saved, const Loop &each) const {
    llvm::DenseMap<RegisterId, unsigned> place;
    for (const CfgBlock *block : each.blocks)
      for (std::uint32_t statement : block->instructions)
        for (const Operand &operand : cfg.instruction(statement).operands)
          if (operand.kind == OperandKind::Vector)
            forEachOperand(operand, [&](const Operand &part) {
              if (part.kind == OperandKind::Register)
                place.try_emplace(part.reg, place.size());
            });
    llvm::stable_sort(saved, [&](RegisterId a, RegisterId b) {
      auto placeOf = [&](RegisterId reg) {
        auto found = place.find(reg);
        return found == place.end() ? ~0u : found->second;
      };
      return placeOf(a) < placeOf(b);
    });
  }

  Entrance entranceOf(const Loop &each) const {
    std::uint32_t at = placeAt(each.header->instructions.front());
    Entrance entrance;
    llvm::StringSet<> labels;
    while (at > 1 && entry.body[at - 1].kind != StatementKind::Instruction &&
           entry.body[at - 1].kind != StatementKind::ScopeBegin &&
           entry.body[at - 1].kind != StatementKind::ScopeEnd) {
      --at;
      if (entry.body[at].kind == StatementKind::Label) {
        labels.insert(ref(entry.body[at].label));
        entrance.label = at;
      }
    }
    if (labels.empty())
      return {};
    for (const CfgBlock *from : each.header->predecessors) {
      if (from->instructions.empty())
        continue;
      std::uint32_t last = from->instructions.back();
      const Instruction *branch = cfg.terminator(*from);
      bool jumps = branch && branch->opcode == "bra" && branch->operands.size() == 1 &&
                   labels.contains(ref(branch->operands[0].symbol));
      if (each.has(*from)) {
        if (!jumps || (branch->guard && from->successors.size() < 2))
          return {}; // none: the block falls through to the head, or may
      } else if (jumps) {
        entrance.branches.push_back(last);
      }
    }
    return entrance;
  }

  /// Whether threads that meet after each strip are all at the same turn.
  bool cutsAlike(const StripLoop &strip) const {
    if (strip.counter == noRegister)
      return false;
    if (!result.plan.byBlock)
      return true;
    const Operand &limit = entry.body[strip.compare].instruction.operands[2];
    return uniformity.ofRegister(strip.counter) == Variation::None &&
           (strip.stride == noRegister || uniformity.ofRegister(strip.stride) == Variation::None) &&
           (limit.kind == OperandKind::Integer ||
            uniformity.ofRegister(limit.reg) == Variation::None);
  }

  /// Returns the place of a scope that opens between the loop's label and `statement`, its first
  /// instruction, or `statement`.
  std::uint32_t placeAt(std::uint32_t statement) const {
    for (std::uint32_t before = statement; before-- > 1;) {
      StatementKind kind = entry.body[before].kind;
      if (kind == StatementKind::Instruction || kind == StatementKind::Label ||
          kind == StatementKind::ScopeEnd)
        break;
      if (kind == StatementKind::ScopeBegin)
        statement = before;
    }
    return statement;
  }

  /// Returns a barrier that every turn of the loop passes exactly once, as far as its place shows,
  /// and that is in no inner loop. Soundness needs only that all threads of the block execute it.
  std::optional<std::uint32_t> barrierIn(const Loop &each) const {
    for (const CfgBlock *block : each.blocks)
      for (std::uint32_t statement : block->instructions) {
        const Instruction &instruction = cfg.instruction(statement);
        if (!isBlockBarrier(instruction) || barrierFormOf(instruction) != BarrierForm::Full ||
            instruction.has("red") || instruction.guard)
          continue;
        if (uniformity.ofExecution(statement) == Variation::None && isOnEveryTurn(each, *block) &&
            !isFurtherIn(each, *block))
          return statement;
      }
    return std::nullopt;
  }

  /// Whether a block of the loop is also in a loop inside it. Loops that share a block are nested.
  bool isFurtherIn(const Loop &each, const CfgBlock &block) const {
    return llvm::any_of(loops, [&](const Loop &other) {
      return other.blocks.size() < each.blocks.size() && other.has(block);
    });
  }

  bool isOnEveryTurn(const Loop &each, const CfgBlock &block) const {
    return &block == each.header || !hasCycleWithout(each, block);
  }

  ModuleFacts &modules;
  const Function &entry;
  const LoopPlan &loop;
  const PollRules &polls;
  llvm::SetVector<const Function *> bodies; ///< the callees and the entry
  Cfg cfg;
  ControlDependence dependence;
  Uniformity uniformity;
  Liveness liveness;
  std::vector<unsigned> depthOf;    ///< depth by statement; 1 in the body's outer scope
  llvm::DenseSet<RegisterId> inner; ///< registers without a name in the body's outer scope
  llvm::StringSet<> innerVariables;
  std::optional<RecomputationFacts> recomputed;
  std::vector<Loop> loops;                                 ///< outer before inner
  llvm::DenseMap<std::uint32_t, const CfgBlock *> headers; ///< headers of the points' loops
  /// Passage::recomputed, by the header of an outermost loop.
  llvm::DenseMap<const CfgBlock *, llvm::SetVector<std::uint32_t>> madeAround;
  Checkpoints result;
};

} // namespace

Checkpoints findCheckpoints(ModuleFacts &modules, const Function &entry,
                            const llvm::SetVector<const Function *> &callees, const LoopPlan &loop,
                            const PollRules &polls) {
  return CheckpointFinder(modules, entry, callees, loop, polls).run();
}

} // namespace tally::ptx
