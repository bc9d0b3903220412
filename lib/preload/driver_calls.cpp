#include "driver_calls.h"

#include "device/driver_exports.h"

#undef cuGetProcAddress

namespace tally::preload {

namespace {

DriverCalls findAll() {
  DriverCalls found;
#define TALLY_CALL(name, version) found.name.set(driverFunction(#name, version));
#include "driver_calls.def"
  return found;
}

} // namespace

void *driverFunction(const char *name, int version) {
  using Newer = PFN_cuGetProcAddress_v12000;
  using Older = PFN_cuGetProcAddress_v11030;
  const runtime::DriverExports *known = runtime::driverExports();
  if (!known)
    return nullptr;
  void *entry = nullptr;
  if (auto newer = reinterpret_cast<Newer>(known->find("cuGetProcAddress_v2")))
    newer(name, &entry, version, CU_GET_PROC_ADDRESS_DEFAULT, nullptr);
  else if (auto older = reinterpret_cast<Older>(known->find("cuGetProcAddress")))
    older(name, &entry, version, CU_GET_PROC_ADDRESS_DEFAULT);
  return entry;
}

const DriverCalls &driver() {
  static const DriverCalls calls = findAll();
  return calls;
}

} // namespace tally::preload
