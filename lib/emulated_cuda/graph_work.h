// Makes the work of a graph's nodes from the parameters that describe them. An error leaves the
// work unchanged.
#ifndef TALLY_LIB_EMULATED_CUDA_GRAPH_WORK_H
#define TALLY_LIB_EMULATED_CUDA_GRAPH_WORK_H

#include "copies.h"

#include "tables/cuda_versions.h"

namespace tally::hooks::emulated {

cudaError_t workOf(runtime::EmulatorDevice &device, const cudaKernelNodeParams *parameters,
                   GraphWork &work);
cudaError_t workOf(runtime::EmulatorDevice &device, const Box &box, cudaMemcpyKind kind,
                   GraphWork &work);
cudaError_t workOf(runtime::EmulatorDevice &device, const cudaMemcpy3DParms *parameters,
                   GraphWork &work);
cudaError_t workOf(runtime::EmulatorDevice &device, const cudaMemsetParams *parameters,
                   GraphWork &work);
cudaError_t workOf(const cudaHostNodeParams *parameters, GraphWork &work);

/// Returns a function of a device and a GraphWork that makes the work of these parameters.
template <class Parameters> auto workMaker(const Parameters *parameters) {
  return [parameters](runtime::EmulatorDevice &device, GraphWork &work) {
    return workOf(device, parameters, work);
  };
}

} // namespace tally::hooks::emulated

#endif
