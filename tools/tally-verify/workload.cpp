#include "workload.h"

#include "tally/bundle/abi.h"
#include "tally/runtime/variant_launch.h"

#include <fmt/format.h>

#include <cassert>
#include <cstring>

namespace tally::verify {

namespace {

Result<void> checkShape(const LaunchShape &shape) {
  if (shape.grid.count() == 0 || shape.grid.count() > TALLY_MAX_VIRTUAL_BLOCKS)
    return Error{fmt::format("a grid of {} blocks cannot be run", shape.grid.count())};
  if (shape.block.count() == 0 || shape.block.count() > 1024)
    return Error{fmt::format("a block of {} threads cannot be run", shape.block.count())};
  const Dim3 &cluster = shape.cluster;
  if (cluster == Dim3{0, 0, 0})
    return {};
  if (cluster.count() == 0 || shape.grid.x % cluster.x != 0 || shape.grid.y % cluster.y != 0 ||
      shape.grid.z % cluster.z != 0)
    return Error{"the grid is no whole number of clusters"};
  return {};
}

} // namespace

Result<Workload> workloadOf(const bundle::Kernel &kernel, const LaunchShape &shape,
                            std::span<const ArgumentSpec> arguments) {
  if (auto checked = checkShape(runtime::shapeForVariants(kernel, shape)); !checked)
    return checked.error();
  if (arguments.size() != kernel.parameters.size())
    return Error{fmt::format("kernel '{}' takes {} arguments, not {}", kernel.name,
                             kernel.parameters.size(), arguments.size())};
  Workload workload;
  KernelLaunch launch{&kernel, shape, {}};
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    std::size_t size = arguments[i].buffer ? sizeof(std::uint64_t) : arguments[i].scalar.size();
    if (size != kernel.parameters[i].size)
      return Error{fmt::format("argument {} of kernel '{}' is {} bytes, not {}", i, kernel.name,
                               kernel.parameters[i].size, size)};
    Argument argument{arguments[i].scalar, std::nullopt};
    if (arguments[i].buffer) {
      auto initial = initialBytes(*arguments[i].buffer);
      if (!initial)
        return initial.error();
      argument.buffer = workload.buffers.size();
      workload.buffers.push_back(
          {fmt::format("argument {}", i), arguments[i].buffer->type, std::move(*initial)});
    }
    launch.arguments.push_back(std::move(argument));
  }
  workload.launches.push_back(std::move(launch));
  return workload;
}

std::vector<std::byte> userParameters(const KernelLaunch &launch,
                                      std::span<const std::uint64_t> addresses) {
  std::vector<std::byte> bytes(launch.kernel->parameterBytes);
  for (std::size_t i = 0; i < launch.arguments.size(); ++i) {
    const Argument &argument = launch.arguments[i];
    const bundle::Parameter &parameter = launch.kernel->parameters[i];
    assert(parameter.offset + parameter.size <= bytes.size());
    if (argument.buffer)
      std::memcpy(bytes.data() + parameter.offset, &addresses[*argument.buffer],
                  sizeof(std::uint64_t));
    else
      std::memcpy(bytes.data() + parameter.offset, argument.scalar.data(), argument.scalar.size());
  }
  return bytes;
}

} // namespace tally::verify
