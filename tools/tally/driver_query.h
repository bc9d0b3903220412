// What the driver says of itself and its devices.
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
  std::string loadError; ///< the loader's words where it finds no driver
  std::string path;      ///< of libcuda.so.1, as the loader found it
  int version = 0;       ///< 1000 * major + 10 * minor of the CUDA version; 0: not said
  int initError = 0;     ///< of cuInit(), with its name
  std::string initErrorName;
  std::vector<DriverDevice> devices;
  std::string fault; ///< a crash or a hang; what was said before is there
};

/// Asks libcuda.so.1 in a forked child. Each answer may take 5 s, and cuInit() 20 s: without a
/// persistence daemon it starts the GPUs.
DriverFacts queryDriver();

/// The facts in the child's answer, which has a line for each; lines that it did not finish and
/// unknown ones are left out.
DriverFacts readDriverAnswer(std::string_view text);

} // namespace tally::launcher

#endif
