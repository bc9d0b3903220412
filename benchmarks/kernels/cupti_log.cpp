// Logs the same events of a program as a profiler: each kernel and each call of the CUDA runtime
// and the driver, by CUPTI's activity records. The driver loads the library into the program
// (activity.h); benchmarks/evaluation/logs.py compares the cost of such a log with that of tally's
// own.
//
//   CUDA_INJECTION64_PATH=libcupti_log.so CUPTI_LOG_FILE=log program
//
// The library writes records in CUPTI's order, all of the size of Record. At the end `log.names`
// has the names of kernels, a line each, and a line on standard error has the counts.
#include "activity.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <unordered_map>
#include <vector>

namespace {

/// logs.py reads it as CUPTI_RECORD. Times: nanoseconds of CLOCK_MONOTONIC.
struct Record {
  std::uint64_t begin = 0, end = 0;
  std::uint32_t kind = 0;
  std::uint32_t what = 0; ///< line of a kernel's name in `log.names`, or number of a call
  std::uint32_t correlation = 0;
  std::uint32_t where = 0;     ///< stream of a kernel, thread of a call
  std::uint32_t grid[3] = {};  ///< 0 for calls, likewise all fields below
  std::uint16_t block[3] = {}; ///< threads
  std::uint16_t none = 0;
  std::uint32_t dynamicShared = 0; ///< bytes
};
static_assert(sizeof(Record) == 56);

struct Log {
  std::string path;
  std::FILE *file = nullptr;
  std::unordered_map<const char *, std::uint32_t> lines; ///< CUPTI uses one pointer for each name
  std::vector<std::string> names;
  std::size_t kernels = 0, calls = 0;
};

/// Never destroyed, for the same reason as in activity.cpp.
Log &log() {
  static auto &one = *new Log;
  return one;
}

std::uint32_t lineOf(const char *name) {
  auto [place, isNew] = log().lines.emplace(name, log().names.size());
  if (isNew)
    log().names.push_back(name ? name : "?");
  return place->second;
}

Record recordOf(const CUpti_ActivityKernel10 &kernel) {
  Record record{kernel.start, kernel.end, kernel.kind, lineOf(kernel.name)};
  record.correlation = kernel.correlationId;
  record.where = kernel.streamId;
  const std::int32_t grid[] = {kernel.gridX, kernel.gridY, kernel.gridZ};
  const std::int32_t block[] = {kernel.blockX, kernel.blockY, kernel.blockZ};
  for (int i = 0; i < 3; ++i) {
    record.grid[i] = static_cast<std::uint32_t>(grid[i]);
    record.block[i] = static_cast<std::uint16_t>(block[i]);
  }
  record.dynamicShared = static_cast<std::uint32_t>(kernel.dynamicSharedMemory);
  return record;
}

void take(const CUpti_Activity &activity) {
  Record record;
  if (activity.kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
    record = recordOf(reinterpret_cast<const CUpti_ActivityKernel10 &>(activity));
    ++log().kernels;
  } else if (activity.kind == CUPTI_ACTIVITY_KIND_RUNTIME ||
             activity.kind == CUPTI_ACTIVITY_KIND_DRIVER) {
    const auto &call = reinterpret_cast<const CUpti_ActivityAPI &>(activity);
    record = {call.start, call.end, call.kind, call.cbid, call.correlationId, call.threadId};
    ++log().calls;
  } else {
    return;
  }
  std::fwrite(&record, sizeof record, 1, log().file);
}

void end(std::size_t dropped) {
  if (std::fclose(log().file) != 0)
    std::perror(log().path.c_str());
  std::string path = log().path + ".names";
  std::FILE *file = std::fopen(path.c_str(), "w");
  if (!file)
    return std::perror(path.c_str());
  for (const std::string &name : log().names)
    std::fprintf(file, "%s\n", name.c_str());
  if (std::fclose(file) != 0)
    std::perror(path.c_str());
  std::fprintf(stderr, "cupti_log: %zu kernels, %zu calls, %zu dropped, %zu bytes\n", log().kernels,
               log().calls, dropped, (log().kernels + log().calls) * sizeof(Record));
}

} // namespace

/// The driver looks for this name.
extern "C" int InitializeInjection() {
  const char *path = std::getenv("CUPTI_LOG_FILE");
  if (!path)
    return 1;
  log().path = path;
  log().file = std::fopen(path, "w");
  if (!log().file) {
    std::perror(path);
    return 1;
  }
  activity::start({take, end}, true,
                  {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_RUNTIME,
                   CUPTI_ACTIVITY_KIND_DRIVER});
  return 1;
}
