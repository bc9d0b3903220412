// Verifies one workload: the user's kernels once, then every kind under every plan.
#ifndef TALLY_VERIFY_VERIFY_H
#define TALLY_VERIFY_VERIFY_H

#include "comparison.h"
#include "run.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tally::verify {

struct VerifyOptions {
  std::vector<Kind> kinds{allKinds.begin(), allKinds.end()};
  YieldMode yield;
  std::uint64_t stormLaunches = defaultStormLaunches;
  std::optional<Comparison> compare; ///< none: exact, or defaultComparison() where order matters
  /// The caller knows that the results do not depend on the order of blocks, for any verdict: the
  /// user's kernel is tested for it, and all results are compared exactly.
  bool orderFree = false;
  /// Warp-instructions of one launch, see Target::setStepLimit. By default defaultUserSteps for the
  /// user's kernels, and for variants 2^24 plus 64 for each thread-instruction of the user's
  /// kernels.
  std::optional<std::uint64_t> stepLimit;
  std::uint32_t userSchedules = 5; ///< further runs of the user's kernel, if its result does not
                                   ///< depend on the order of blocks
  std::uint32_t randomPlans = randomRuns; ///< PlanShape::randomPlans
  std::uint64_t scheduleSeed = 0;         ///< PlanShape::scheduleSeed
};

/// Default limit on a launch's steps, which takes the emulator some ten seconds.
inline constexpr std::uint64_t defaultUserSteps = std::uint64_t{1} << 30;

/// Returns the comparison for a kernel whose result depends on the order of blocks, if the user
/// chose none: integers as a multiset (slots come in any order), floats within 256 ulp (sums in any
/// order).
Comparison defaultComparison(ElementType type);

enum class Outcome : std::uint8_t { Ok, Refused, Failed, Wrong };

/// The outcome for one kind.
struct KindReport {
  Kind kind = Kind::Slice;
  Outcome outcome = Outcome::Ok;
  std::string message; ///< the reason of a refusal; the difference, and the plan that showed it
  std::uint64_t runs = 0, physicalLaunches = 0, yields = 0;
  std::uint64_t saved = 0; ///< blocks, by checkpoint
  std::uint64_t polls = 0; ///< polls of the quiet run
};

struct VerifyReport {
  bool bitwiseStable = false; ///< whether every kernel of the workload is
  std::uint64_t userRuns = 0; ///< 0 where no kind asked for has a variant
  /// Error of a user's kernel: it faulted, or it counts as stable and gave other bits under another
  /// schedule. Its variants are not tested then, and `kinds` is empty.
  std::optional<std::string> userTrouble;
  std::vector<KindReport> kinds;
  bool good() const;
};

/// Verifies the workload. Never fails itself: errors are part of the report. The first difference
/// ends the runs of its kind.
VerifyReport verify(Target &target, const Workload &workload,
                    std::span<const ModuleVariable> variables, const VerifyOptions &options);

/// Returns the report as lines: one for the user's kernel and one per kind, each with a newline.
std::string toText(const VerifyReport &report, const Workload &workload,
                   const VerifyOptions &options);

} // namespace tally::verify

#endif
