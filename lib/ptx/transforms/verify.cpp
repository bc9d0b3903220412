#include "tally/ptx/transforms/verify.h"

#include "clones.h"
#include "tally/bundle/abi.h"
#include "tally/ptx/analysis/call_sequence.h"
#include "tally/ptx/analysis/module_facts.h"
#include "tally/ptx/syntax/parser.h"
#include "verify_body.h"
#include "verify_polls.h"
#include "verify_protocol.h"

#include <fmt/format.h>

#include <set>

namespace tally::ptx {
namespace {

std::optional<std::string> checkParameters(const Function &user, const Function &variant) {
  if (variant.parameters.size() != user.parameters.size() + 1)
    return "it does not have one parameter more than the user's kernel";
  for (std::size_t i = 0; i != user.parameters.size(); ++i)
    if (variant.parameters[i].paramOffset != user.parameters[i].paramOffset ||
        variant.parameters[i].sizeInBytes != user.parameters[i].sizeInBytes)
      return fmt::format("parameter {} is not where the user's is", i);
  const Variable &own = variant.parameters.back();
  if (own.paramOffset != (user.parameterBytes() + 7) / 8 * 8 ||
      own.sizeInBytes != sizeof(tally_launch_params))
    return "tally's parameters are not where the runtime writes them";
  return std::nullopt;
}

/// Returns the functions whose clones the copies of a call through a pointer call: the functions
/// with which the pointer is compared before `scope`.
std::set<std::string_view> comparedBefore(const Function &caller, std::uint32_t scope) {
  std::set<std::string_view> names;
  for (std::uint32_t i = scope; i-- > 1;) {
    const Statement &each = caller.body[i];
    if (each.kind == StatementKind::Location)
      continue;
    if (each.kind != StatementKind::Instruction)
      break;
    const Instruction &instruction = each.instruction;
    if (instruction.opcode == "mov" && instruction.operands.size() == 2 &&
        instruction.operands[0].symbol == "%tally_callee")
      names.insert(instruction.operands[1].symbol);
    else if (instruction.opcode != "setp" && instruction.opcode != "bra")
      break;
  }
  return names;
}

/// Checks the variants in the module that holds them, parsed again.
class VariantCheck {
public:
  VariantCheck(const Module &again) : again(again), facts(again), graph(facts.callGraph()) {}

  std::optional<std::string> run(const std::vector<RewrittenKernel> &kernels) {
    for (const RewrittenKernel &kernel : kernels)
      for (const Variant &variant : kernel.variants)
        if (variant.verdict.status == Status::Emitted)
          if (auto broken = checkVariant(kernel, variant))
            return broken;
    return std::nullopt;
  }

private:
  std::optional<std::string> checkVariant(const RewrittenKernel &kernel, const Variant &variant) {
    const Function *user = again.function(kernel.layout.name);
    clones.clear();
    for (const auto &clone : variant.clones)
      clones.insert(clone->name);
    for (const auto &clone : variant.clones)
      if (auto broken = checkClone(clone->name))
        return fmt::format("{}: {}", clone->name, *broken);
    for (std::size_t i = 0; i != variant.entries.size(); ++i) {
      std::string name = bundle::entryName(kernel.layout.name, variant.verdict.kind, i == 1);
      const Function *entry = again.function(name);
      if (!entry)
        return fmt::format("there is no entry {}", name);
      bool keepsGrid =
          variant.verdict.kind == Kind::Guard && i == 0 && !kernel.layout.guardTakesTickets();
      if (auto broken = checkEntry(*user, *entry, variant.verdict.kind, keepsGrid))
        return fmt::format("{}: {}", name, *broken);
    }
    return std::nullopt;
  }

  std::optional<std::string> checkEntry(const Function &user, const Function &entry, Kind kind,
                                        bool keepsGrid) {
    if (auto broken = checkParameters(user, entry))
      return broken;
    AllowedChanges allowed{.gridReads = !keepsGrid, .calls = !keepsGrid};
    allowed.leaves = allowed.barriers = hasWorkers(kind) && !takesOneBlock(kind, entry);
    allowed.entrances = kind == Kind::Checkpoint;
    allowed.unaligned = kind == Kind::Checkpoint || kind == Kind::Pause;
    if (auto broken = checkBody(again, user, entry, allowed))
      return broken;
    if (auto broken = checkProtocol(again, user, kind, entry))
      return broken;
    if (kind == Kind::Pause)
      if (auto broken = checkPolls(user, entry); broken || (broken = checkStay(entry)))
        return broken;
    return keepsGrid ? checkCallsNoClone(entry) : checkCalls(entry);
  }

  std::optional<std::string> checkClone(const std::string &name) {
    const Variable *block = facts.sharedVariable("$tally_block");
    if (!block || block->sizeInBytes != 32)
      return "$tally_block is not declared for it";
    const Function *clone = again.function(name);
    const Function *user =
        again.function(name.substr(0, name.size() - std::string_view("$tally_virtual").size()));
    if (!clone || !clone->hasBody || !user)
      return "there is no such function";
    auto sizes = [](const std::vector<Variable> &list) {
      std::vector<std::uint64_t> result;
      for (const Variable &each : list)
        result.push_back(each.sizeInBytes);
      return result;
    };
    if (sizes(clone->parameters) != sizes(user->parameters) ||
        sizes(clone->results) != sizes(user->results))
      return "it does not take the user's arguments";
    if (auto broken = checkBody(again, *user, *clone, {.gridReads = true, .calls = true}))
      return broken;
    return checkCalls(*clone);
  }

  /// No call reaches a read of a physical grid register. (A clone that calls through a pointer
  /// still names, for ptxas, the user's functions behind it.)
  std::optional<std::string> checkCalls(const Function &caller) {
    for (const CallSite &call : graph.factsOf(caller).calls) {
      if (!call.pointer && call.callee.ends_with("$tally_virtual") && !clones.contains(call.callee))
        return fmt::format("it calls a clone that is not there: {}", call.callee);
      std::set<std::string_view> compared;
      if (auto sequence = callSequenceOf(caller, graph.factsOf(caller), call))
        compared = comparedBefore(caller, sequence->begin);
      for (const Function *callee : graph.targets(caller, call))
        if (callee->hasBody && graph.needsClone(*callee) &&
            !(call.pointer ? compared : clones).contains(callee->name))
          return fmt::format(
              "it still calls the user's {}, which reads physical grid registers: {}", callee->name,
              caller.body[call.statement].text);
    }
    return std::nullopt;
  }

  /// The first entry of a guard does not fill $tally_block, so it must call no clone.
  std::optional<std::string> checkCallsNoClone(const Function &caller) {
    for (const CallSite &call : graph.factsOf(caller).calls)
      if (call.callee.ends_with("$tally_virtual"))
        return fmt::format("it calls a clone but runs on the physical grid: {}",
                           caller.body[call.statement].text);
    return std::nullopt;
  }

  const Module &again;
  std::set<std::string_view> clones; ///< clones of the variant; each is checked separately
  ModuleFacts facts;
  const CallGraph &graph;
};

} // namespace

std::optional<std::string> verifyVariants(const Module &module,
                                          const std::vector<RewrittenKernel> &kernels) {
  std::string text = textWithVariants(module, kernels);
  if (!std::string_view(text).starts_with(module.text()))
    return "the user's text was changed";
  auto parsed = parse(text);
  if (auto *diagnostic = std::get_if<Diagnostic>(&parsed))
    return fmt::format("the variants do not parse: {}, near: {}", diagnostic->message,
                       text.substr(diagnostic->offset, 60));
  return VariantCheck(std::get<Module>(parsed)).run(kernels);
}

} // namespace tally::ptx
