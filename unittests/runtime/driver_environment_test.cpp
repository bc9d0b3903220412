#include "device/driver_environment.h"

#include "../support/mps_folder.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <string>
#include <utility>

using namespace tally::runtime;

namespace {

std::string value(const char *name) {
  const char *found = std::getenv(name);
  return found ? found : "(none)";
}

/// Makes a folder of MPS, and unsets the driver's other variables.
struct Place : tally::test::MpsFolder {
  explicit Place(bool hasDaemon) : MpsFolder(hasDaemon) {
    for (const char *name :
         {"CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_MODULE_LOADING", "CUDA_MPS_CLIENT_PRIORITY"})
      unsetenv(name);
  }
};

} // namespace

TEST_CASE("without MPS the hardware's connections are many") {
  Place place(false);
  CHECK(!isMpsRunning());
  prepareDriverEnvironment();
  CHECK(value("CUDA_DEVICE_MAX_CONNECTIONS") == "32");
  CHECK(value("CUDA_MODULE_LOADING") == "EAGER");
  CHECK(value("CUDA_MPS_CLIENT_PRIORITY") == "(none)");
}

TEST_CASE("under MPS they are few, and the client gets a priority") {
  for (bool bestEffortOnly : {false, true}) {
    Place place(true);
    CHECK(isMpsRunning());
    prepareDriverEnvironment(bestEffortOnly);
    CHECK(value("CUDA_DEVICE_MAX_CONNECTIONS") == "4");
    CHECK(value("CUDA_MPS_CLIENT_PRIORITY") == (bestEffortOnly ? "1" : "0"));
  }
}

TEST_CASE("the socket that a daemon leaves behind is not taken for a daemon") {
  Place place(true);
  place.quitDaemon();
  CHECK(!isMpsRunning());
  prepareDriverEnvironment();
  CHECK(value("CUDA_DEVICE_MAX_CONNECTIONS") == "32");
}

TEST_CASE("streams have a connection each while they are few") {
  Place place(false);
  CHECK(streamsWithOwnConnection() == 0);
  for (auto [given, streams] : {std::pair{"32", 16}, {"64", 16}, {"16", 8}, {"8", 0}, {"x", 0}}) {
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", given, 1);
    CHECK(streamsWithOwnConnection() == static_cast<std::size_t>(streams));
  }
}

TEST_CASE("what the user has set stays") {
  Place place(false);
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "4", 1);
  setenv("CUDA_MPS_CLIENT_PRIORITY", "0", 1);
  prepareDriverEnvironment(true);
  CHECK(value("CUDA_DEVICE_MAX_CONNECTIONS") == "4");
  CHECK(value("CUDA_MPS_CLIENT_PRIORITY") == "0");
}
