// Loads and unloads modules and kernels, and adopts the program's own functions.
#include "api/runtime_state.h"

#include "tally/bundle/bundle_reader.h"

#include <algorithm>
#include <utility>

namespace tally::runtime {

Result<LoadedModule> Runtime::load(const std::string &path) {
  Result<bundle::Bundle> bundle = bundle::readFile(path);
  if (!bundle)
    return bundle.error();
  Result<LoadedModule> loaded = load(*bundle);
  if (!loaded)
    return Error{path + ": " + loaded.error().message};
  return loaded;
}

Result<LoadedModule> Runtime::load(const bundle::Bundle &bundle) {
  Result<ModuleId> id = state->device->loadModule(bundle);
  if (!id)
    return id.error();
  auto record = std::make_shared<ModuleRecord>();
  record->id = *id;
  record->kernels = bundle.kernels;
  record->hash = bundle.moduleHash;
  std::optional<std::uint64_t> added = state->modules.add(std::move(record));
  if (added)
    return static_cast<LoadedModule>(*added);
  static_cast<void>(state->device->unloadModule(*id)); // report the first error, not this one
  return Error{"too many modules"};
}

Result<Kernel> Runtime::kernel(LoadedModule module, std::string_view kernelName) {
  std::unique_lock lock(state->modulesMutex);
  auto handle = static_cast<std::uint64_t>(module);
  ModuleRecord *record = state->modules.find(handle);
  if (!record)
    return Error{"no such module: " + state->modules.describe(handle)};
  if (auto known = record->found.find(kernelName); known != record->found.end())
    return static_cast<Kernel>(known->second);
  auto facts = std::find_if(record->kernels.begin(), record->kernels.end(),
                            [&](const bundle::Kernel &each) { return each.name == kernelName; });
  if (facts == record->kernels.end())
    return Error{"no kernel '" + std::string(kernelName) + "' in the module"};
  Result<std::unique_ptr<LoadedKernel>> found =
      LoadedKernel::find(*state->device, record->id, *facts, record->hash);
  if (!found)
    return found.error();
  std::optional<std::uint64_t> added = state->kernels.add(std::move(*found));
  if (!added)
    return Error{"too many kernels"};
  record->found.emplace(kernelName, *added);
  return static_cast<Kernel>(*added);
}

/// Ends the handles first, so that no launch of these kernels comes after the wait.
Result<void> Runtime::unload(LoadedModule module) {
  auto handle = static_cast<std::uint64_t>(module);
  std::shared_ptr<ModuleRecord> record;
  {
    std::unique_lock lock(state->modulesMutex);
    record = state->modules.close(handle);
    if (!record)
      return Error{"no such module: " + state->modules.describe(handle)};
    for (const auto &[name, kernel] : record->found)
      state->kernels.close(kernel);
  }
  // A failed stream has stopped too; its error goes to callers that synchronise it.
  static_cast<void>(state->waitForAll());
  for (const auto &[name, kernel] : record->found)
    state->kernels.erase(kernel);
  Result<void> unloaded = state->device->unloadModule(record->id);
  state->modules.erase(handle);
  return unloaded;
}

Result<Kernel> Runtime::adoptFunction(std::uint64_t nativeFunction, std::string name) {
  Result<AdoptedFunction> adopted = state->device->adoptFunction(nativeFunction, name);
  if (!adopted)
    return Error{"adoptFunction: " + adopted.error().message};
  Result<std::unique_ptr<LoadedKernel>> made =
      LoadedKernel::adopt(*state->device, *adopted, std::move(name));
  std::optional<std::uint64_t> added = made ? state->kernels.add(std::move(*made)) : std::nullopt;
  if (added)
    return static_cast<Kernel>(*added);
  state->device->releaseFunction(adopted->id);
  return Error{"adoptFunction: " + (made ? "too many kernels" : made.error().message)};
}

Result<void> Runtime::forget(Kernel kernel) {
  auto handle = static_cast<std::uint64_t>(kernel);
  LoadedKernel *known = state->kernels.find(handle);
  if (known && !known->isAdopted())
    return Error{"forget: kernel '" + known->facts().name +
                 "' is of a loaded module, and ends with unload() of that"};
  std::shared_ptr<LoadedKernel> record = state->kernels.close(handle);
  if (!record)
    return Error{"no such kernel: " + state->kernels.describe(handle)};
  static_cast<void>(state->waitForAll()); // as in unload()
  state->device->releaseFunction(record->userFunction());
  state->kernels.erase(handle);
  return {};
}

} // namespace tally::runtime
