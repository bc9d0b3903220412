// The places of the two loads on the GPU: streams with priorities, plain streams, or green contexts
// with separate SMs.
#ifndef TALLY_BENCHMARKS_WORKLOADS_PLACEMENT_H
#define TALLY_BENCHMARKS_WORKLOADS_PLACEMENT_H

#include <cuda_runtime.h>

#include <string>

namespace workloads {

struct PlacementOptions {
  bool priorities = true;
  /// Share of the SMs for training; requests get the other SMs. 0: no green contexts.
  double green = 0;
  /// SMs for training, while requests have all SMs. 0: no green context.
  unsigned greenTraining = 0;
};

class Placement {
public:
  /// Ends the program, with the reason, if the options need green contexts and the driver has none.
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
