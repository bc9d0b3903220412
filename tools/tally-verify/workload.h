// The verified work: buffers, and kernels that are launched on them in order, as on one stream.
#ifndef TALLY_VERIFY_WORKLOAD_H
#define TALLY_VERIFY_WORKLOAD_H

#include "argument.h"

#include "tally/bundle/bundle.h"
#include "tally/support/dim3.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tally::verify {

struct Buffer {
  std::string name;
  ElementType type = ElementType::U32;
  std::vector<std::byte> initial;
};

/// A scalar's bytes, or the address of workload.buffers[*buffer].
struct Argument {
  std::vector<std::byte> scalar;
  std::optional<std::size_t> buffer;
};

struct KernelLaunch {
  const bundle::Kernel *kernel = nullptr;
  LaunchShape shape;
  std::vector<Argument> arguments; ///< one per parameter of the kernel
};

struct Workload {
  std::vector<Buffer> buffers;
  std::vector<KernelLaunch> launches;
};

/// Returns one launch of `kernel` with a buffer of its own for each `ptr`. Fails where the
/// arguments do not fit the kernel's parameters in number or size, the grid is empty, or a file
/// cannot be read.
Result<Workload> workloadOf(const bundle::Kernel &kernel, const LaunchShape &shape,
                            std::span<const ArgumentSpec> arguments);

/// Returns the user's part of the parameter space, `kernel.parameterBytes` long; `addresses` are
/// those of the workload's buffers.
std::vector<std::byte> userParameters(const KernelLaunch &launch,
                                      std::span<const std::uint64_t> addresses);

} // namespace tally::verify

#endif
