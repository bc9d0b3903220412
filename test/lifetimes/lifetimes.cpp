// Makes, uses and destroys streams, clients and modules again and again, and fails where the
// process's or the device's memory grows; on a GPU it also adopts its own stream and function.
//
//   lifetimes                         on the emulator, 200 times
//   lifetimes cuda 10000 [BUNDLE]     on the first GPU, without other users meanwhile; BUNDLE:
//                                     where quickstart_kernels.tally is, if not in the build folder
#include "lifetimes.h"

#include <array>
#include <chrono>
#include <fstream>
#include <string>
#include <vector>

#include <unistd.h>

namespace tally::runtime {

namespace {

/// Memory that caches of the driver and the allocator may take after the first rounds.
constexpr std::int64_t mostGrowth = 8 << 20;

std::int64_t residentBytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

void roundOf(Runtime &runtime, const std::string &path) {
  constexpr int size = 1000;
  const LaunchShape shape{{(size + 255) / 256}, {256}};
  std::vector<float> values(size, 1);
  LoadedModule module = must(runtime.load(path));
  Kernel kernel = must(runtime.kernel(module, "scale_add"));
  DevicePtr x = must(runtime.allocate(size * sizeof(float)));
  DevicePtr y = must(runtime.allocate(size * sizeof(float)));
  float expected = 1;
  for (Class clientClass : {Class::BestEffort, Class::High}) {
    Client client = must(runtime.createClient(clientClass, "client"));
    Stream stream = must(runtime.createStream(client)), idle = must(runtime.createStream(client));
    bool isHigh = clientClass == Class::High;
    if (isHigh)
      must(runtime.beginRequest(client));
    for (DevicePtr each : {x, y})
      must(runtime.copyToDevice(stream, each, std::as_bytes(std::span(values))));
    must(runtime.launch(stream, kernel, shape, Arguments(x, y, 2.0f, size))); // x = 2 x + y
    must(runtime.copyToHost(stream, std::as_writable_bytes(std::span(values)), x));
    must(runtime.destroyStream(idle));
    must(runtime.destroyStream(stream));
    if (isHigh)
      must(runtime.endRequest(client));
    must(runtime.destroyClient(client));
    expected *= 3;
    mustBe(values == std::vector<float>(size, expected), "what the kernel computed");
  }
  must(runtime.free(x));
  must(runtime.free(y));
  must(runtime.unload(module));
}

} // namespace

void measure(const char *what, int rounds, const std::function<void()> &round) {
  for (int i = 0; i < 100; ++i)
    round();
  std::int64_t resident = residentBytes();
  std::optional<std::size_t> free = freeDeviceMemory();
  auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < rounds; ++i)
    round();
  std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  std::int64_t grown = residentBytes() - resident;
  std::optional<std::size_t> left = freeDeviceMemory();
  std::int64_t lost =
      free && left ? static_cast<std::int64_t>(*free) - static_cast<std::int64_t>(*left) : 0;
  fmt::print("{}: {} rounds in {:.2f} s; resident memory {:+} KiB, device memory {:+} KiB\n", what,
             rounds, took.count(), grown >> 10, lost >> 10);
  mustBe(grown < mostGrowth, "the process has grown");
  mustBe(lost < mostGrowth, "the device's memory has become less");
}

#ifndef LIFETIMES_CUDA
std::optional<std::size_t> freeDeviceMemory() { return std::nullopt; }
#endif

namespace {

int run(const std::string &device, int rounds, const std::string &bundle) {
  RuntimeOptions options;
  options.device = device;
  auto runtime = must(Runtime::open(options));
  measure("streams, clients, modules", rounds, [&] { roundOf(*runtime, bundle); });
  Statistics statistics = runtime->statistics();
  auto launches = static_cast<std::uint64_t>(rounds + 100);
  mustBe(statistics.bestEffortLaunches == launches, "the launches of best effort");
  mustBe(statistics.highPriorityLaunches == launches, "the launches of high priority");
#ifdef LIFETIMES_CUDA
  if (device == "cuda")
    adoptThem(*runtime, rounds);
#endif
  fmt::print("passed on {}\n", runtime->deviceInfo().name);
  return 0;
}

} // namespace

} // namespace tally::runtime

int main(int count, char **arguments) {
  return tally::runtime::run(count > 1 ? arguments[1] : "emulator",
                             count > 2 ? std::atoi(arguments[2]) : 200,
                             count > 3 ? arguments[3] : LIFETIMES_BUNDLE);
}
