#include "tally/ptx/analysis/kernel_analysis.h"

#include "tally/ptx/analysis/barriers.h"
#include "tally/ptx/analysis/opcodes.h"
#include "tally/ptx/analysis/waits.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSwitch.h"

#include <algorithm>
#include <cstring>

namespace tally::ptx {
namespace {

constexpr std::uint32_t tallyParameterBytes = 96;
constexpr std::uint32_t staticSharedLimit = 48 * 1024;
/// The strictest alignment that a tensor operation asks of shared memory: the repeat of the
/// 128-byte swizzle, 8 rows of 128 bytes (PTX ISA, "Shared memory matrix layout", tensor copies).
constexpr std::uint32_t tensorAlignment = 1024;

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

/// Whether a kernel is refused for tally's shared variable alone.
bool isOfSharedMemory(Reason reason) {
  return reason == Reason::SharedSize || reason == Reason::SharedMemoryLimit;
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
    for (const Function *callee : callees)
      checkFlow(*callee, false);
    llvm::stable_sort(result.findings, [](const Finding &a, const Finding &b) {
      return a.reason != b.reason ? a.reason < b.reason : a.place.data() < b.place.data();
    });
    result.usesClusters = llvm::any_of(
        result.findings, [](const Finding &each) { return each.reason == Reason::Cluster; });
    result.mayAvoidShared = !result.usesClusters;
    result.mustAvoidShared =
        result.mayAvoidShared && llvm::any_of(result.findings, [](const Finding &each) {
          return isOfSharedMemory(each.reason);
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
    if (!facts.warpSyncs.empty())
      find(Reason::WarpSyncInCallee, callee.body[facts.warpSyncs.front()].text, name);
    if (facts.exit)
      find(Reason::ExitInCallee, callee.body[*facts.exit].text, name);
  }

  void checkLimits() {
    llvm::StringRef text(function.header.data(), function.body.back().text.data() +
                                                     function.body.back().text.size() -
                                                     function.header.data());
    if (std::string_view reserved = modules.reservedName(text); !reserved.empty())
      find(Reason::ReservedName, reserved);
    if (module.addressSize() != 64)
      find(Reason::AddressSize, function.name);
    if ((function.parameterBytes() + 7) / 8 * 8 + tallyParameterBytes > parameterLimit(module))
      find(Reason::ParameterLimit, function.name);
    checkShared();
  }

  void checkShared() {
    std::uint64_t bytes = 0, leastAlignment = tensorAlignment, mostAlignment = 0;
    bool tensor = modules.of(function).usesTensorAsync;
    for (const Function *callee : callees)
      tensor |= modules.of(*callee).usesTensorAsync;
    auto see = [&](const Variable &variable) {
      if (variable.space != StateSpace::Shared)
        return;
      std::uint64_t alignment = std::max<std::uint64_t>(variable.alignment, 1);
      bytes = (bytes + alignment - 1) / alignment * alignment + variable.sizeInBytes;
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
    if (tensor && leastAlignment < tensorAlignment)
      result.tallySharedBytes = tensorAlignment;
    // What stands before all others moves them by its size, or by a larger alignment of theirs.
    std::uint64_t more = result.tallySharedBytes;
    if (more == tensorAlignment)
      more = std::max(more, mostAlignment);
    if ((bytes + 15) / 16 * 16 + more > staticSharedLimit)
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
      Convergence convergence = checkConvergence(cfg, dependence, uniformity, facts);
      llvm::append_range(result.findings, convergence.findings);
      result.needsWholeWarpRows = convergence.needsWholeWarpRows;
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
};

} // namespace

ModuleFacts::ModuleFacts(const Module &module) : module(module) {
  for (const Item &item : module.items())
    for (const Variable &variable : item.variables)
      if (variable.space == StateSpace::Shared)
        shared.emplace(variable.name, &variable);
  // Once for the module: these bytes are of all that the analyses look at.
  constexpr std::string_view stem = "tally_";
  std::string_view rest = module.source();
  while (const void *found = memmem(rest.data(), rest.size(), stem.data(), stem.size())) {
    const char *at = static_cast<const char *>(found);
    if (at != module.source().data() && (at[-1] == '%' || at[-1] == '$'))
      reservedNames.emplace_back(at - 1, stem.size() + 1);
    rest.remove_prefix(static_cast<std::size_t>(at - rest.data()) + 1);
  }
}

std::string_view ModuleFacts::reservedName(std::string_view text) const {
  auto after =
      llvm::lower_bound(reservedNames, text.data(), [](std::string_view name, const char *begin) {
        return name.data() < begin;
      });
  bool inside = after != reservedNames.end() && after->data() < text.data() + text.size();
  return inside ? *after : std::string_view();
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
    if (factsOf(finding.reason).kinds & setOf(kind) &&
        !(kind == Kind::Guard && mustAvoidShared && isOfSharedMemory(finding.reason)))
      return &finding;
  return nullptr;
}

KernelAnalysis analyzeKernel(ModuleFacts &modules, const Function &function, KindSet kinds) {
  return Analyzer(modules, function, kinds).run();
}

} // namespace tally::ptx
