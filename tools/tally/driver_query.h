// Queries the driver about itself and its devices.
#ifndef TALLY_LAUNCHER_DRIVER_QUERY_H
#define TALLY_LAUNCHER_DRIVER_QUERY_H

#include <string>
#include <string_view>
#include <vector>

namespace tally::launcher {

struct DriverDevice {
  std::string name;
  int major = 0, minor = 0; ///< compute capability
};

struct DriverFacts {
  std::string loadError; ///< the loader's message where it finds no driver
  std::string path;      ///< path of libcuda.so.1, as the loader found it
  int version = 0;       ///< 1000 * major + 10 * minor of the CUDA version; 0: unknown
  int initError = 0;     ///< result of cuInit(), with its name
  std::string initErrorName;
  std::vector<DriverDevice> devices;
  std::string fault; ///< a crash or a hang; answers before it are kept
};

/// Asks libcuda.so.1 in a forked child. Each answer may take 5 s, and cuInit() 20 s: without a
/// persistence daemon cuInit() starts the GPUs.
DriverFacts queryDriver();

/// Returns the facts in the child's answer, which has one line per fact; skips unfinished and
/// unknown lines.
DriverFacts readDriverAnswer(std::string_view text);

} // namespace tally::launcher

#endif
