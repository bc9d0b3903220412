// The functions of a CUDA device: those of modules that it has loaded, and the program's own.
#include "device/cuda_device.h"

#include <array>
#include <utility>

namespace tally::runtime {

Result<FunctionId> CudaDevice::function(ModuleId module, std::string_view entry) {
  if (Result<void> current = makeCurrent(); !current)
    return current.error();
  std::string name(entry);
  auto *of = reinterpret_cast<CUmodule>(static_cast<std::uint64_t>(module));
  CUfunction handle = nullptr;
  CUresult code = driver.TALLY_CUDA_ENTRY(cuModuleGetFunction)(&handle, of, name.c_str());
  if (code != CUDA_SUCCESS)
    return Error{name + ": " + driver.failure("cuModuleGetFunction", code).message};
  return addFunction(of, handle, std::move(name));
}

Result<FunctionId> CudaDevice::addFunction(CUmodule module, CUfunction handle, std::string name) {
  auto ask = [&](CUfunction_attribute attribute) -> Result<std::uint32_t> {
    int value = 0;
    TALLY_CUDA_TRY(driver, cuFuncGetAttribute, &value, attribute, handle);
    return static_cast<std::uint32_t>(value);
  };
  constexpr std::array<CUfunction_attribute, 5> wanted = {
      CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
      CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT,
      CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH};
  std::array<std::uint32_t, 5> values{};
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    Result<std::uint32_t> value = ask(wanted[i]);
    if (!value)
      return value.error();
    values[i] = *value;
  }
  std::unique_lock lock(mutex);
  CudaFunction &record = modules[module].emplace_back();
  record.handle = handle;
  record.name = std::move(name);
  record.staticShared = values[0];
  // The program may have opted in for more than the runtime's launches need; keep its limit.
  if (!module)
    record.dynamicAllowed = values[1];
  record.demanded = {values[2], values[3], values[4]};
  return static_cast<FunctionId>(reinterpret_cast<std::uint64_t>(&record));
}

Result<void> CudaDevice::unloadModule(ModuleId module) {
  if (Result<void> current = makeCurrent(); !current)
    return current;
  auto *handle = reinterpret_cast<CUmodule>(static_cast<std::uint64_t>(module));
  {
    // Erase first: after unloading the driver may give the handle to another thread's module.
    std::unique_lock lock(mutex);
    modules.erase(handle);
  }
  TALLY_CUDA_TRY(driver, cuModuleUnload, handle);
  return {};
}

/// Uses cuFuncGetParamInfo of CUDA 12.4. The parameters end at the first index that it refuses.
std::optional<std::vector<bundle::Parameter>> CudaDevice::parametersOf(CUfunction handle) const {
  using ParameterInfo = CUresult(CUDAAPI *)(CUfunction, std::size_t, std::size_t *, std::size_t *);
  auto ask = reinterpret_cast<ParameterInfo>(CudaDriver::find("cuFuncGetParamInfo"));
  if (!ask)
    return std::nullopt;
  std::vector<bundle::Parameter> found;
  for (;;) {
    std::size_t offset = 0, size = 0;
    CUresult code = ask(handle, found.size(), &offset, &size);
    if (code == CUDA_ERROR_INVALID_VALUE)
      return found;
    if (code != CUDA_SUCCESS)
      return std::nullopt;
    found.push_back({static_cast<std::uint32_t>(offset), static_cast<std::uint32_t>(size)});
  }
}

Result<AdoptedFunction> CudaDevice::adoptFunction(std::uint64_t nativeFunction,
                                                  std::string_view name) {
  if (nativeFunction == 0)
    return Error{"the CUfunction is null"};
  if (Result<void> current = makeCurrent(); !current)
    return current.error();
  auto *handle = reinterpret_cast<CUfunction>(nativeFunction);
  Result<FunctionId> added = addFunction(nullptr, handle, std::string(name));
  if (!added)
    return Error{std::string(name) + ": " + added.error().message};
  return AdoptedFunction{*added, parametersOf(handle), functionOf(*added).demanded};
}

void CudaDevice::releaseFunction(FunctionId function) {
  std::unique_lock lock(mutex);
  modules[nullptr].remove_if(
      [&](const CudaFunction &each) { return &each == &functionOf(function); });
}

} // namespace tally::runtime
