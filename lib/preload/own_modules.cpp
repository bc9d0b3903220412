#include "own_modules.h"

#include "driver_calls.h"

#include <utility>

namespace tally::preload {

OwnModules &OwnModules::get() {
  static auto &modules = *new OwnModules; // threads may use it until the process ends
  return modules;
}

OwnModules::Module &OwnModules::add(const void *container) {
  std::unique_lock lock(mutex);
  Module &added = modules.emplace_back();
  added.container = container;
  return added;
}

void OwnModules::addKernel(Module &module, const void *address, std::string name) {
  std::unique_lock lock(mutex);
  kernels[address] = {&module, std::move(name)};
}

CUresult OwnModules::find(const void *kernel, CUfunction &function) {
  std::unique_lock lock(mutex);
  auto known = kernels.find(kernel);
  if (known == kernels.end()) {
    function = static_cast<CUfunction>(const_cast<void *>(kernel));
    return CUDA_SUCCESS;
  }
  auto &[module, name, found] = known->second;
  if (!std::exchange(module->wasTried, true))
    module->status = driver().cuModuleLoadFatBinary(&module->loaded, module->container);
  CUresult status = module->status;
  if (status == CUDA_SUCCESS && !found)
    status = driver().cuModuleGetFunction(&found, module->loaded, name.c_str());
  function = found;
  return status;
}

} // namespace tally::preload
