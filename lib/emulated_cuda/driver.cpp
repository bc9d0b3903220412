// The driver functions that the hooks call without the emulated runtime. A failing call leaves no
// error for the runtime to find.
#include "calls.h"
#include "context.h"
#include "launch.h"
#include "streams.h"

#include "tables/driver_launches.h"

namespace tally::hooks::emulated {

namespace {

/// The driver and the runtime number errors alike.
CUresult driverCode(cudaError_t error) { return static_cast<CUresult>(error); }

CUresult launchKernelEx(const CUlaunchConfig *config, CUfunction function, void **parameters,
                        void **extra) {
  Context &context = Context::get();
  if (cudaError_t bad = context.health(); bad != cudaSuccess)
    return driverCode(bad);
  if (extra || config->numAttrs != 0)
    return CUDA_ERROR_NOT_SUPPORTED;
  LaunchShape shape{{config->gridDimX, config->gridDimY, config->gridDimZ},
                    {config->blockDimX, config->blockDimY, config->blockDimZ},
                    config->sharedMemBytes,
                    {0, 0, 0}};
  GraphWork work;
  cudaError_t error = workOf(*context.device(), {function, shape, false, parameters}, work);
  if (error == cudaSuccess)
    error = submit(*context.device(), config->hStream, cudaGraphNodeTypeKernel, std::move(work));
  return driverCode(error);
}

/// There is one context, which is always current.
CUresult currentContext(CUcontext *context) {
  *context = reinterpret_cast<CUcontext>(&Context::get());
  return CUDA_SUCCESS;
}

/// Both handles are the kernel's address.
CUresult functionOfKernel(CUfunction *function, CUkernel kernel) {
  *function = reinterpret_cast<CUfunction>(kernel);
  return CUDA_SUCCESS;
}

/// Waits for 4-byte words.
CUresult batchMemOp(CUstream stream, unsigned count, CUstreamBatchMemOpParams *all, unsigned) {
  Context &context = Context::get();
  for (unsigned i = 0; i < count; ++i) {
    const auto &wait = all[i].waitValue;
    if (wait.operation != CU_STREAM_MEM_OP_WAIT_VALUE_32)
      return CUDA_ERROR_NOT_SUPPORTED;
    runtime::WordWait word{wait.address, static_cast<std::uint32_t>(wait.value),
                           wait.flags == CU_STREAM_WAIT_VALUE_EQ
                               ? runtime::WordWait::Until::Equal
                               : runtime::WordWait::Until::AtLeast};
    GraphWork work = [word](runtime::EmulatorDevice &device, runtime::StreamId on) {
      return device.waitForWords(on, std::span(&word, 1));
    };
    if (cudaError_t bad =
            submit(*context.device(), stream, cudaGraphNodeTypeMemset, std::move(work));
        bad != cudaSuccess)
      return driverCode(bad);
  }
  return CUDA_SUCCESS;
}

int writeValue(cudaStream_t stream, std::uint64_t address, std::uint64_t value, unsigned) {
  GraphWork work = [address, value](runtime::EmulatorDevice &device, runtime::StreamId on) {
    return device.writeValue(on, address, value);
  };
  return submit(*Context::get().device(), stream, cudaGraphNodeTypeMemset, std::move(work));
}

} // namespace

const DriverLaunches &driver() {
  static constexpr DriverLaunches calls = [] {
    DriverLaunches made;
    made.launch = launchKernelEx;
    made.currentContext = currentContext;
    made.functionOfKernel = functionOfKernel;
    made.batchMemOp = batchMemOp;
    made.writeValue = writeValue;
    return made;
  }();
  return calls;
}

} // namespace tally::hooks::emulated
