// What kernels of high priority take of an SM, as far as CUDA tells it.
#ifndef TALLY_LIB_HOOKS_WORK_KERNEL_USE_H
#define TALLY_LIB_HOOKS_WORK_KERNEL_USE_H

#include "planning/headroom.h"
#include "state/registry.h"
#include "work/foreign_launch.h"

#include <optional>
#include <vector>

namespace tally::hooks {

/// Whether a copy of that kind may be a kernel of the driver's: to and from the host go copy
/// engines.
constexpr bool isOfDriver(cudaMemcpyKind kind) {
  return kind == cudaMemcpyDeviceToDevice || kind == cudaMemcpyDefault;
}

/// A kernel and the shape that it is launched in.
struct KernelUse {
  runtime::FunctionAttributes function;
  LaunchShape shape;
  bool together = false; ///< all blocks have to be there at a time
};

/// What each block of the kernel takes. Asked once, on a thread of its own: what fails there leaves
/// no error behind, and a capture does not forbid it. Nothing where CUDA does not tell.
std::optional<runtime::FunctionAttributes> attributesOf(KernelRecord &kernel, int device);

/// All that launches of a graph run.
class GraphUse {
public:
  GraphUse(const CudaApi &api, Registry &registry, int device)
      : api(api), registry(registry), device(device) {}

  /// On a thread on which what fails may leave an error.
  void addGraph(cudaGraph_t graph);
  /// A node of it was given another kernel, or another shape.
  void setKernel(const cudaKernelNodeParams &parameters);
  void setKernelByDriver(const CUDA_KERNEL_NODE_PARAMS_v2 &parameters);
  runtime::Headroom::Asked askedOf(const runtime::Headroom &headroom) const;

private:
  cudaGraphNode_t nodeAhead(cudaGraphNode_t node);
  void addNode(cudaGraphNode_t node);
  std::optional<KernelUse> useOf(const cudaKernelNodeParams &parameters, bool cooperative) const;
  void addKernelNode(cudaGraphNode_t node);
  std::optional<KernelUse> useByDriver(const CUDA_KERNEL_NODE_PARAMS_v2 &parameters,
                                       bool cooperative) const;
  void add(const std::optional<KernelUse> &use);

  struct Counted {
    KernelUse use;
    std::uint32_t count = 1;
  };
  const CudaApi &api;
  Registry &registry;
  int device;
  std::vector<Counted> kernels;
  bool known = true;     ///< the above are all
  bool branches = false; ///< some may run at a time
  bool together = false; ///< some node's kernel is cooperative
  bool ofDriver = false; ///< it has copies or fills, which may be kernels of the driver's
};

} // namespace tally::hooks

#endif
