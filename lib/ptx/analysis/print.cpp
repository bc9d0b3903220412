#include "tally/ptx/analysis/print.h"

#include "tally/ptx/analysis/barriers.h"
#include "tally/ptx/analysis/liveness.h"
#include "tally/ptx/analysis/opcodes.h"
#include "tally/ptx/analysis/poll_sites.h"
#include "tally/ptx/analysis/waits.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"

#include <fmt/format.h>

namespace tally::ptx {
namespace {

/// Returns `text` on one line with single blanks.
std::string flattened(std::string_view text) {
  std::string flat;
  for (char each : text) {
    bool blank = each == ' ' || each == '\t' || each == '\n' || each == '\r';
    if (!blank)
      flat += each;
    else if (!flat.empty() && flat.back() != ' ')
      flat += ' ';
  }
  return flat;
}

/// Returns `line: text`.
std::string lineOfText(const Module &module, std::string_view text) {
  return fmt::format("{:>6}: {}", module.lineOf(text), flattened(text));
}

std::string findingText(const Module &module, const Finding &finding) {
  const ReasonFacts &facts = factsOf(finding.reason);
  return fmt::format("{}\n        {}: {}{}{}\n", lineOfText(module, finding.place), facts.code,
                     facts.sentence, finding.detail.empty() ? "" : ": ", finding.detail);
}

std::string_view nameOf(Variation variation) {
  switch (variation) {
  case Variation::None:
    return "block";
  case Variation::Warps:
    return "warp";
  case Variation::Threads:
    break;
  }
  return "thread";
}

/// Returns `entry` and the functions with bodies that it calls, directly or indirectly.
llvm::SetVector<const Function *> withCallees(ModuleFacts &modules, const Function &entry) {
  llvm::SetVector<const Function *> functions;
  functions.insert(&entry);
  functions.insert_range(modules.callGraph().reachable(entry));
  return functions;
}

std::string printCfg(ModuleFacts &modules, const Function &entry) {
  Cfg cfg(entry);
  std::string text;
  for (const auto &block : cfg.blocks()) {
    text += fmt::format("block {}{}:", block->number, block.get() == &cfg.exit() ? " (exit)" : "");
    for (const CfgBlock *next : block->successors)
      text += fmt::format(" -> {}", next->number);
    text += '\n';
    for (std::uint32_t statement : block->instructions)
      text += lineOfText(modules.moduleOf(), entry.body[statement].text) + '\n';
  }
  return text;
}

std::string printUniformity(ModuleFacts &modules, const Function &entry) {
  Cfg cfg(entry);
  ControlDependence dependence(cfg);
  Uniformity uniformity(cfg, dependence);
  std::string text;
  for (const auto &block : cfg.blocks()) {
    if (block->instructions.empty())
      continue;
    text += fmt::format("block {}: runs by {}, branches by {}\n", block->number,
                        nameOf(uniformity.ofControl(*block)), nameOf(uniformity.ofBranch(*block)));
    for (std::uint32_t statement : block->instructions)
      forEachWrittenRegister(cfg.instruction(statement), [&](const Operand &each) {
        text += fmt::format("{}  // {} by {}\n",
                            lineOfText(modules.moduleOf(), entry.body[statement].text), each.text,
                            nameOf(uniformity.ofRegister(each.reg)));
      });
  }
  return text;
}

std::string nameOf(const Function &function, RegisterId reg) {
  const RegisterDeclaration &declaration = function.declarationOf(reg);
  std::string name(declaration.name);
  return declaration.isRange ? name + std::to_string(reg - declaration.first) : name;
}

std::string printLiveness(ModuleFacts &, const Function &entry) {
  Cfg cfg(entry);
  Liveness liveness(cfg);
  std::string text;
  for (const auto &block : cfg.blocks()) {
    text += fmt::format("block {}:", block->number);
    for (RegisterId reg : liveness.liveIn(*block))
      text += ' ' + nameOf(entry, reg);
    text += '\n';
  }
  return text;
}

std::string printPollSites(ModuleFacts &modules, const Function &entry) {
  Cfg cfg(entry);
  std::string text;
  for (const PollSite &site : findPollSites(cfg)) {
    std::string turns = site.turns == 1 ? "every turn" : fmt::format("every {} turns", site.turns);
    if (site.strip.counter != noRegister)
      turns = fmt::format("every {} turns, in strips by {}", site.strip.turns,
                          nameOf(entry, site.strip.counter));
    else if (site.turn.reg != noRegister)
      turns += ", told by " + nameOf(entry, site.turn.reg);
    text += fmt::format("{}  // {}, {} cycles a turn\n",
                        lineOfText(modules.moduleOf(), entry.body[site.statement].text), turns,
                        site.cycles);
  }
  return text.empty() ? "no loop is long\n" : text;
}

std::string printConvergence(ModuleFacts &modules, const Function &entry) {
  const FunctionFacts &facts = modules.of(entry);
  Cfg cfg(entry);
  ControlDependence dependence(cfg);
  Uniformity uniformity(cfg, dependence);
  std::string text;
  for (const auto *list : {&facts.blockBarriers, &facts.warpSyncs})
    for (std::uint32_t statement : *list)
      text += fmt::format("{}  // decided by {}\n",
                          lineOfText(modules.moduleOf(), entry.body[statement].text),
                          nameOf(uniformity.ofExecution(statement)));
  Convergence convergence =
      checkConvergence(modules.moduleOf(), cfg, dependence, uniformity, facts);
  for (const Finding &finding : convergence.findings)
    text += findingText(modules.moduleOf(), finding);
  const LoopPlan &plan = convergence.plan;
  if (plan.parks)
    text += plan.reduces ? "the loop parks, with reductions\n" : "the loop parks\n";
  if (plan.spends || plan.needsWholeWarpRows)
    text += plan.spends ? "the loop spends\n" : "the loop needs rows of whole warps\n";
  return text.empty() ? "no barriers and no warp operations with a mask\n" : text;
}

/// Prints the kernel's findings that `isWanted` selects.
std::string printFindings(ModuleFacts &modules, const Function &entry, std::string_view none,
                          llvm::function_ref<bool(Reason)> isWanted) {
  std::string text;
  for (const Finding &finding : analyzeKernel(modules, entry, everyKind).findings)
    if (isWanted(finding.reason))
      text += findingText(modules.moduleOf(), finding);
  return text.empty() ? std::string(none) + '\n' : text;
}

std::string printWaits(ModuleFacts &modules, const Function &entry) {
  KernelAnalysis analysis = analyzeKernel(modules, entry, everyKind);
  if (analysis.waits == bundle::Waits::OwnBlock)
    return "some loop waits for threads of the own block\n";
  if (analysis.waits == bundle::Waits::LowerBlocks)
    return fmt::format(
        "some loop waits for blocks of lower linear id, in grids of {} dimension{}\n",
        analysis.gridRank, analysis.gridRank == 1 ? "" : "s or fewer");
  return printFindings(modules, entry, "no loop waits for another block", [](Reason reason) {
    return reason == Reason::WaitsOnBlocks || reason == Reason::GridBarrier;
  });
}

/// Returns the names of the functions that `call` may reach, and their treatment in a variant.
std::string targetsText(const CallGraph &graph, const Function &caller, const CallSite &call) {
  std::string text;
  for (const Function *callee : graph.targets(caller, call))
    text += fmt::format("{}{}{}", text.empty() ? "" : "; ", callee->name,
                        !callee->hasBody            ? ", no body here"
                        : graph.needsClone(*callee) ? ", cloned in variants"
                                                    : "");
  return text.empty() ? fmt::format("{}, not declared here", call.callee) : text;
}

std::string printCalls(ModuleFacts &modules, const Function &entry) {
  std::string text;
  for (const Function *function : withCallees(modules, entry)) {
    text += fmt::format("{}\n", function->name);
    for (const CallSite &call : modules.of(*function).calls) {
      text += fmt::format("{}  // {}\n",
                          lineOfText(modules.moduleOf(), function->body[call.statement].text),
                          targetsText(modules.callGraph(), *function, call));
    }
  }
  return text + printFindings(modules, entry, "no call that stands in the way", [](Reason reason) {
           return reason == Reason::IndirectCall || reason == Reason::UnknownCallee ||
                  reason == Reason::DynamicParallelism;
         });
}

std::string printGridRegisters(ModuleFacts &modules, const Function &entry) {
  std::string text;
  for (const Function *function : withCallees(modules, entry))
    for (const GridUse &use : modules.of(*function).gridUses)
      text += fmt::format("{}  // {} in {}\n",
                          lineOfText(modules.moduleOf(), function->body[use.statement].text),
                          use.operand->text, function->name);
  return text.empty() ? "no grid register is read\n" : text;
}

std::string printAsynchronous(ModuleFacts &modules, const Function &entry) {
  std::string text;
  if (analyzeKernel(modules, entry, everyKind).copiesAsync)
    text = "cp.async: each thread waits for its own before the next virtual block\n";
  return text + printFindings(modules, entry, "nothing else outlives the block", [](Reason reason) {
           return reason == Reason::AsyncCopy || reason == Reason::AsyncMma ||
                  reason == Reason::Mbarrier || reason == Reason::Setmaxnreg;
         });
}

std::string printSharedMemory(ModuleFacts &modules, const Function &entry) {
  KernelAnalysis analysis = analyzeKernel(modules, entry, everyKind);
  return fmt::format("{} bytes of static shared memory; guard adds {} at that alignment\n",
                     analysis.staticSharedBytes, analysis.tallySharedBytes) +
         printFindings(modules, entry, "nothing in the way of tally's own", [](Reason reason) {
           return reason == Reason::SharedMemoryLimit || reason == Reason::SharedSize;
         });
}

std::string printStability(ModuleFacts &modules, const Function &entry) {
  return analyzeKernel(modules, entry, everyKind).bitwiseStable
             ? "the same bits in any order of blocks\n"
             : "the order of blocks may show in the result\n";
}

std::string escaped(std::string_view text) {
  std::string result;
  for (char each : text) {
    if (each == '"' || each == '\\' || each == '{' || each == '}' || each == '<' || each == '>' ||
        each == '|')
      result += '\\';
    result += each;
  }
  return result;
}

} // namespace

const std::vector<AnalysisPrinter> &allAnalyses() {
  static const std::vector<AnalysisPrinter> analyses = {
#define TALLY_ANALYSIS(name, function, help) {name, help, &function},
#include "tally/ptx/analysis/analyses.def"
#undef TALLY_ANALYSIS
  };
  return analyses;
}

const AnalysisPrinter *analysisNamed(std::string_view name) {
  for (const AnalysisPrinter &each : allAnalyses())
    if (each.name == name)
      return &each;
  return nullptr;
}

std::string cfgAsDot(const Function &function) {
  Cfg cfg(function);
  std::string text = fmt::format("digraph \"{}\" {{\n  node [shape=record, fontname=monospace];\n",
                                 escaped(function.name));
  for (const auto &block : cfg.blocks()) {
    std::string label = block.get() == &cfg.exit() ? "exit" : fmt::format("{}:\\l", block->number);
    for (std::uint32_t statement : block->instructions)
      label += escaped(flattened(function.body[statement].text)) + "\\l";
    text += fmt::format("  b{} [label=\"{{{}}}\"];\n", block->number, label);
    for (const CfgBlock *next : block->successors)
      text += fmt::format("  b{} -> b{};\n", block->number, next->number);
  }
  return text + "}\n";
}

} // namespace tally::ptx
