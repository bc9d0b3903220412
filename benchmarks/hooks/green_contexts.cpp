// The cost of a stream of a green context: its creation, a launch on it, and the change from a
// stream of all SMs to it. Work that yields and goes on beside a request makes that change.
//
//   green_contexts [--launches=N] [--sizes=SMS,SMS...]
//
// Prints first whether this process is a client of MPS. For each size: the time and the device
// memory that the context and its stream take, the SMs on which blocks of a large grid ran, the
// time from a launch to the end of a synchronisation, and the time of two launches, on the stream
// of all SMs and then on this stream, the second of which waits for the first. The row `all` has
// both launches on the stream of all SMs. Medians of N (2000), in microseconds. The program needs a
// GPU without other work.
#include "marking_kernel.h"

#include "device/driver_environment.h"
#include "device/green_context.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

using namespace marking;

class Measurement {
public:
  explicit Measurement(int launches) : launches(launches) {
    check(cudaStreamCreateWithFlags(&all, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    cudaDeviceProp device{};
    check(cudaGetDeviceProperties(&device, 0), "cudaGetDeviceProperties");
    std::printf("%s%s\n", device.name, tally::runtime::isMpsRunning() ? ", MPS" : "");
    std::printf("%6s %9s %8s %5s %11s %11s\n", "size", "make, us", "MiB", "SMs", "launch, us",
                "change, us");
    row("all", all, 0, 0);
  }

  /// Makes a context of `sms` SMs, which is never destroyed.
  void size(std::uint32_t sms) {
    std::size_t before = freeBytes();
    auto start = Clock::now();
    tally::Result<CUstream> stream = streams.create(0, sms, 0);
    double took = microseconds(Clock::now() - start);
    if (!stream)
      fail(std::to_string(sms) + " SMs: " + stream.error().message);
    row(std::to_string(sms), *stream, took, (before - freeBytes()) / 1048576.0);
  }

private:
  static std::size_t freeBytes() {
    std::size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    return free;
  }

  void row(const std::string &name, cudaStream_t stream, double took, double megabytes) {
    long sms = kernel.smsOf(stream);
    double alone = median(launches, [&] {
      kernel.launch(stream, 1);
      check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    });
    double change = median(launches, [&] {
      kernel.launch(all, 1);
      if (stream != all) {
        check(cudaEventRecord(event, all), "cudaEventRecord");
        check(cudaStreamWaitEvent(stream, event, 0), "cudaStreamWaitEvent");
      }
      kernel.launch(stream, 1);
      check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    });
    std::printf("%6s %9.0f %8.1f %5ld %11.2f %11.2f\n", name.c_str(), took, megabytes, sms, alone,
                change);
    std::fflush(stdout);
  }

  int launches;
  MarkingKernel kernel;
  cudaStream_t all = nullptr;
  cudaEvent_t event = nullptr;
  tally::runtime::GreenStreams streams{[](const char *name) { return entry<void>(name); }};
};

} // namespace

int main(int argc, char **argv) {
  int launches = 2000;
  std::vector<std::uint32_t> sizes{8, 16, 24, 32, 40, 48, 56, 64, 72, 104};
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], "--launches=", 11) == 0) {
      launches = std::atoi(argv[i] + 11);
    } else if (std::strncmp(argv[i], "--sizes=", 8) == 0) {
      sizes.clear();
      for (char *next = argv[i] + 8; *next != 0; next += *next == ',')
        sizes.push_back(static_cast<std::uint32_t>(std::strtoul(next, &next, 10)));
    } else {
      std::fprintf(stderr, "usage: green_contexts [--launches=N] [--sizes=SMS,SMS...]\n");
      return 2;
    }
  }
  if (launches <= 0 || std::find(sizes.begin(), sizes.end(), 0u) != sizes.end()) {
    std::fprintf(stderr, "green_contexts: N and SMS are numbers above 0\n");
    return 2;
  }
  Measurement measured(launches);
  for (std::uint32_t sms : sizes)
    measured.size(sms);
}
