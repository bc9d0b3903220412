// The resources that high-priority kernels take of an SM, as far as CUDA tells them.
#ifndef TALLY_LIB_HOOKS_WORK_KERNEL_USE_H
#define TALLY_LIB_HOOKS_WORK_KERNEL_USE_H

#include "planning/headroom.h"
#include "state/registry.h"
#include "work/foreign_launch.h"

#include <optional>
#include <vector>

namespace tally::hooks {

/// Whether the driver may make a copy of that kind with a kernel: copy engines make copies to and
/// from the host.
constexpr bool isOfDriver(cudaMemcpyKind kind) {
  return kind == cudaMemcpyDeviceToDevice || kind == cudaMemcpyDefault;
}

/// A kernel and the shape that it is launched in.
struct KernelUse {
  runtime::FunctionAttributes function;
  LaunchShape shape;
  bool together = false; ///< all blocks have to run at the same time
};

/// The resources that each block of the kernel takes; nothing where CUDA does not tell. Asked once,
/// on a thread of its own: a failing query leaves no error behind, and a capture does not forbid
/// it.
std::optional<runtime::FunctionAttributes> attributesOf(KernelRecord &kernel, int device);

/// All kernels and copies that launches of a graph run.
class GraphUse {
public:
  GraphUse(const CudaApi &api, Registry &registry, int device)
      : api(api), registry(registry), device(device) {}

  /// Called on a thread on which a failing call may leave an error.
  void addGraph(cudaGraph_t graph);
  /// A node of the graph got another kernel, or another shape.
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
  bool known = true;     ///< `kernels` is complete
  bool branches = false; ///< some kernels may run at the same time
  bool together = false; ///< some node's kernel is cooperative
  bool ofDriver = false; ///< it has copies or fills, which the driver may make with kernels
};

} // namespace tally::hooks

#endif
