// Runs a workload once, by the user's kernels or by variants of one kind that yield as planned. The
// steps are those of the runtime's dispatcher: it sends all kernels of the stream ahead under one
// epoch, and sends the remaining blocks again, in order, once they may run.
#ifndef TALLY_VERIFY_RUN_H
#define TALLY_VERIFY_RUN_H

#include "ptx_text.h"
#include "target.h"
#include "workload.h"
#include "yield_plan.h"

#include "tally/support/result.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tally::verify {

/// Memory contents after a run: the workload's buffers, then the module's variables.
struct RunResult {
  std::vector<std::vector<std::byte>> memory;
  std::uint64_t polls = 0; ///< 0 where the target cannot count them
  std::uint64_t physicalLaunches = 0;
  std::uint64_t yields = 0; ///< physical launches that left blocks to run
  std::uint64_t saved = 0;  ///< blocks that these launches saved inside of a loop
};

/// Runs the user's kernels. The error names the kernel that faulted, and the place.
Result<RunResult> runUser(Target &target, const Workload &workload,
                          std::span<const ModuleVariable> variables,
                          const emulator::Schedule &schedule);

/// Runs the variants of `kind`, which every kernel of the workload has. An error is a fault, or an
/// outcome that no sound variant gives: a list that is too long, a run that does not end, a yield
/// without a request.
Result<RunResult> runVariant(Target &target, const Workload &workload,
                             std::span<const ModuleVariable> variables, Kind kind,
                             const YieldPlan &plan);

} // namespace tally::verify

#endif
