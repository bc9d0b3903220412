#include "tally/ptx/analysis/kernel_analysis.h"

#include "checkpoints.h"
#include "kernel_limits.h"
#include "rounding.h"
#include "shared_writes.h"
#include "string_ref.h"
#include "tally/bundle/abi.h"
#include "tally/ptx/analysis/barriers.h"
#include "tally/ptx/analysis/call_sequence.h"
#include "tally/ptx/analysis/callee_barriers.h"
#include "tally/ptx/analysis/opcodes.h"
#include "tally/ptx/analysis/waits.h"
#include "variable_writes.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSwitch.h"

#include <algorithm>

namespace tally::ptx {
namespace {

constexpr std::uint32_t tallyParameterBytes = sizeof(tally_launch_params);
/// Bytes of $tally_block where clones read it: it then also holds the grid's extents.
constexpr std::uint32_t tallySharedBytesWithClones = 32;
/// Bytes where the kernel has dynamic shared memory of a smaller alignment: a whole line of the
/// banks, so that dynamic shared memory moves by whole lines only. Kernels lay it out by lines
/// without declaring that alignment.
constexpr std::uint32_t tallySharedBytesOfLine = 128;
/// Bytes of $tally_spent, with padding for its alignment.
constexpr std::uint32_t spentSharedBytes = 32;
/// Limit on clones that a variant chooses among at one call through a pointer: each costs a copy of
/// the call.
constexpr std::ptrdiff_t maxDispatched = 64;
/// The strictest alignment that a tensor operation requires of shared memory: the period of the
/// 128-byte swizzle, 8 rows of 128 bytes (PTX ISA, "Shared memory matrix layout", tensor copies).
constexpr std::uint32_t tensorAlignment = 1024;

/// The result of malloc depends on the memory that other blocks have freed.
constexpr std::string_view allocator = "malloc";

class Analyzer {
public:
  Analyzer(ModuleFacts &modules, const Function &function, KindSet kinds, bool assumesInOrder,
           const PollRules &pollRules)
      : modules(modules), module(modules.moduleOf()), function(function), kinds(kinds),
        assumesInOrder(assumesInOrder), pollRules(pollRules) {}

  KernelAnalysis run() {
    const FunctionFacts &facts = modules.of(function);
    result.facts = &facts;
    result.findings = facts.findings;
    result.copiesAsync = facts.copiesAsync;
    result.readsSharedSize = facts.readsSharedSize;
    result.changesVariables = mayChangeVariables(modules, function);
    bool orderDependent = facts.orderDependent;
    std::string reduction = facts.reduction;
    collectCallees();
    for (const Function *callee : callees) {
      addCallee(*callee);
      const std::string &other = modules.of(*callee).reduction;
      orderDependent |= modules.of(*callee).orderDependent ||
                        (!reduction.empty() && !other.empty() && reduction != other);
      reduction = reduction.empty() ? other : reduction;
      calleesAidPolling |= modules.of(*callee).aidsPolling;
      result.readsSharedSize |= modules.of(*callee).readsSharedSize;
      result.changesVariables |= mayChangeVariables(modules, *callee);
    }
    checkLimits();
    checkFlow(function, true);
    if (result.calls && (kinds & onWorkers))
      llvm::append_range(result.findings, findCalleeBarriers(*result.calls, function, callees));
    if (result.loop.parks)
      refuseBarriersInCallees();
    if (calleesMeetInWarps) {
      result.loop.spends = true;
      result.loop.needsWholeWarpRows = false;
    }
    if (result.loop.spends &&
        sharedBytesWithTally + std::max(result.tallySharedBytes, spentSharedBytes) >
            staticSharedLimit)
      result.findings.push_back({Reason::SharedMemoryLimit, function.name, {}, onWorkers});
    for (const Function *callee : callees)
      checkFlow(*callee, false);
    if (kinds & onPause)
      checkPolls();
    narrowToKinds();
    result.usesClusters = llvm::any_of(
        result.findings, [](const Finding &each) { return each.reason == Reason::Cluster; });
    orderDependent |= result.waits > bundle::Waits::OwnBlock;
    if (assumesInOrder && result.waits == bundle::Waits::Unknown)
      assumeLowerBlocks();
    // Blocks of a cluster start together. An order of clusters, and a ticket for all blocks of a
    // cluster, are not implemented.
    if (result.usesClusters && result.waits == bundle::Waits::LowerBlocks) {
      find(Reason::WaitsOnBlocks, function.name, std::string(function.name));
      result.waits = bundle::Waits::Unknown;
    }
    findCheckpoint();
    checkRounding();
    llvm::stable_sort(result.findings, [](const Finding &a, const Finding &b) {
      return a.reason != b.reason ? a.reason < b.reason : a.place.data() < b.place.data();
    });
    avoidShared();
    result.bitwiseStable = !orderDependent;
    return std::move(result);
  }

private:
  void find(Reason reason, std::string_view place, std::string detail = {}) {
    result.findings.push_back({reason, place, std::move(detail)});
  }

  /// Where guard can do without tally's shared variable, findings against the variable do not
  /// refuse guard. Clusters agree through the variable; clones and bodies with a ticket read it.
  void avoidShared() {
    result.mayAvoidShared =
        !result.usesClusters && result.cloned.empty() && result.waits != bundle::Waits::LowerBlocks;
    if (!result.mayAvoidShared)
      return;
    for (Finding &each : result.findings)
      if (isOfSharedMemory(each.reason) && (each.kinds & onGuard)) {
        each.kinds &= static_cast<KindSet>(~onGuard);
        result.mustAvoidShared = true;
      }
  }

  /// Threads that have left take part in the entry's own barriers, which the pass rewrites for
  /// them. The pass does not rewrite a callee's barriers, and threads could meet at one for the
  /// other.
  void refuseBarriersInCallees() {
    for (const Function *callee : callees)
      if (const FunctionFacts &facts = modules.of(*callee); !facts.blockBarriers.empty())
        find(Reason::BarrierInCallee, callee->body[facts.blockBarriers.front()].text,
             std::string(callee->name));
  }

  /// A saved block does not run on, so no other block may wait for it.
  void findCheckpoint() {
    if (!(kinds & onCheckpoint) || result.refusal(Kind::Checkpoint))
      return;
    if (result.waits != bundle::Waits::None) {
      result.findings.push_back({Reason::WaitsOnBlocks, function.name,
                                 "of another that may have been saved", onCheckpoint});
      return;
    }
    Checkpoints found = findCheckpoints(modules, function, callees, result.loop, pollRules);
    llvm::append_range(result.findings, found.findings);
    result.checkpoint = std::move(found.plan);
  }

  /// Only the entry's own loops poll.
  void checkRounding() {
    std::vector<std::uint32_t> naps, saves;
    if ((kinds & onPause) && !result.refusal(Kind::Pause))
      for (const PollPoint &each : result.polls)
        naps.push_back(each.statement);
    if ((kinds & onCheckpoint) && !result.refusal(Kind::Checkpoint))
      for (const SavePoint &each : result.checkpoint.points) {
        saves.push_back(each.statement);
        if (each.barrier)
          saves.push_back(*each.barrier);
      }
    if (!naps.empty() || !saves.empty())
      llvm::append_range(result.findings, findRounding(function, naps, saves));
  }

  void assumeLowerBlocks() {
    llvm::erase_if(result.findings,
                   [](const Finding &each) { return each.reason == Reason::WaitsOnBlocks; });
    result.waits = bundle::Waits::LowerBlocks;
    result.gridRank = 3;
    result.waitsAreAssumed = true;
  }

  void collectCallees() {
    if (modules.of(function).calls.empty())
      return;
    const CallGraph &graph = modules.callGraph();
    result.calls = &graph;
    callees = graph.reachable(function);
    checkCalls(function, graph);
    for (const Function *callee : callees) {
      checkCalls(*callee, graph);
      if (graph.needsClone(*callee))
        result.cloned.push_back(callee);
    }
  }

  void checkCalls(const Function &from, const CallGraph &graph) {
    for (const CallSite &call : modules.of(from).calls) {
      std::string_view place = from.body[call.statement].text;
      const std::vector<const Function *> &targets = graph.targets(from, call);
      if (call.pointer)
        checkPointer(from, call, graph);
      else if (targets.empty() && !isHarmlessWithoutBody(call.callee))
        find(reasonOfMissingBody(call.callee), place, std::string(call.callee));
      for (const Function *target : targets)
        if (!target->hasBody && !isHarmlessWithoutBody(target->name))
          find(reasonOfMissingBody(target->name), place, std::string(target->name));
    }
  }

  void checkPointer(const Function &from, const CallSite &call, const CallGraph &graph) {
    std::string_view place = from.body[call.statement].text;
    const std::vector<const Function *> &targets = graph.targets(from, call);
    if (auto foreign = graph.foreignName())
      find(Reason::IndirectCall, place,
           "the module is linked with another, which defines " + std::string(*foreign));
    else if (targets.empty())
      find(Reason::IndirectCall, place, "the module takes the address of no function that fits");
    auto clones =
        llvm::count_if(targets, [&](const Function *each) { return graph.needsClone(*each); });
    if (clones > maxDispatched)
      find(Reason::IndirectCall, place, "too many functions that it may reach read grid registers");
    else if (clones > 0 && !callSequenceOf(from, modules.of(from), call))
      find(Reason::IndirectCall, place, "it does not stand in a scope with its arguments alone");
  }

  void addCallee(const Function &callee) {
    const FunctionFacts &facts = modules.of(callee);
    std::string name(callee.name);
    result.findings.insert(result.findings.end(), facts.findings.begin(), facts.findings.end());
    result.copiesAsync |= facts.copiesAsync;
    if (!facts.warpSyncs.empty()) {
      calleesMeetInWarps = true;
      if (!canSpend(module))
        find(Reason::WarpSyncInCallee, callee.body[facts.warpSyncs.front()].text, name);
    }
    if (facts.exit)
      find(Reason::ExitInCallee, callee.body[*facts.exit].text, name);
  }

  /// Checks the functions that the variants copy: the entry, and the callees that have clones.
  void checkCopied() {
    checkCopied(function);
    for (const Function *callee : result.cloned) {
      checkCopied(*callee);
      if (const Function *taken = module.function(cloneName(*callee)))
        find(Reason::ReservedName, taken->name, std::string(taken->name));
      if (callee->header.find(".attribute") != std::string_view::npos)
        find(Reason::GridRegisterInCallee, callee->name, std::string(callee->name));
    }
    if (const Variable *taken = modules.variable("$tally_block"); taken && !result.cloned.empty())
      find(Reason::ReservedName, taken->name, std::string(taken->name));
  }

  void checkCopied(const Function &copied) {
    llvm::StringRef text(copied.header.data(), copied.body.back().text.data() +
                                                   copied.body.back().text.size() -
                                                   copied.header.data());
    if (std::string_view reserved = modules.reservedName(text); !reserved.empty())
      find(Reason::ReservedName, reserved);
    checkRegisterNames(copied);
    if (const Variable *own = modules.of(copied).ownVariable)
      find(Reason::VariableInBody, own->name, std::string(own->name));
  }

  void checkLimits() {
    checkCopied();
    if (module.addressSize() != 64)
      find(Reason::AddressSize, function.name);
    if (module.versionMajor() < 2 || module.targetArch() < 20)
      find(Reason::OldTarget, function.name);
    if ((function.parameterBytes() + 7) / 8 * 8 + tallyParameterBytes > parameterLimit(module))
      find(Reason::ParameterLimit, function.name);
    for (const Variable &parameter : function.parameters)
      if (isOpaque(parameter.type))
        find(Reason::OpaqueParameter, parameter.name, std::string(parameter.name));
    checkShared();
  }

  /// ptxas 13.0 crashes where a second entry has a register with the name of the first entry.
  void checkRegisterNames(const Function &copied) {
    for (const RegisterDeclaration &each : copied.registers)
      if (const Function *named = each.isRange ? nullptr : module.function(each.name);
          named && named->isEntry)
        find(Reason::RegisterNamedAsEntry, each.name, std::string(each.name));
  }

  void checkShared() {
    std::uint64_t bytes = 0, leastAlignment = tensorAlignment, mostAlignment = 0;
    bool tensor = modules.of(function).usesTensorAsync, isDynamic = false;
    for (const Function *callee : callees)
      tensor |= modules.of(*callee).usesTensorAsync;
    auto see = [&](const Variable &variable) {
      if (variable.space != StateSpace::Shared)
        return;
      std::uint64_t alignment = std::max<std::uint64_t>(variable.alignment, 1);
      bytes = (bytes + alignment - 1) / alignment * alignment + variable.sizeInBytes;
      isDynamic |= variable.sizeInBytes == 0 && alignment < tallySharedBytesOfLine;
      leastAlignment = std::min(leastAlignment, alignment);
      mostAlignment = std::max(mostAlignment, alignment);
    };
    llvm::SetVector<const Function *> bodies = callees;
    bodies.insert(&function);
    for (const Function *body : bodies)
      for (const Statement &statement : body->body)
        for (const Variable &variable : statement.variables)
          see(variable);
    llvm::SetVector<const Variable *> named;
    for (const Function *body : bodies)
      for (std::string_view symbol : modules.of(*body).symbols)
        if (const Variable *variable = modules.sharedVariable(symbol))
          named.insert(variable);
    for (const Variable *variable : named)
      see(*variable);
    result.staticSharedBytes = static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes, ~0u));
    bool misaligned = tensor && leastAlignment < tensorAlignment;
    if (!result.cloned.empty()) {
      result.tallySharedBytes = tallySharedBytesWithClones;
      if (misaligned)
        find(Reason::SharedAlignment, function.name);
    } else if (misaligned) {
      result.tallySharedBytes = tensorAlignment;
    } else if (isDynamic) {
      result.tallySharedBytes = tallySharedBytesOfLine;
    }
    // A variable in front of all others moves them by its size, or by a larger alignment of theirs.
    std::uint64_t more = result.tallySharedBytes;
    if (more >= tallySharedBytesOfLine)
      more = std::max(more, mostAlignment);
    sharedBytesWithTally = (bytes + 15) / 16 * 16 + more + copiedSharedBytes();
    if (sharedBytesWithTally > staticSharedLimit)
      find(Reason::SharedMemoryLimit, function.name);
  }

  /// Bytes of shared variables that clones declare. Where a call through a pointer may still reach
  /// the user's function, as ptxas sees it, both the clone's and the user's variables count.
  std::uint64_t copiedSharedBytes() {
    auto callsPointer = [&](const Function *body) {
      return llvm::any_of(modules.of(*body).calls,
                          [](const CallSite &call) { return call.pointer != nullptr; });
    };
    std::uint64_t bytes = 0;
    if (callsPointer(&function) || llvm::any_of(callees, callsPointer))
      for (const Function *callee : result.cloned)
        for (const Statement &statement : callee->body)
          for (const Variable &variable : statement.variables)
            if (variable.space == StateSpace::Shared)
              bytes += variable.sizeInBytes + variable.alignment;
    return bytes;
  }

  /// A slice adds shared memory only for clones.
  void narrowToKinds() {
    if (result.cloned.empty())
      for (Finding &each : result.findings)
        if (each.reason == Reason::SharedSize || each.reason == Reason::SharedMemoryLimit)
          each.kinds &= onGuard | onWorkers;
  }

  void checkFlow(const Function &body, bool isEntry) {
    const FunctionFacts &facts = modules.of(body);
    bool converges =
        isEntry && (kinds & onWorkers) &&
        (!facts.blockBarriers.empty() || !facts.warpSyncs.empty() || !facts.calls.empty());
    bool mayWait = mayWaitIn(facts);
    if (!converges && !mayWait && !isEntry)
      return;
    Cfg cfg(body);
    if (auto label = cfg.unresolvedLabel()) {
      find(Reason::UnresolvedLabel, *label, std::string(*label));
      return;
    }
    if (!converges && !mayWait)
      return;
    if (mayWait)
      findWaitsIn(cfg, body, isEntry);
    if (converges) {
      ControlDependence dependence(cfg);
      Uniformity uniformity(cfg, dependence);
      Convergence convergence = checkConvergence(module, cfg, dependence, uniformity, facts);
      llvm::append_range(result.findings, convergence.findings);
      result.loop = convergence.plan;
    }
  }

  /// A nap needs nanosleep: PTX 6.3 and sm_70 (PTX ISA, nanosleep).
  void checkPolls() {
    bool hasNaps =
        module.targetArch() >= 70 &&
        (module.versionMajor() > 6 || (module.versionMajor() == 6 && module.versionMinor() >= 3));
    if (!hasNaps)
      find(Reason::NoNap, function.name);
    Cfg cfg(function);
    if (!cfg.unresolvedLabel())
      result.polls = planPolls(cfg, pollRules);
    if (result.polls.empty())
      find(Reason::NoLongLoop, function.name);
  }

  bool mayWaitIn(const FunctionFacts &facts) {
    auto reads = [](const FunctionFacts &each) {
      return !each.strongReads.empty() || !each.plainReads.empty();
    };
    return reads(facts) || allocates(function) ||
           llvm::any_of(callees, [&](const Function *callee) {
             return reads(modules.of(*callee)) || allocates(*callee);
           });
  }

  void findWaitsIn(const Cfg &cfg, const Function &body, bool isEntry) {
    const FunctionFacts &facts = modules.of(body);
    WaitContext context;
    context.isEntry = isEntry;
    context.calleesAidPolling = calleesAidPolling;
    for (const Function *callee : callees)
      for (const Statement &statement : callee->body)
        if (statement.kind == StatementKind::Instruction &&
            statement.instruction.opcode != "call") {
          context.calleesWrite |= mayWriteShared(statement.instruction);
          context.calleesWriteStrongly |= isStrongWrite(statement.instruction);
        }
    for (const CallSite &call : facts.calls) {
      if (mayAllocate(body, call))
        context.readingCalls.push_back(call);
      if (mayExit(body, call))
        context.exitingCalls.push_back(call.statement);
      for (const Function *callee : result.calls->targets(body, call)) {
        if (!callee->hasBody || !readsOthers(*callee))
          continue;
        context.readingCalls.push_back(call);
        // A recursion is a loop whose exits the analysis does not follow.
        if (callee == &body || result.calls->reachable(*callee).contains(&body)) {
          find(Reason::WaitsOnBlocks, body.body[call.statement].text, std::string(callee->name));
          result.waits = bundle::Waits::Unknown;
        }
        break;
      }
    }
    WaitFacts waits = findWaits(cfg, facts, context);
    llvm::append_range(result.findings, waits.findings);
    result.waits = std::max(result.waits, waits.waits);
    result.gridRank = std::min(result.gridRank, waits.gridRank);
  }

  bool readsOthers(const Function &from) {
    // Where the caller has the loop, it may also have the fence that makes a plain load a poll.
    bool polls = modules.of(function).aidsPolling || calleesAidPolling;
    llvm::SetVector<const Function *> reached = result.calls->reachable(from);
    reached.insert(&from);
    return llvm::any_of(reached, [&](const Function *each) {
      const FunctionFacts &facts = modules.of(*each);
      return !facts.strongReads.empty() || (polls && !facts.plainReads.empty()) || allocates(*each);
    });
  }

  bool mayAllocate(const Function &from, const CallSite &call) {
    return call.callee == allocator ||
           llvm::any_of(result.calls->targets(from, call),
                        [](const Function *callee) { return callee->name == allocator; });
  }
  bool allocates(const Function &from) {
    return llvm::any_of(modules.of(from).calls,
                        [&](const CallSite &call) { return mayAllocate(from, call); });
  }

  bool mayExit(const Function &from, const CallSite &call) {
    return llvm::any_of(result.calls->targets(from, call), [&](const Function *callee) {
      if (!callee->hasBody)
        return false;
      llvm::SetVector<const Function *> reached = result.calls->reachable(*callee);
      reached.insert(callee);
      return llvm::any_of(reached,
                          [&](const Function *each) { return modules.of(*each).exit.has_value(); });
    });
  }

  ModuleFacts &modules;
  const Module &module;
  const Function &function;
  KindSet kinds;
  bool assumesInOrder;
  const PollRules &pollRules;
  KernelAnalysis result;
  std::uint64_t sharedBytesWithTally = 0;    ///< the user's and tally's, without $tally_spent
  llvm::SetVector<const Function *> callees; ///< with bodies, transitively
  bool calleesAidPolling = false;            ///< one of them fences or naps
  bool calleesMeetInWarps = false;           ///< one of them holds a masked warp operation
};

} // namespace

const Finding *KernelAnalysis::refusal(Kind kind) const {
  for (const Finding &finding : findings)
    if (factsOf(finding.reason).kinds & finding.kinds & setOf(kind))
      return &finding;
  return nullptr;
}

KernelAnalysis analyzeKernel(ModuleFacts &modules, const Function &function, KindSet kinds,
                             bool assumesInOrder, const PollRules &pollRules) {
  return Analyzer(modules, function, kinds, assumesInOrder, pollRules).run();
}

} // namespace tally::ptx
