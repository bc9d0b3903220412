// Every module that parses goes through analyses and passes: no assertion fails, nothing crashes,
// and every variant passes the structural check. A parse body by body gives the same module, or
// also rejects the text.
#include "fuzzer.h"

#include "tally/ptx/syntax/parser.h"
#include "tally/ptx/transforms/rewriter.h"
#include "tally/ptx/transforms/verify.h"

#include <string>
#include <variant>

using namespace tally;

int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
  std::string text(fuzz::textOf(data, size));
  auto parsed = ptx::parse(text);
  auto rewritten = ptx::rewriteText(text, {});
  const auto *module = std::get_if<ptx::Module>(&parsed);
  const auto *byBody = std::get_if<ptx::RewrittenModule>(&rewritten);
  fuzz::require(!module == !byBody, "read body by body it is PTX or not, else not or PTX");
  if (!module)
    return 0;
  auto kernels = ptx::rewrite(*module, {});
  if (auto broken = ptx::verifyVariants(*module, kernels))
    fuzz::require(false, *broken);
  fuzz::require(ptx::textWithVariants(*module, kernels) ==
                    ptx::textWithVariants(byBody->module, byBody->kernels),
                "read body by body it has other variants");
  return 0;
}
