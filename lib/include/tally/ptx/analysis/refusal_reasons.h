// Reason codes of refusals, and findings: facts of a kernel that refuse some kinds.
#ifndef TALLY_PTX_ANALYSIS_REFUSAL_REASONS_H
#define TALLY_PTX_ANALYSIS_REFUSAL_REASONS_H

#include "tally/bundle/verdict.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tally::ptx {

/// A set of kinds as bits.
using KindSet = std::uint8_t;
constexpr KindSet setOf(Kind kind) {
  return static_cast<KindSet>(1u << static_cast<unsigned>(kind));
}
inline constexpr KindSet onSlice = setOf(Kind::Slice), onGuard = setOf(Kind::Guard),
                         onPersistent = setOf(Kind::Persistent), onPause = setOf(Kind::Pause),
                         onCheckpoint = setOf(Kind::Checkpoint);
/// The kinds of hasWorkers(): a reason that refuses one worker loop refuses all of them.
inline constexpr KindSet onWorkers = onPersistent | onPause | onCheckpoint;
inline constexpr KindSet everyKind = onSlice | onGuard | onWorkers;

enum class Reason : std::uint8_t {
#define TALLY_REASON(enumerator, code, kinds, sentence) enumerator,
#include "tally/ptx/analysis/refusal_reasons.def"
#undef TALLY_REASON
};

/// One row of refusal_reasons.def.
struct ReasonFacts {
  std::string_view code;
  KindSet kinds;
  std::string_view sentence;
};

const ReasonFacts &factsOf(Reason reason);
std::span<const ReasonFacts> allReasons();

/// A part of a kernel's text that refuses some kinds.
struct Finding {
  Reason reason;
  std::string_view place;    ///< the text that shows it, a view into the module's source
  std::string detail;        ///< a name that completes the sentence; may be empty
  KindSet kinds = everyKind; ///< the kinds that this finding refuses, of the reason's kinds
};

} // namespace tally::ptx

#endif
