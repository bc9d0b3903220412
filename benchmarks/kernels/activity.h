// CUPTI's activity records of the program that a library of ours is injected into by the driver
// (CUPTI, "Injection": CUDA_INJECTION64_PATH).
#ifndef TALLY_BENCHMARKS_KERNELS_ACTIVITY_H
#define TALLY_BENCHMARKS_KERNELS_ACTIVITY_H

#include <cupti.h>

#include <cstddef>
#include <initializer_list>

namespace activity {

/// Who gets the records. The calls come one at a time, from any thread, also while the process
/// ends.
struct Listener {
  void (*take)(const CUpti_Activity &record);
  /// At the program's end, behind the last record. `dropped`: records that CUPTI had no place for.
  void (*end)(std::size_t dropped);
};

/// Asks CUPTI for records of these kinds. Their times are of CUPTI's clock, or of CLOCK_MONOTONIC,
/// which is that of all processes of a machine. Errors go to standard error.
void start(Listener listener, bool monotonic, std::initializer_list<CUpti_ActivityKind> kinds);

} // namespace activity

#endif
