// The search for functions: by name, version, and the meaning of the default stream.
#include "driver.h"

#include <cstring>

namespace tally::preload_driver {

namespace {

struct Function {
  const char *base;
  int version;
  bool isPerThread;
  void *entry;
};

#define TALLY_DRIVER(base, version, symbol)                                                        \
  {#base, version, false, reinterpret_cast<void *>(&::symbol)},
#define TALLY_DRIVER_PTSZ(base, version, symbol)                                                   \
  {#base, version, true, reinterpret_cast<void *>(&::symbol)},
#define TALLY_DRIVER_PTDS(base, version, symbol) TALLY_DRIVER_PTSZ(base, version, symbol)
const Function functions[] = {
#include "functions.def"
};

/// Returns the newest form up to a version. Where the caller asks for the thread's own default
/// stream, its forms come before the others.
CUdriverProcAddressQueryResult find(const char *base, int version, bool isPerThread,
                                    void **result) {
  const Function *best = nullptr;
  bool isNamed = false;
  for (const Function &each : functions) {
    if (std::strcmp(each.base, base) != 0)
      continue;
    isNamed = true;
    if (each.version > version || (each.isPerThread && !isPerThread))
      continue;
    bool isBetter = !best || each.isPerThread > best->isPerThread ||
                    (each.isPerThread == best->isPerThread && each.version > best->version);
    if (isBetter)
      best = &each;
  }
  *result = best ? best->entry : nullptr;
  return best      ? CU_GET_PROC_ADDRESS_SUCCESS
         : isNamed ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                   : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
}

constexpr cuuint64_t knownFlags =
    CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;

} // namespace

} // namespace tally::preload_driver

using namespace tally::preload_driver;

extern "C" {

/// Programs may call this before cuInit, as they may query versions and errors.
CUresult cuGetProcAddress_v2(const char *name, void **result, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *status) {
  if (!name || !result || version > 13000 || flags & ~knownFlags || flags == knownFlags)
    return CUDA_ERROR_INVALID_VALUE;
  bool isPerThread = flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  CUdriverProcAddressQueryResult found = find(name, version, isPerThread, result);
  if (status)
    *status = found;
  return *result || status ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult cuGetProcAddress(const char *name, void **result, int version, cuuint64_t flags) {
  return cuGetProcAddress_v2(name, result, version, flags, nullptr);
}

/// These tables are private to NVIDIA's libraries.
CUresult cuGetExportTable(const void **table, const CUuuid *) {
  if (table)
    *table = nullptr;
  return CUDA_ERROR_NOT_FOUND;
}

} // extern "C"
