// Writes the time of each kernel of a program on the GPU. The driver loads the library into the
// program (activity.h): kernel_times.py sets both variables.
//
//   CUDA_INJECTION64_PATH=libkernel_times.so KERNEL_TIMES_FILE=times program
//
// At its end each process writes `times.PID`: a line for each kernel, from CUPTI's own record of
// its begin and end: begin ns, end ns, grid and block in three dimensions, bytes of dynamic shared
// memory, name. The line "dropped,N" has the number of records that CUPTI dropped.
#include "activity.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <unistd.h>
#include <vector>

namespace {

struct Times {
  std::vector<std::string> lines;
  std::string file;
};

/// Never destroyed, for the same reason as in activity.cpp.
Times &times() {
  static auto &all = *new Times;
  return all;
}

void take(const CUpti_Activity &record) {
  if (record.kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)
    return;
  const auto &kernel = reinterpret_cast<const CUpti_ActivityKernel10 &>(record);
  std::string line;
  for (std::uint64_t each : {kernel.start, kernel.end})
    line += std::to_string(each) + ",";
  for (std::int32_t each : {kernel.gridX, kernel.gridY, kernel.gridZ, kernel.blockX, kernel.blockY,
                            kernel.blockZ, kernel.dynamicSharedMemory})
    line += std::to_string(each) + ",";
  times().lines.push_back(line + (kernel.name ? kernel.name : "?"));
}

void write(std::size_t dropped) {
  std::string path = times().file + "." + std::to_string(getpid());
  std::FILE *file = std::fopen(path.c_str(), "w");
  if (!file)
    return std::perror(path.c_str());
  for (const std::string &line : times().lines)
    std::fprintf(file, "%s\n", line.c_str());
  if (dropped != 0)
    std::fprintf(file, "dropped,%zu\n", dropped);
  if (std::fclose(file) != 0)
    std::perror(path.c_str());
}

} // namespace

/// The driver looks for this name.
extern "C" int InitializeInjection() {
  const char *file = std::getenv("KERNEL_TIMES_FILE");
  if (!file)
    return 1;
  times().file = file;
  activity::start({take, write}, false, {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL});
  return 1;
}
