#include "tally/ptx/analysis/kernel_analysis.h"

#include "tally/ptx/analysis/barriers.h"
#include "tally/ptx/analysis/opcodes.h"
#include "tally/ptx/analysis/waits.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSwitch.h"

#include <algorithm>

namespace tally::ptx {
namespace {

constexpr std::uint32_t tallyParameterBytes = 96, tallySharedBytes = 16;
constexpr std::uint32_t staticSharedLimit = 48 * 1024;

llvm::StringRef ref(std::string_view text) { return llvm::StringRef(text.data(), text.size()); }

/// Functions that the driver or the toolchain supplies: they read no grid register, hold no block
/// barrier and wait for no block.
bool isHarmlessWithoutBody(std::string_view name) {
  return llvm::StringSwitch<bool>(ref(name))
      .Case("vprintf", true)
      .Case("malloc", true)
      .Case("free", true)
      .Case("__assertfail", true)
      .Case("__assert_fail", true)
      .Default(false);
}

Reason reasonOfMissingBody(std::string_view name) {
  llvm::StringRef text = ref(name);
  if (text.starts_with("cudaCG"))
    return Reason::GridBarrier;
  return text.starts_with("cuda") || text.starts_with("__cudaCDP") ? Reason::DynamicParallelism
                                                                   : Reason::UnknownCallee;
}

/// PTX ISA 9.0, 5.1.6: 4,352 bytes, and 32,764 from sm_70 and PTX 8.1 on.
std::uint32_t parameterLimit(const Module &module) {
  bool large =
      module.targetArch() >= 70 &&
      (module.versionMajor() > 8 || (module.versionMajor() == 8 && module.versionMinor() >= 1));
  return large ? 32764 : 4352;
}

class Analyzer {
public:
  Analyzer(ModuleFacts &modules, const Function &function, KindSet kinds)
      : modules(modules), module(modules.moduleOf()), function(function), kinds(kinds) {}

  KernelAnalysis run() {
    const FunctionFacts &facts = modules.of(function);
    result.facts = &facts;
    result.findings = facts.findings;
    result.copiesAsync = facts.copiesAsync;
    bool orderDependent = facts.orderDependent;
    collectCallees(function);
    for (const Function *callee : callees) {
      addCallee(*callee);
      orderDependent |= modules.of(*callee).orderDependent;
      calleesAidPolling |= modules.of(*callee).aidsPolling;
    }
    checkLimits();
    checkFlow(function, true);
    if (calleesMeetInWarps) {
      result.loop.spends = true;
      result.loop.needsWholeWarpRows = false;
    }
    for (const Function *callee : callees)
      checkFlow(*callee, false);
    llvm::stable_sort(result.findings, [](const Finding &a, const Finding &b) {
      return a.reason != b.reason ? a.reason < b.reason : a.place.data() < b.place.data();
    });
    result.bitwiseStable = !orderDependent && llvm::none_of(result.findings, [](const auto &each) {
      return each.reason == Reason::WaitsOnBlocks;
    });
    return std::move(result);
  }

private:
  void find(Reason reason, std::string_view place, std::string detail = {}) {
    result.findings.push_back({reason, place, std::move(detail)});
  }

  void collectCallees(const Function &from) {
    for (const CallSite &call : modules.of(from).calls) {
      const Function *callee = module.function(call.callee);
      std::string_view place = from.body[call.statement].text;
      if (callee && callee->hasBody) {
        if (callees.insert(callee))
          collectCallees(*callee);
      } else if (!isHarmlessWithoutBody(call.callee)) {
        find(reasonOfMissingBody(call.callee), place, std::string(call.callee));
      }
    }
  }

  void addCallee(const Function &callee) {
    const FunctionFacts &facts = modules.of(callee);
    std::string name(callee.name);
    result.findings.insert(result.findings.end(), facts.findings.begin(), facts.findings.end());
    result.copiesAsync |= facts.copiesAsync;
    if (!facts.gridUses.empty())
      find(Reason::GridRegisterInCallee, facts.gridUses.front().operand->text, name);
    if (!facts.blockBarriers.empty())
      find(Reason::BarrierInCallee, callee.body[facts.blockBarriers.front()].text, name);
    if (!facts.warpSyncs.empty()) {
      calleesMeetInWarps = true;
      if (!canSpend(module))
        find(Reason::WarpSyncInCallee, callee.body[facts.warpSyncs.front()].text, name);
    }
    if (facts.exit)
      find(Reason::ExitInCallee, callee.body[*facts.exit].text, name);
  }

  void checkLimits() {
    llvm::StringRef text(function.header.data(), function.body.back().text.data() +
                                                     function.body.back().text.size() -
                                                     function.header.data());
    for (const char *reserved : {"%tally_", "$tally_"})
      if (std::size_t at = text.find(reserved); at != llvm::StringRef::npos)
        find(Reason::ReservedName, std::string_view(text.data() + at, 7));
    if (module.addressSize() != 64)
      find(Reason::AddressSize, function.name);
    if ((function.parameterBytes() + 7) / 8 * 8 + tallyParameterBytes > parameterLimit(module))
      find(Reason::ParameterLimit, function.name);
    checkShared();
  }

  void checkShared() {
    std::uint64_t bytes = 0;
    bool tensor = modules.of(function).usesTensorAsync;
    for (const Function *callee : callees)
      tensor |= modules.of(*callee).usesTensorAsync;
    auto see = [&](const Variable &variable) {
      if (variable.space != StateSpace::Shared)
        return;
      std::uint64_t alignment = std::max<std::uint64_t>(variable.alignment, 1);
      bytes = (bytes + alignment - 1) / alignment * alignment + variable.sizeInBytes;
      if (tensor && variable.alignment < 1024)
        find(Reason::SharedAlignment, variable.name, std::string(variable.name));
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
    if ((bytes + 15) / 16 * 16 + tallySharedBytes > staticSharedLimit)
      find(Reason::SharedMemoryLimit, function.name);
  }

  void checkFlow(const Function &body, bool isEntry) {
    const FunctionFacts &facts = modules.of(body);
    bool converges = isEntry && (kinds & onPersistent) &&
                     (!facts.blockBarriers.empty() || !facts.warpSyncs.empty());
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
    if (mayWait) {
      llvm::append_range(result.findings, findWaits(cfg, facts, calleesAidPolling));
      findWaitingCalls(cfg, body);
    }
    if (converges) {
      ControlDependence dependence(cfg);
      Uniformity uniformity(cfg, dependence);
      Convergence convergence = checkConvergence(module, cfg, dependence, uniformity, facts);
      llvm::append_range(result.findings, convergence.findings);
      result.loop = convergence.plan;
    }
  }

  bool mayWaitIn(const FunctionFacts &facts) const {
    auto reads = [](const FunctionFacts &each) {
      return !each.strongReads.empty() || !each.plainReads.empty();
    };
    return reads(facts) || llvm::any_of(callees, [&](const Function *callee) {
             return reads(modules.of(*callee));
           });
  }

  /// A call in a loop, or in a recursion, to a function that reads what other blocks write may be a
  /// wait: its result is not followed.
  void findWaitingCalls(const Cfg &cfg, const Function &body) {
    for (const CallSite &call : modules.of(body).calls) {
      const Function *callee = module.function(call.callee);
      if (callee && callee->hasBody && readsOthers(*callee) &&
          (isInLoop(cfg, call.statement) || reachableFrom(*callee).contains(&body)))
        find(Reason::WaitsOnBlocks, body.body[call.statement].text, std::string(call.callee));
    }
  }

  bool readsOthers(const Function &from) {
    // Where the loop is the caller's, so may be the fence that makes a plain load a poll.
    bool polls = modules.of(function).aidsPolling || calleesAidPolling;
    return llvm::any_of(reachableFrom(from), [&](const Function *each) {
      const FunctionFacts &facts = modules.of(*each);
      return !facts.strongReads.empty() || (polls && !facts.plainReads.empty());
    });
  }

  /// `from` and what it calls, directly or not.
  llvm::SetVector<const Function *> reachableFrom(const Function &from) {
    llvm::SetVector<const Function *> reached;
    reached.insert(&from);
    for (std::size_t i = 0; i != reached.size(); ++i)
      for (const CallSite &call : modules.of(*reached[i]).calls)
        if (const Function *callee = module.function(call.callee))
          reached.insert(callee);
    return reached;
  }

  ModuleFacts &modules;
  const Module &module;
  const Function &function;
  KindSet kinds;
  KernelAnalysis result;
  llvm::SetVector<const Function *> callees; ///< with bodies, transitively
  bool calleesAidPolling = false;            ///< one of them fences or naps
  bool calleesMeetInWarps = false;           ///< one of them holds a masked warp operation
};

} // namespace

ModuleFacts::ModuleFacts(const Module &module) : module(module) {
  for (const Item &item : module.items())
    for (const Variable &variable : item.variables)
      if (variable.space == StateSpace::Shared)
        shared.emplace(variable.name, &variable);
}

const Variable *ModuleFacts::sharedVariable(std::string_view name) const {
  auto found = shared.find(name);
  return found == shared.end() ? nullptr : found->second;
}

const FunctionFacts &ModuleFacts::of(const Function &function) {
  auto [place, isNew] = cache.try_emplace(&function);
  if (isNew && function.hasBody)
    place->second = collectFacts(module, function);
  return place->second;
}

const Finding *KernelAnalysis::refusal(Kind kind) const {
  for (const Finding &finding : findings)
    if (factsOf(finding.reason).kinds & setOf(kind))
      return &finding;
  return nullptr;
}

KernelAnalysis analyzeKernel(ModuleFacts &modules, const Function &function, KindSet kinds) {
  return Analyzer(modules, function, kinds).run();
}

} // namespace tally::ptx
