// Writes how long each kernel of a program took on the GPU. Loaded into the program by the driver
// (CUPTI, "Injection"): kernel_times.py sets both variables.
//
//   CUDA_INJECTION64_PATH=libkernel_times.so KERNEL_TIMES_FILE=times program
//
// At its end each process writes `times.PID`: a line for each kernel, by CUPTI's own record of its
// begin and end: begin ns, end ns, grid and block in three dimensions, bytes of dynamic shared
// memory, name. What CUPTI had to drop is the line "dropped,N".
#include <cupti.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <unistd.h>
#include <vector>

namespace {

constexpr std::size_t bufferBytes = std::size_t{8} << 20;

struct Times {
  std::mutex mutex;
  std::vector<std::string> lines;
  std::size_t dropped = 0;
  std::string file;
};

/// Never destroyed: CUPTI's threads may bring records while the process ends.
Times &times() {
  static auto &all = *new Times;
  return all;
}

bool done(CUptiResult result, const char *call) {
  if (result == CUPTI_SUCCESS)
    return true;
  const char *text = nullptr;
  cuptiGetResultString(result, &text);
  std::fprintf(stderr, "kernel_times: %s: %s\n", call, text ? text : "unknown error");
  return false;
}

void CUPTIAPI giveBuffer(std::uint8_t **buffer, std::size_t *bytes, std::size_t *mostRecords) {
  *buffer = static_cast<std::uint8_t *>(std::aligned_alloc(8, bufferBytes));
  *bytes = *buffer ? bufferBytes : 0;
  *mostRecords = 0; // as many as fit
}

void note(const CUpti_ActivityKernel10 &kernel) {
  std::string line;
  for (std::uint64_t each : {kernel.start, kernel.end})
    line += std::to_string(each) + ",";
  for (std::int32_t each : {kernel.gridX, kernel.gridY, kernel.gridZ, kernel.blockX, kernel.blockY,
                            kernel.blockZ, kernel.dynamicSharedMemory})
    line += std::to_string(each) + ",";
  times().lines.push_back(line + (kernel.name ? kernel.name : "?"));
}

void CUPTIAPI takeBuffer(CUcontext context, std::uint32_t stream, std::uint8_t *buffer, std::size_t,
                         std::size_t valid) {
  std::unique_lock lock(times().mutex);
  CUpti_Activity *record = nullptr;
  while (valid != 0 && cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS)
    if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)
      note(*reinterpret_cast<const CUpti_ActivityKernel10 *>(record));
  std::size_t dropped = 0;
  if (cuptiActivityGetNumDroppedRecords(context, stream, &dropped) == CUPTI_SUCCESS)
    times().dropped += dropped;
  std::free(buffer);
}

void write() {
  done(cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "cuptiActivityFlushAll");
  std::unique_lock lock(times().mutex);
  std::string path = times().file + "." + std::to_string(getpid());
  std::FILE *file = std::fopen(path.c_str(), "w");
  if (!file)
    return std::perror(path.c_str());
  for (const std::string &line : times().lines)
    std::fprintf(file, "%s\n", line.c_str());
  if (times().dropped != 0)
    std::fprintf(file, "dropped,%zu\n", times().dropped);
  if (std::fclose(file) != 0)
    std::perror(path.c_str());
}

} // namespace

/// The name that the driver looks for.
extern "C" int InitializeInjection() {
  const char *file = std::getenv("KERNEL_TIMES_FILE");
  if (!file)
    return 1;
  times().file = file;
  if (done(cuptiActivityRegisterCallbacks(giveBuffer, takeBuffer),
           "cuptiActivityRegisterCallbacks") &&
      done(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL), "cuptiActivityEnable"))
    std::atexit(write);
  return 1;
}
