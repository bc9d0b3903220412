// CUPTI's activity records of a program. The driver loads our library into that program (CUPTI,
// "Injection": CUDA_INJECTION64_PATH).
#ifndef TALLY_BENCHMARKS_KERNELS_ACTIVITY_H
#define TALLY_BENCHMARKS_KERNELS_ACTIVITY_H

#include <cupti.h>

#include <cstddef>
#include <initializer_list>

namespace activity {

/// The receiver of the records. The calls come one at a time, from any thread, also while the
/// process ends.
struct Listener {
  void (*take)(const CUpti_Activity &record);
  /// Called at the program's end, behind the last record. `dropped`: the number of records that
  /// CUPTI dropped for lack of memory.
  void (*end)(std::size_t dropped);
};

/// Asks CUPTI for records of these kinds. Their times are of CUPTI's clock or, with `monotonic`, of
/// CLOCK_MONOTONIC, which all processes of a machine share. Errors go to standard error.
void start(Listener listener, bool monotonic, std::initializer_list<CUpti_ActivityKind> kinds);

} // namespace activity

#endif
