#include "tally/ptx/analysis/refusal_reasons.h"

#include <cassert>

namespace tally::ptx {
namespace {

constexpr ReasonFacts table[] = {
#define TALLY_REASON(enumerator, code, kinds, sentence) {code, kinds, sentence},
#include "tally/ptx/analysis/refusal_reasons.def"
#undef TALLY_REASON
};

} // namespace

const ReasonFacts &factsOf(Reason reason) {
  auto index = static_cast<std::size_t>(reason);
  assert(index < std::size(table) && "a reason without a row");
  return table[index];
}

std::span<const ReasonFacts> allReasons() { return table; }

} // namespace tally::ptx
