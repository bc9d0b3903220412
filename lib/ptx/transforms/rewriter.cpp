#include "tally/ptx/transforms/rewriter.h"

#include "tally/ptx/analysis/kernel_analysis.h"
#include "tally/ptx/syntax/printer.h"
#include "tally/ptx/transforms/pass.h"

#include <fmt/format.h>

namespace tally::ptx {
namespace {

Verdict refused(Kind kind, const Finding &finding, const Module &module) {
  const ReasonFacts &facts = factsOf(finding.reason);
  std::string message(facts.sentence);
  if (!finding.detail.empty())
    message += fmt::format(": {}", finding.detail);
  return {kind, Status::Refused, std::string(facts.code), std::move(message),
          module.lineOf(finding.place)};
}

/// An entry of the variant's name that the module already holds.
const Finding *clash(const Module &module, std::string_view kernel, Kind kind, Finding &storage) {
  for (bool resume : {false, true})
    if (const Function *taken = module.function(bundle::entryName(kernel, kind, resume))) {
      storage = {Reason::ReservedName, taken->name, std::string(taken->name)};
      return &storage;
    }
  return nullptr;
}

bundle::Kernel layoutOf(const Function &function, const KernelAnalysis &analysis) {
  bundle::Kernel kernel;
  kernel.name = function.name;
  for (const Variable &parameter : function.parameters)
    kernel.parameters.push_back(
        {parameter.paramOffset, static_cast<std::uint32_t>(parameter.sizeInBytes)});
  kernel.parameterBytes = function.parameterBytes();
  kernel.staticSharedBytes = analysis.staticSharedBytes;
  kernel.bitwiseStable = analysis.bitwiseStable;
  kernel.spending = analysis.loop.spends               ? bundle::Spending::Possible
                    : analysis.loop.needsWholeWarpRows ? bundle::Spending::InPartialRows
                                                       : bundle::Spending::Never;
  return kernel;
}

RewrittenKernel rewriteKernel(ModuleFacts &facts, const Function &function, KindSet kinds) {
  const Module &module = facts.moduleOf();
  KernelAnalysis analysis = analyzeKernel(facts, function, kinds);
  RewrittenKernel result;
  result.function = &function;
  result.layout = layoutOf(function, analysis);
  for (const PassFacts &pass : allPasses()) {
    if (!(kinds & setOf(pass.kind)))
      continue;
    Variant variant;
    Finding storage;
    const Finding *finding = analysis.refusal(pass.kind);
    if (!finding)
      finding = clash(module, function.name, pass.kind, storage);
    if (finding) {
      variant.verdict = refused(pass.kind, *finding, module);
    } else {
      variant.verdict = {pass.kind, Status::Emitted, {}, {}, 0};
      variant.entries = pass.create()->run({module, function, analysis});
    }
    result.variants.push_back(std::move(variant));
  }
  return result;
}

} // namespace

std::vector<RewrittenKernel> rewrite(const Module &module, const RewriteOptions &options) {
  std::vector<RewrittenKernel> kernels;
  ModuleFacts facts(module);
  for (const Item &item : module.items()) {
    const Function *function = item.function.get();
    if (!function || !function->isEntry || !function->hasBody)
      continue;
    bool selected = !options.selects || options.selects(function->name);
    kernels.push_back(rewriteKernel(facts, *function, selected ? options.kinds : KindSet{0}));
    kernels.back().selected = selected;
  }
  return kernels;
}

bundle::Kernel describe(const RewrittenKernel &kernel) {
  bundle::Kernel result = kernel.layout;
  for (Kind kind : allKinds)
    result.verdicts.push_back(
        {kind, Status::Refused, "not-requested", "this kind was not asked for", 0});
  for (const Variant &variant : kernel.variants)
    result.verdicts[static_cast<std::size_t>(variant.verdict.kind)] = variant.verdict;
  return result;
}

std::string textWithVariants(const Module &module, const std::vector<RewrittenKernel> &kernels) {
  std::string text = print(module);
  for (const RewrittenKernel &kernel : kernels)
    for (const Variant &variant : kernel.variants)
      for (const std::string &entry : variant.entries) {
        if (!text.ends_with('\n'))
          text += '\n';
        text += '\n';
        text += entry;
        text += '\n';
      }
  return text;
}

} // namespace tally::ptx
