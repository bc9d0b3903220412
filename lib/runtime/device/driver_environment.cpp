#include "device/driver_environment.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include <unistd.h>

namespace tally::runtime {

bool isMpsRunning() {
  const char *given = std::getenv("CUDA_MPS_PIPE_DIRECTORY");
  std::string folder = given && *given ? given : "/tmp/nvidia-mps";
  auto has = [&](const char *name) { return access((folder + name).c_str(), F_OK) == 0; };
  // A daemon that is told to quit leaves its socket, and removes the other two.
  return has("/control") && (has("/log") || has("/nvidia-cuda-mps-control.pid"));
}

void prepareDriverEnvironment(std::optional<bool> bestEffortOnly, bool loadsEagerly) {
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", isMpsRunning() ? "4" : "32", 0);
  if (loadsEagerly)
    setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  if (bestEffortOnly)
    setenv("CUDA_MPS_CLIENT_PRIORITY", *bestEffortOnly ? "1" : "0", 0);
}

std::size_t streamsWithOwnConnection() {
  const char *given = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
  long number = given ? std::min(std::strtol(given, nullptr, 10), 32L) : 0;
  return number < 16 ? 0 : static_cast<std::size_t>(number) / 2;
}

} // namespace tally::runtime
