#include "placement.h"

#include "../colocation/common.h"

#include <cuda.h>

#include <algorithm>

namespace workloads {

using colocation::check;

namespace {

[[noreturn]] void noGreen(const char *reason) {
  std::fprintf(stderr, "workloads: no green contexts: %s\n", reason);
  std::exit(3);
}

/// Returns an entry point of the driver, since the program is not linked with the driver.
template <class Function> Function entry(const char *name) {
  void *found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  if (cudaGetDriverEntryPointByVersion(name, &found, 12050, cudaEnableDefault, &result) !=
          cudaSuccess ||
      result != cudaDriverEntryPointSuccess || !found)
    noGreen(name);
  return reinterpret_cast<Function>(found);
}

void check(CUresult result, const char *what) {
  if (result != CUDA_SUCCESS)
    noGreen(what);
}

} // namespace

Placement::Placement(const PlacementOptions &options) {
  colocation::Priorities range = colocation::priorities();
  int highPriority = options.priorities ? range.high : 0,
      lowPriority = options.priorities ? range.low : 0;
  text = options.priorities ? "priorities" : "plain streams";
  if (options.green > 0 || options.greenTraining > 0) {
    makeGreen(options, highPriority, lowPriority);
    return;
  }
  high = colocation::makeStream(highPriority);
  low = colocation::makeStream(lowPriority);
}

void Placement::makeGreen(const PlacementOptions &options, int highPriority, int lowPriority) {
  check(cudaFree(nullptr), "the context"); // makes the primary context exist
  auto split = entry<decltype(&cuDevSmResourceSplitByCount)>("cuDevSmResourceSplitByCount");
  auto describe = entry<decltype(&cuDevResourceGenerateDesc)>("cuDevResourceGenerateDesc");
  auto create = entry<decltype(&cuGreenCtxCreate)>("cuGreenCtxCreate");
  auto makeStream = entry<decltype(&cuGreenCtxStreamCreate)>("cuGreenCtxStreamCreate");
  auto resource = entry<decltype(&cuDeviceGetDevResource)>("cuDeviceGetDevResource");
  CUdevResource all{}, part{}, rest{};
  check(resource(0, &all, CU_DEV_RESOURCE_TYPE_SM), "cuDeviceGetDevResource");
  unsigned groups = 1;
  unsigned wanted = options.greenTraining > 0
                        ? options.greenTraining
                        : static_cast<unsigned>(all.sm.smCount * options.green);
  auto least = std::max(8u, wanted);
  check(split(&part, &groups, &all, &rest, 0, least), "cuDevSmResourceSplitByCount");
  auto streamOn = [&](CUdevResource &sms, int priority) {
    CUdevResourceDesc description{};
    CUgreenCtx context{};
    CUstream stream{};
    check(describe(&description, &sms, 1), "cuDevResourceGenerateDesc");
    check(create(&context, description, 0, CU_GREEN_CTX_DEFAULT_STREAM), "cuGreenCtxCreate");
    check(makeStream(&stream, context, CU_STREAM_NON_BLOCKING, priority), "cuGreenCtxStreamCreate");
    return stream;
  };
  low = streamOn(part, lowPriority);
  std::string ofTraining = std::to_string(part.sm.smCount) + " for training";
  if (options.greenTraining > 0) {
    high = colocation::makeStream(highPriority); // of the primary context
    text = "all " + std::to_string(all.sm.smCount) + " SMs for requests, and of them " + ofTraining;
    return;
  }
  high = streamOn(rest, highPriority);
  text = "green contexts of " + std::to_string(rest.sm.smCount) + " SMs for requests and " +
         ofTraining;
}

} // namespace workloads
