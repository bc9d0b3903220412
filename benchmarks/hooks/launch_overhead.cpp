// What the hooks add to a kernel launch of high priority: hooked launches (the name that programs
// call) and plain ones (the CUDA runtime's own function) taking turns in one process, on one
// stream, of an empty kernel.
//
//   launch_overhead [--pairs=N] [--best-effort-stream | --held-back]
//
// --best-effort-stream: beside an idle stream of lower priority, so that launches are counted for
// it; without it there is no best-effort work in the process. --held-back: beside one with a kernel
// that the launches hold back, so that the dispatcher's thread looks again and again whether more
// of them come.
//
// Prints median and P99 of the time that a call takes, the clock's own cost in both. The plain
// calls pass the driver-level hook too, which knows in about a nanosecond that it has nothing to
// do: with TALLY_DISABLE=1 it is not there, and the two kinds of calls are the same but for one
// test.
#include "in_hook.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <random>
#include <vector>

extern "C" cudaError_t __real_cudaLaunchKernel(const void *function, dim3 grid, dim3 block,
                                               void **arguments, std::size_t sharedBytes,
                                               cudaStream_t stream);

namespace {

constexpr char emptyKernel[] = ".version 8.0\n"
                               ".target sm_80\n"
                               ".address_size 64\n"
                               ".visible .entry nothing() { ret; }\n";

/// Launches between synchronisations: far fewer than the driver queues, so that none waits.
constexpr int launchesPerRound = 128;

void must(cudaError_t status, const char *what) {
  if (status == cudaSuccess)
    return;
  std::fprintf(stderr, "launch_overhead: %s: %s\n", what, cudaGetErrorString(status));
  std::exit(1);
}

std::int64_t nanoseconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1000000000 + now.tv_nsec;
}

struct Times {
  std::vector<std::int64_t> each;
  std::int64_t quantile(double q) {
    auto place =
        each.begin() + static_cast<std::ptrdiff_t>(q * static_cast<double>(each.size() - 1));
    std::nth_element(each.begin(), place, each.end());
    return *place;
  }
};

template <class Launch> std::int64_t timed(Launch launch, const void *kernel, cudaStream_t stream) {
  std::int64_t before = nanoseconds();
  cudaError_t status = launch(kernel, dim3(1), dim3(32), nullptr, 0, stream);
  std::int64_t after = nanoseconds();
  must(status, "launch");
  return after - before;
}

/// What is measured beside what.
struct Beside {
  const char *name = "no best-effort work";
  bool stream = false, heldBack = false;
};

/// `pairs` of a hooked and a plain launch, in random order within the pair. `heldBack`: the stream
/// of a kernel that is, if not nullptr.
void measure(const void *kernel, cudaStream_t stream, cudaStream_t heldBack, int pairs,
             Times &hooked, Times &plain) {
  std::mt19937 random(1);
  auto byHook = [](auto... arguments) { return cudaLaunchKernel(arguments...); };
  auto byRuntime = [](auto... arguments) { return __real_cudaLaunchKernel(arguments...); };
  auto plainly = [&] {
    // Else the driver-level hook would count it, as a library's.
    tally::hooks::InHook unseen;
    plain.each.push_back(timed(byRuntime, kernel, stream));
  };
  for (int i = 0; i < pairs; ++i) {
    if (i % (launchesPerRound / 2) == 0) {
      must(cudaStreamSynchronize(stream), "synchronisation");
      if (heldBack) {
        must(cudaStreamSynchronize(heldBack), "synchronisation");
        timed(byHook, kernel, stream); // what holds back
        timed(byHook, kernel, heldBack);
      }
    }
    if (random() % 2 == 0) {
      hooked.each.push_back(timed(byHook, kernel, stream));
      plainly();
    } else {
      plainly();
      hooked.each.push_back(timed(byHook, kernel, stream));
    }
  }
}

} // namespace

int main(int argc, char **argv) {
  int pairs = 200000;
  Beside beside;
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], "--pairs=", 8) == 0)
      pairs = std::atoi(argv[i] + 8);
    else if (std::strcmp(argv[i], "--best-effort-stream") == 0)
      beside = {"beside an idle best-effort stream", true, false};
    else if (std::strcmp(argv[i], "--held-back") == 0)
      beside = {"beside a kernel that is held back", true, true};
    else {
      std::fprintf(stderr,
                   "usage: launch_overhead [--pairs=N] [--best-effort-stream | --held-back]\n");
      return 1;
    }
  }
  cudaLibrary_t library;
  cudaKernel_t kernel;
  must(cudaLibraryLoadData(&library, emptyKernel, nullptr, nullptr, 0, nullptr, nullptr, 0),
       "loading");
  must(cudaLibraryGetKernel(&kernel, library, "nothing"), "kernel");
  int lowest = 0, highest = 0;
  must(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "priorities");
  cudaStream_t stream, low = nullptr;
  must(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, highest), "stream");
  if (beside.stream)
    must(cudaStreamCreateWithPriority(&low, cudaStreamNonBlocking, lowest), "stream");
  Times warm, hooked, plain;
  cudaStream_t heldBack = beside.heldBack ? low : nullptr;
  measure(kernel, stream, heldBack, std::min(pairs, 5000), warm, warm);
  measure(kernel, stream, heldBack, pairs, hooked, plain);
  std::int64_t values[4] = {plain.quantile(0.5), hooked.quantile(0.5), plain.quantile(0.99),
                            hooked.quantile(0.99)};
  std::printf("%s: median %lld ns plain, %lld hooked, %+lld added; P99 %lld plain, %lld hooked, "
              "%+lld added (%d pairs)\n",
              beside.name, static_cast<long long>(values[0]), static_cast<long long>(values[1]),
              static_cast<long long>(values[1] - values[0]), static_cast<long long>(values[2]),
              static_cast<long long>(values[3]), static_cast<long long>(values[3] - values[2]),
              pairs);
  return 0;
}
