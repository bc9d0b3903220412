#include "work/direct_launches.h"

namespace tally::hooks {

/// Keeps the function of a kernel that the runtime has just launched. `ask(driver, function)` sets
/// the driver's function, or returns false, without leaving an error.
template <class Ask> void DirectLaunches::keep(const CudaApi &api, const void *kernel, Ask ask) {
  const DriverLaunches *by = api.driver ? &api.driver() : nullptr;
  if (by && (!by->launch || !by->currentContext || !by->functionOfKernel))
    by = nullptr;
  std::unique_lock lock(mutex);
  CUfunction function = none();
  if (CUcontext current = nullptr; by && by->currentContext(&current) == CUDA_SUCCESS) {
    if (CUcontext first = context.load(); first && first != current)
      return;
    if (!ask(*by, function))
      function = none();
    driver.store(by);
    context.store(current);
  }
  for (unsigned i = 0; i < probes; ++i) {
    Slot &slot = slots[place(kernel, i)];
    const void *of = slot.kernel.load();
    if (of && of != kernel)
      continue;
    slot.function.store(function);
    slot.kernel.store(kernel, std::memory_order_release);
    return;
  }
}

cudaError_t DirectLaunches::makeByRuntime(const CudaApi &api, const void *symbol,
                                          const LaunchArguments &launch, bool isNew) {
  cudaError_t status = api.cudaLaunchKernel(symbol, launch.grid, launch.block, launch.arguments,
                                            launch.sharedBytes, launch.stream);
  // A failing query must not replace an error that the program has yet to find.
  if (isNew && isOn && status == cudaSuccess && api.cudaPeekAtLastError() == cudaSuccess)
    keep(api, symbol, [&](const DriverLaunches &by, CUfunction &function) {
      if (api.cudaGetFuncBySymbol(&function, symbol) == cudaSuccess)
        return true;
      api.cudaGetLastError();
      // It is no symbol, and the runtime has launched it: so it is a cudaKernel_t, which may stand
      // in a symbol's place.
      auto kernel = static_cast<CUkernel>(const_cast<void *>(symbol));
      return by.functionOfKernel(&function, kernel) == CUDA_SUCCESS;
    });
  return status;
}

cudaError_t DirectLaunches::makeByRuntime(const CudaApi &api, cudaKernel_t kernel,
                                          const LaunchArguments &launch, bool isNew) {
  cudaError_t status = api.__cudaLaunchKernel(kernel, launch.grid, launch.block, launch.arguments,
                                              launch.sharedBytes, launch.stream);
  if (isNew && isOn && status == cudaSuccess)
    keep(api, kernel, [&](const DriverLaunches &by, CUfunction &function) {
      return by.functionOfKernel(&function, kernel) == CUDA_SUCCESS;
    });
  return status;
}

void DirectLaunches::forget() {
  std::unique_lock lock(mutex);
  for (Slot &slot : slots)
    slot.function.store(nullptr);
  context.store(nullptr);
}

} // namespace tally::hooks
