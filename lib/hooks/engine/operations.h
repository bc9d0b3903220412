// Makes the operations of a lane for the work that a process queues: launches, parts of graphs,
// copies, calls.
#ifndef TALLY_LIB_HOOKS_ENGINE_OPERATIONS_H
#define TALLY_LIB_HOOKS_ENGINE_OPERATIONS_H

#include "engine/best_effort_queue.h"
#include "lane/operation.h"
#include "work/api_device.h"
#include "work/foreign_launch.h"
#include "work/graph_parts.h"
#include "work/kernel_launch.h"
#include "work/own_kernels.h"

#include <atomic>
#include <cstdint>
#include <memory>

namespace tally::hooks {

/// Thread-safe. The queue keeps the errors of work that an operation puts on the device.
class Operations {
public:
  Operations(ApiDevice &device, BestEffortQueue &queue) : device(device), queue(queue) {}

  runtime::Operation of(const std::shared_ptr<const KernelLaunch> &launch);
  /// The operation of a library's launch.
  runtime::Operation of(const std::shared_ptr<const ForeignLaunch> &launch);
  runtime::Operation of(const GraphPart &part);
  /// The operation of a call that puts work other than a kernel on the lane's stream.
  runtime::Operation of(RunOn run);
  /// The operation of a copy or a fill by a kernel of the hooks; `run` makes it through CUDA, where
  /// it cannot yield.
  runtime::Operation of(OwnLaunch launch, RunOn run);
  /// Number of the program's launches that cannot yield.
  std::uint64_t nonPreemptible() const { return launchedNonPreemptible.load(); }

private:
  ApiDevice &device;
  BestEffortQueue &queue;
  std::atomic<std::uint64_t> launchedNonPreemptible{0};
};

} // namespace tally::hooks

#endif
