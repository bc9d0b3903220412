// Where on the GPU the two loads go: streams with priorities, plain ones, or green contexts that
// share the SMs out.
#ifndef TALLY_BENCHMARKS_WORKLOADS_PLACEMENT_H
#define TALLY_BENCHMARKS_WORKLOADS_PLACEMENT_H

#include <cuda_runtime.h>

#include <string>

namespace workloads {

struct PlacementOptions {
  bool priorities = true;
  /// Share of the SMs for training, the rest is for requests; 0: no green contexts.
  double green = 0;
  /// SMs for training, where requests have all SMs; 0: no green context.
  unsigned greenTraining = 0;
};

class Placement {
public:
  /// Ends the program, with the reason, where the driver has no green contexts and they are asked
  /// for.
  explicit Placement(const PlacementOptions &options);
  cudaStream_t requests() const { return high; }
  cudaStream_t training() const { return low; }
  const std::string &description() const { return text; }

private:
  void makeGreen(const PlacementOptions &options, int highPriority, int lowPriority);

  cudaStream_t high = nullptr, low = nullptr;
  std::string text;
};

} // namespace workloads

#endif
