#include "tally/ptx/transforms/checkpoint_pass.h"
#include "tally/ptx/transforms/guard_pass.h"
#include "tally/ptx/transforms/pause_pass.h"
#include "tally/ptx/transforms/persistent_pass.h"
#include "tally/ptx/transforms/slice_pass.h"

namespace tally::ptx {

const std::vector<PassFacts> &allPasses() {
  static const std::vector<PassFacts> passes = {
#define TALLY_PASS(kind, Class, help)                                                              \
  {Kind::kind, help, []() -> std::unique_ptr<Pass> { return std::make_unique<Class>(); }},
#include "tally/ptx/transforms/passes.def"
#undef TALLY_PASS
  };
  return passes;
}

} // namespace tally::ptx
