#include "state/registry.h"

#include "state/settings.h"

#include "tally/bundle/fatbin.h"

#include <algorithm>
#include <cstring>

namespace tally::hooks {

namespace {

/// The bundle's merged container, for a file whose own container could not be changed.
const bundle::Image *mergedContainer(const bundle::Bundle &bundle) {
  for (const bundle::Image &image : bundle.images)
    if (image.format == bundle::ImageFormat::Fatbin)
      return &image;
  return nullptr;
}

} // namespace

void warnOfUnmatched(const std::string &file) {
  warn(Warning::StaleBundle, file + ": no bundle belongs to some of its device code (was it "
                                    "changed after tally-ptxopt?); that code's kernels run as they "
                                    "are, without variants");
}

/// Looks up the bundle of one container of the wrapper. A missing bundle is reported only when a
/// kernel of the container is launched as best effort: code linked in from the toolkit's device
/// runtime (cudadevrt) has no bundle, and no kernels that a program launches.
void Registry::look(Registration &registration, const void *wrapper, const void *container) {
  BundleFiles::Lookup found = files.find(wrapper, container);
  switch (found.outcome) {
  case BundleFiles::Outcome::Found:
    registration.bundles.push_back(found.bundle);
    anyBundle.store(true);
    return;
  case BundleFiles::Outcome::Damaged:
    anyDamaged.store(true);
    return warn(Warning::DamagedBundle,
                found.detail + "; its kernels run as they are, without variants");
  case BundleFiles::Outcome::NoMatch: {
    registration.unmatchedIn = found.detail;
    std::unique_lock lock(mutex);
    lastUnmatchedFile = found.detail;
    return;
  }
  case BundleFiles::Outcome::NoSection: {
    std::unique_lock lock(mutex);
    lastFileWithout = found.detail;
    return;
  }
  }
}

void **Registry::registerFatBinary(const CudaApi &api, void *wrapper) {
  auto registration = std::make_unique<Registration>();
  registration->api = &api;
  auto given = static_cast<const FatbinWrapper *>(wrapper);
  void *handed = wrapper;
  if (given->magic == bundle::fatbinWrapperMagic && given->version == 1) {
    look(*registration, wrapper, given->container);
    const bundle::Image *merged =
        registration->bundles.empty() ? nullptr : mergedContainer(*registration->bundles.front());
    if (merged) {
      registration->image.resize((merged->bytes.size() + 7) / 8);
      std::memcpy(registration->image.data(), merged->bytes.data(), merged->bytes.size());
      registration->replacement = *given;
      registration->replacement.container = registration->image.data();
      handed = &registration->replacement;
    }
  } else if (given->magic == bundle::fatbinWrapperMagic && given->version == 2) {
    // Device-linked: the containers of the parts tell which bundles the kernels belong to.
    for (const void *const *each = given->prelinked; each && *each; ++each)
      look(*registration, wrapper, *each);
  }
  registrationCount.fetch_add(1);
  void **handle = api.__cudaRegisterFatBinary(handed);
  std::unique_lock lock(mutex);
  byHandle[handle] = registration.get();
  registrationsMade.push_back(std::move(registration));
  return handle;
}

void Registry::unregisterFatBinary(void **handle) {
  std::unique_lock lock(mutex);
  auto found = byHandle.find(handle);
  if (found == byHandle.end())
    return;
  // The memory stays: other threads may still look at a kernel of it.
  const std::vector<const void *> &functions = found->second->functions;
  std::erase_if(byFunction, [&](const auto &each) { // handles of these kernels too
    return std::find(functions.begin(), functions.end(), each.second->function) != functions.end();
  });
  byHandle.erase(found);
}

void Registry::registerFunction(const CudaApi &api, void **handle, const char *hostFunction,
                                const char *deviceName) {
  std::unique_lock lock(mutex);
  KernelRecord &kernel = kernels.emplace_back();
  kernel.api = &api;
  kernel.function = hostFunction;
  kernel.name = deviceName;
  kernel.isRegistered = true;
  byFunction[hostFunction] = &kernel;
  auto found = byHandle.find(handle);
  if (found == byHandle.end())
    return;
  Registration &registration = *found->second;
  registration.functions.push_back(hostFunction);
  for (const bundle::Bundle *each : registration.bundles)
    if (!kernel.facts) {
      kernel.facts = each->kernel(kernel.name);
      kernel.moduleHash = each->moduleHash;
    }
  if (!kernel.facts)
    kernel.unmatchedIn = registration.unmatchedIn;
  if (!kernel.facts || !kernel.facts->hasVariants())
    return;
  for (Kind kind : allKinds) {
    if (!kernel.facts->emitted(kind))
      continue;
    addVariant(registration, handle, kernel, kind, false);
    if (kind == Kind::Guard && !kernel.facts->guardTakesTickets())
      addVariant(registration, handle, kernel, kind, true);
  }
  withVariants.fetch_add(1);
}

void Registry::addVariant(Registration &registration, void **handle, KernelRecord &kernel,
                          Kind kind, bool resume) {
  std::string &name = registration.names.emplace_back(bundle::entryName(kernel.name, kind, resume));
  char *address = &addresses.emplace_back('\0');
  kernel.variants[static_cast<std::size_t>(kind)][resume] = address;
  registration.api->__cudaRegisterFunction(handle, address, name.data(), name.c_str(), -1, nullptr,
                                           nullptr, nullptr, nullptr, nullptr);
}

void Registry::alias(const void *handle, const void *function) {
  std::unique_lock lock(mutex);
  auto found = byFunction.find(function);
  if (found != byFunction.end())
    byFunction[handle] = found->second;
}

KernelRecord &Registry::find(const CudaApi &api, const void *function) {
  {
    std::shared_lock lock(mutex);
    auto found = byFunction.find(function);
    if (found != byFunction.end())
      return *found->second;
  }
  std::unique_lock lock(mutex);
  KernelRecord *&record = byFunction[function];
  if (!record) {
    record = &kernels.emplace_back();
    record->api = &api;
    record->function = function;
  }
  return *record;
}

KernelRecord &Registry::findHandle(const CudaApi &api, const void *handle) {
  std::vector<const void *> known;
  {
    std::shared_lock lock(mutex);
    if (auto found = byFunction.find(handle); found != byFunction.end())
      return *found->second;
    for (const auto &[function, kernel] : byFunction)
      if (kernel->api == &api && kernel->function == function && kernel->facts)
        known.push_back(function);
  }
  for (const void *each : known) {
    cudaKernel_t kernel = nullptr;
    cudaFunction_t function = nullptr;
    if ((api.cudaGetKernel(&kernel, each) == cudaSuccess && kernel == handle) ||
        (api.cudaGetFuncBySymbol(&function, each) == cudaSuccess && function == handle)) {
      alias(handle, each);
      break;
    }
  }
  return find(api, handle);
}

void Registry::forget(const void *handle) {
  std::unique_lock lock(mutex);
  byFunction.erase(handle);
}

/// The records stay, like the records of a file that is gone.
void Registry::forgetHandles() {
  std::unique_lock lock(mutex);
  std::erase_if(byFunction, [](const auto &each) { return !each.second->isRegistered; });
}

void Registry::forgetDevice() {
  std::unique_lock lock(mutex);
  for (KernelRecord &kernel : kernels) {
    std::unique_lock kernelLock(kernel.mutex);
    kernel.described = kernel.looked = false;
    kernel.set.clear();
    kernel.appliedVersion = kernel.attributeVersion.load();
    kernel.loaded.reset();
  }
}

void Registry::warnOfNothing() const {
  {
    if (!anyBundle.load() && anyDamaged.load())
      return; // a warning was written already
    std::shared_lock lock(mutex);
    if (!anyBundle.load() && !lastUnmatchedFile.empty())
      return warnOfUnmatched(lastUnmatchedFile);
  }
  warn(Warning::NothingHooked,
       whyNothing() + "; no best-effort kernel of this program can be interrupted");
}

std::string Registry::whyNothing() const {
  if (registrationCount.load() == 0)
    return "no device code was registered through the hooks: link what holds the kernels with the "
           "options of tally-link-options, the CUDA runtime behind libtally_runtime";
  std::shared_lock lock(mutex);
  if (lastFileWithout.empty())
    return "no kernel of the program has a variant (tally-ptxopt --list says why)";
  return lastFileWithout + " has no .tally section: its objects, or the file, were not rewritten "
                           "by tally-ptxopt";
}

} // namespace tally::hooks
