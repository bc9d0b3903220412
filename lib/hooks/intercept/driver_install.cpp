// Redirects the driver's exports to the wrappers, before any code of the module runs that could
// look for the driver.
#include "device/driver_exports.h"
#include "device/redirected_exports.h"
#include "intercept/driver_hook.h"
#include "intercept/unseen_calls.h"

#include <dlfcn.h>

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

using namespace tally;
using namespace tally::hooks;

namespace {

constexpr char driverName[] = "libcuda.so.1";

/// The driver's exports lead into this module until the process ends.
void stayLoaded() {
  Dl_info self = {};
  if (dladdr(reinterpret_cast<void *>(&stayLoaded), &self) != 0 && self.dli_fname)
    dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}

} // namespace

namespace tally::hooks {

void installDriverHook() {
  if (runtime::driverExports())
    return;
  void *loaded = dlopen(driverName, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  std::optional<Unseen> unseen = loaded ? whyUnseen(loaded) : std::nullopt;
  // The driver stays loaded: the hooks keep pointers to it.
  void *driver = loaded ? loaded : dlopen(driverName, RTLD_NOW | RTLD_LOCAL);
  auto own = std::make_unique<runtime::DriverExports>();
  if (!driver) {
    runtime::tallySharedDriver1.store(own.release());
    return launchesPassUnseen(Unseen::NoDriver);
  }
  auto choose = [&](std::string_view name, void *function) {
    void *wrapper = wrappedExport(name, function);
    if (wrapper != function)
      own->add(name, function);
    return wrapper;
  };
  stayLoaded();
  // The wrappers find the driver's own functions through this record, so it is published before any
  // wrapper can be called.
  auto publish = [&] { runtime::tallySharedDriver1.store(own.release()); };
  Result<std::vector<runtime::Redirected>> redirected =
      runtime::redirectExports(driver, choose, publish);
  if (redirected && loaded)
    runtime::redirectCopies(driver, *redirected);
  if (!redirected)
    launchesPassUnseen(Unseen::NotWritable);
  else if (unseen)
    launchesPassUnseen(*unseen);
  watchNamespaces();
}

} // namespace tally::hooks
