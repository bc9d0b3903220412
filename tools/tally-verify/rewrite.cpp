// PTX → bundle through the transforms library, which needs LLVM.
#include "input.h"
#include "ptx_text.h"

#include "tally/ptx/transforms/rewriter.h"
#include "tally/ptx/transforms/verify.h"

#include <fmt/format.h>

#include <utility>

namespace tally::verify {

Result<bundle::Bundle> rewriteToBundle(std::string text, std::string_view where,
                                       const std::string &coding, std::uint64_t pollPeriod) {
  auto module = parsePtx(std::move(text), where);
  if (!module)
    return module.error();
  ptx::RewriteOptions options;
  options.coding = coding;
  options.polls.period = pollPeriod;
  auto kernels = ptx::rewrite(*module, options);
  if (auto broken = ptx::verifyVariants(*module, kernels))
    return Error{fmt::format("{}: a bug of the rewriter: {}", where, *broken)};
  bundle::Bundle bundle;
  bundle.moduleHash = bundle::hashOf(module->source());
  for (const ptx::RewrittenKernel &kernel : kernels)
    bundle.kernels.push_back(ptx::describe(kernel));
  bundle.images.push_back(
      {bundle::ImageFormat::Ptx, module->targetArch(), ptx::textWithVariants(*module, kernels)});
  return bundle;
}

} // namespace tally::verify
