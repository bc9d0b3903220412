#include "engine/operations.h"

#include <span>
#include <utility>

namespace tally::hooks {

runtime::Operation Operations::of(const std::shared_ptr<const KernelLaunch> &launch) {
  runtime::Operation operation;
  operation.kernel = launch->nonPreemptible ? nullptr : usableVariants(device, *launch->kernel);
  operation.identity = reinterpret_cast<std::uint64_t>(launch->kernel);
  operation.label = launch->kernel->name;
  operation.shape = launch->shape;
  operation.parameters = launch->arguments;
  operation.uses = launch;
  if (!launch->attributes.empty())
    operation.launchBy =
        [this, launch = launch.get()](runtime::StreamId on, runtime::FunctionId function,
                                      const LaunchShape &shape,
                                      std::span<const std::byte> parameters) -> Result<void> {
      return device.launchWith(on, function, shape, parameters, launch->attributes);
    };
  operation.launchUserKernel = [this, launch = launch.get()](runtime::StreamId on) {
    launchedNonPreemptible.fetch_add(1);
    queue.keepError(launchUserKernel(*launch, stateOf(on).handle));
  };
  return operation;
}

runtime::Operation Operations::of(const std::shared_ptr<const ForeignLaunch> &launch) {
  runtime::Operation operation;
  operation.shape = launch->shape;
  operation.identity = launch->identity;
  operation.label = launch->name;
  operation.uses = launch;
  operation.mayBeFreedLate = true;
  operation.launchUserKernel = [this, launch = launch.get()](runtime::StreamId on) {
    queue.keepError(launch->launch(stateOf(on).handle));
  };
  return operation;
}

runtime::Operation Operations::of(const GraphPart &part) {
  if (part.kernel)
    return of(part.kernel);
  if (part.foreign)
    return of(part.foreign);
  // CUDA launches the node's graph.
  auto launch = [small = part.other](cudaStream_t on) { return small->launch(on); };
  if (part.otherKernel == 0)
    return of(launch);
  runtime::Operation operation;
  operation.identity = part.otherKernel;
  operation.label = "(kernel of a graph)";
  operation.shape = part.otherShape;
  operation.launchUserKernel = [this, launch](runtime::StreamId on) {
    launchedNonPreemptible.fetch_add(1);
    queue.keepError(launch(stateOf(on).handle));
  };
  return operation;
}

runtime::Operation Operations::of(RunOn run) {
  runtime::Operation operation;
  operation.type = runtime::Operation::Type::Put;
  operation.put = [this, run = std::move(run)](runtime::StreamId on) {
    return device.putOn(on, [&](cudaStream_t handle) { queue.keepError(run(handle)); });
  };
  return operation;
}

runtime::Operation Operations::of(OwnLaunch launch, RunOn run) {
  runtime::Operation operation = of(std::move(run));
  operation.launchUserKernel = std::exchange(operation.put, {});
  operation.type = runtime::Operation::Type::Launch;
  operation.kernel = launch.kernel->loaded.get();
  operation.identity = reinterpret_cast<std::uint64_t>(launch.kernel);
  operation.label = launch.label;
  operation.shape = launch.shape;
  operation.parameters = runtime::SharedBytes(launch.parameters);
  operation.isOfProgram = false;
  return operation;
}

} // namespace tally::hooks
