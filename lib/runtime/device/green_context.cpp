#include "device/green_context.h"

#include "device/driver_environment.h"

#include <algorithm>
#include <string>

/// Declared here since the headers of CUDA 12.4 do not declare it.
extern "C" CUresult CUDAAPI cuGreenCtxStreamCreate(CUstream *stream, CUgreenCtx context,
                                                   unsigned int flags, int priority);

namespace tally::runtime {

namespace {

template <class Function> Function *entry(const FindDriverEntry &find, const char *name) {
  return reinterpret_cast<Function *>(find(name));
}

Error missing(const char *name) {
  return {std::string("the CUDA driver has no ") + name + ", which green contexts need"};
}

Error failed(const char *name, CUresult code) {
  return {std::string(name) + ": error " + std::to_string(static_cast<int>(code))};
}

} // namespace

#define TALLY_GREEN_TRY(name, ...)                                                                 \
  do {                                                                                             \
    auto *tallyEntry = entry<decltype(name)>(find, #name);                                         \
    if (!tallyEntry)                                                                               \
      return missing(#name);                                                                       \
    if (CUresult tallyCode = tallyEntry(__VA_ARGS__); tallyCode != CUDA_SUCCESS)                   \
      return failed(#name, tallyCode);                                                             \
  } while (false)

Result<CUstream> GreenStreams::create(int device, std::uint32_t sms, int priority) {
  CUdevice handle = 0;
  TALLY_GREEN_TRY(cuDeviceGet, &handle, device);
  CUdevResource all{}, part{};
  TALLY_GREEN_TRY(cuDeviceGetDevResource, handle, &all, CU_DEV_RESOURCE_TYPE_SM);
  unsigned groups = 1;
  TALLY_GREEN_TRY(cuDevSmResourceSplitByCount, &part, &groups, &all, nullptr, 0,
                  std::min(sms, all.sm.smCount));
  if (groups == 0)
    return Error{"the device has no group of " + std::to_string(sms) + " SMs"};
  CUdevResourceDesc description = nullptr;
  TALLY_GREEN_TRY(cuDevResourceGenerateDesc, &description, &part, 1);
  CUgreenCtx context = nullptr;
  TALLY_GREEN_TRY(cuGreenCtxCreate, &context, description, handle, CU_GREEN_CTX_DEFAULT_STREAM);
  CUstream stream = nullptr;
  auto makeStream = [&]() -> Result<void> {
    TALLY_GREEN_TRY(cuGreenCtxStreamCreate, &stream, context, CU_STREAM_NON_BLOCKING, priority);
    return {};
  };
  if (Result<void> made = makeStream(); !made) {
    if (auto *destroyContext = entry<decltype(cuGreenCtxDestroy)>(find, "cuGreenCtxDestroy"))
      destroyContext(context);
    return made.error();
  }
  std::unique_lock lock(mutex);
  contexts.emplace(stream, context);
  return stream;
}

Result<CUstream> GreenStreams::createApart(int device, int priority) {
  if (isMpsRunning())
    return Error{"under MPS a green context has no connections of its own"};
  // Fewest SMs of a green context on Hopper; no kernel runs there.
  constexpr std::uint32_t fewestSms = 8;
  return create(device, fewestSms, priority);
}

void GreenStreams::end(CUstream stream, CUgreenCtx context) const {
  if (auto *destroyStream = entry<CUresult(CUstream)>(find, "cuStreamDestroy"))
    destroyStream(stream);
  if (auto *destroyContext = entry<decltype(cuGreenCtxDestroy)>(find, "cuGreenCtxDestroy"))
    destroyContext(context);
}

bool GreenStreams::destroy(CUstream stream) {
  std::unique_lock lock(mutex);
  auto known = contexts.find(stream);
  if (known == contexts.end())
    return false;
  end(stream, known->second);
  contexts.erase(known);
  return true;
}

void GreenStreams::destroyAll() {
  std::unique_lock lock(mutex);
  for (auto [stream, context] : contexts)
    end(stream, context);
  contexts.clear();
}

} // namespace tally::runtime
