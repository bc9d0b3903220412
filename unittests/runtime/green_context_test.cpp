#include "device/green_context.h"

#include "../support/mps_folder.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <string_view>

using namespace tally;
using namespace tally::runtime;

namespace {

/// A driver that records the requests for contexts and streams, and its live objects.
struct FakeDriver {
  std::set<std::uintptr_t> contexts, streams;
  std::uintptr_t made = 0;
  unsigned sms = 132, asked = 0;
  int priority = 0;
  std::string lacks, fails; ///< an entry point

  CUresult resultOf(const char *name) const {
    return fails == name ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
  }
};
FakeDriver driver;

CUresult deviceGet(CUdevice *device, int number) {
  *device = number;
  return driver.resultOf("cuDeviceGet");
}
CUresult deviceGetDevResource(CUdevice, CUdevResource *resource, CUdevResourceType) {
  resource->sm.smCount = driver.sms;
  return driver.resultOf("cuDeviceGetDevResource");
}
CUresult smResourceSplitByCount(CUdevResource *result, unsigned *groups, const CUdevResource *all,
                                CUdevResource *, unsigned, unsigned least) {
  driver.asked = least;
  *groups = all->sm.smCount != 0 && least <= all->sm.smCount ? 1 : 0;
  *result = *all;
  return driver.resultOf("cuDevSmResourceSplitByCount");
}
CUresult resourceGenerateDesc(CUdevResourceDesc *, CUdevResource *, unsigned) {
  return driver.resultOf("cuDevResourceGenerateDesc");
}
CUresult greenCtxCreate(CUgreenCtx *context, CUdevResourceDesc, CUdevice, unsigned) {
  if (CUresult failed = driver.resultOf("cuGreenCtxCreate"))
    return failed;
  driver.contexts.insert(++driver.made);
  *context = reinterpret_cast<CUgreenCtx>(driver.made);
  return CUDA_SUCCESS;
}
CUresult greenCtxStreamCreate(CUstream *stream, CUgreenCtx, unsigned, int priority) {
  if (CUresult failed = driver.resultOf("cuGreenCtxStreamCreate"))
    return failed;
  driver.priority = priority;
  driver.streams.insert(++driver.made);
  *stream = reinterpret_cast<CUstream>(driver.made);
  return CUDA_SUCCESS;
}
CUresult greenCtxDestroy(CUgreenCtx context) {
  driver.contexts.erase(reinterpret_cast<std::uintptr_t>(context));
  return CUDA_SUCCESS;
}
CUresult streamDestroy(CUstream stream) {
  driver.streams.erase(reinterpret_cast<std::uintptr_t>(stream));
  return CUDA_SUCCESS;
}

void *find(const char *name) {
  static const std::map<std::string_view, void *> entries = {
      {"cuDeviceGet", reinterpret_cast<void *>(deviceGet)},
      {"cuDeviceGetDevResource", reinterpret_cast<void *>(deviceGetDevResource)},
      {"cuDevSmResourceSplitByCount", reinterpret_cast<void *>(smResourceSplitByCount)},
      {"cuDevResourceGenerateDesc", reinterpret_cast<void *>(resourceGenerateDesc)},
      {"cuGreenCtxCreate", reinterpret_cast<void *>(greenCtxCreate)},
      {"cuGreenCtxStreamCreate", reinterpret_cast<void *>(greenCtxStreamCreate)},
      {"cuGreenCtxDestroy", reinterpret_cast<void *>(greenCtxDestroy)},
      {"cuStreamDestroy", reinterpret_cast<void *>(streamDestroy)}};
  return driver.lacks == name ? nullptr : entries.at(name);
}

} // namespace

TEST_CASE("a stream on a part of the SMs, and what is left of it") {
  driver = {};
  GreenStreams streams(find);
  Result<CUstream> half = streams.create(0, 66, -3);
  REQUIRE(half);
  CHECK(driver.asked == 66);
  CHECK(driver.priority == -3);
  Result<CUstream> all = streams.create(0, 500, 0); // more than there are
  REQUIRE(all);
  CHECK(driver.asked == 132);
  CHECK(driver.contexts.size() == 2);
  CHECK(!streams.destroy(nullptr)); // none of these
  CHECK(streams.destroy(*half));
  CHECK(!streams.destroy(*half));
  CHECK(driver.contexts.size() == 1);
  CHECK(driver.streams.size() == 1);
  streams.destroyAll();
  CHECK(!streams.destroy(*all));
  CHECK(driver.contexts.empty());
  CHECK(driver.streams.empty());
}

TEST_CASE("a call that the driver has not, or that fails, is named, and nothing is left") {
  for (const char *name :
       {"cuDeviceGet", "cuDeviceGetDevResource", "cuDevSmResourceSplitByCount",
        "cuDevResourceGenerateDesc", "cuGreenCtxCreate", "cuGreenCtxStreamCreate"}) {
    CAPTURE(std::string(name));
    for (bool lacks : {true, false}) {
      driver = {};
      (lacks ? driver.lacks : driver.fails) = name;
      GreenStreams streams(find);
      Result<CUstream> made = streams.create(0, 8, 0);
      REQUIRE(!made);
      CHECK(made.error().message.find(name) != std::string::npos);
      CHECK(made.error().message.find(lacks ? "has no" : "error") != std::string::npos);
      CHECK(driver.contexts.empty());
      CHECK(driver.streams.empty());
    }
  }
  driver = {};
  driver.sms = 0;
  CHECK(!GreenStreams(find).create(0, 8, 0));
}

TEST_CASE("a stream for writes alone has connections of its own, but not under MPS") {
  tally::test::MpsFolder place(false);
  driver = {};
  GreenStreams streams(find);
  Result<CUstream> apart = streams.createApart(0, -5);
  REQUIRE(apart);
  CHECK(driver.asked == 8);
  CHECK(driver.priority == -5);
  place.startDaemon();
  CHECK(!streams.createApart(0, -5));
  CHECK(driver.contexts.size() == 1);
  streams.destroyAll();
}
