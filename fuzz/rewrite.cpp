// Whatever parses goes through analyses and passes: no assertion, no crash, and every variant passes
// the structural check.
#include "fuzzer.h"

#include "tally/ptx/syntax/parser.h"
#include "tally/ptx/transforms/rewriter.h"
#include "tally/ptx/transforms/verify.h"

#include <string>
#include <variant>

using namespace tally;

int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
  auto parsed = ptx::parse(std::string(fuzz::textOf(data, size)));
  const auto *module = std::get_if<ptx::Module>(&parsed);
  if (!module)
    return 0;
  auto kernels = ptx::rewrite(*module, {});
  if (auto broken = ptx::verifyVariants(*module, kernels))
    fuzz::require(false, *broken);
  return 0;
}
