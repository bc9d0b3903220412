#include "graph_work.h"

#include "launch.h"

namespace tally::hooks::emulated {

cudaError_t workOf(runtime::EmulatorDevice &device, const cudaKernelNodeParams *parameters,
                   GraphWork &work) {
  if (!parameters || parameters->extra)
    return cudaErrorInvalidValue;
  KernelLaunch launch;
  launch.function = parameters->func;
  const dim3 &grid = parameters->gridDim, &block = parameters->blockDim;
  launch.shape = {
      {grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, parameters->sharedMemBytes, {0, 0, 0}};
  launch.arguments = parameters->kernelParams;
  return workOf(device, launch, work);
}

cudaError_t workOf(runtime::EmulatorDevice &device, const Box &box, cudaMemcpyKind kind,
                   GraphWork &work) {
  cudaError_t error = complaint(device, box, kind);
  if (error == cudaSuccess)
    work = workOf(box, kind);
  return error;
}

cudaError_t workOf(runtime::EmulatorDevice &device, const cudaMemcpy3DParms *parameters,
                   GraphWork &work) {
  Box box;
  if (!parameters)
    return cudaErrorInvalidValue;
  cudaError_t error = boxOf(*parameters, box);
  if (error == cudaSuccess)
    error = workOf(device, box, parameters->kind, work);
  if (error == cudaSuccess)
    work.details = std::make_shared<const NodeDetails>(*parameters);
  return error;
}

cudaError_t workOf(runtime::EmulatorDevice &device, const cudaMemsetParams *parameters,
                   GraphWork &work) {
  if (!parameters)
    return cudaErrorInvalidValue;
  Fill what{{static_cast<std::byte *>(parameters->dst), parameters->pitch, 0},
            static_cast<int>(parameters->value),
            parameters->width * parameters->elementSize,
            parameters->height,
            1,
            parameters->elementSize};
  cudaError_t error = complaint(device, what);
  if (error == cudaSuccess)
    work = workOf(what);
  return error;
}

cudaError_t workOf(const cudaHostNodeParams *parameters, GraphWork &work) {
  if (!parameters || !parameters->fn)
    return cudaErrorInvalidValue;
  work = GraphWork(
      [host = *parameters](runtime::EmulatorDevice &device, runtime::StreamId stream) {
        return device.enqueueForHost(stream, [host] { host.fn(host.userData); });
      },
      *parameters);
  return cudaSuccess;
}

} // namespace tally::hooks::emulated
