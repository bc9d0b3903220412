// The cost of the hooks for a kernel launch of high priority that causes no wake: hooked launches
// and plain ones in random order in one process, on one stream (launch_times.h).
//
//   launch_overhead [--launches=N] [--best-effort-stream | --held-back] [--checked]
//
// --best-effort-stream: beside an idle stream of lower priority, so that the hooks count launches
// for it; without the option the process has no best-effort work. --held-back: beside a
// lower-priority stream with a kernel that the launches hold back, so that the dispatcher's thread
// checks again and again for further launches. --checked: with a call of cudaGetLastError behind
// each launch, as frameworks make it.
//
// Prints median and P99 of the time that a call takes.
#include "launch_times.h"

#include <cstring>

namespace {

using namespace launch_times;

/// Launches between synchronisations: far fewer than the driver queues, so that no launch waits.
constexpr int launchesPerRound = 128;

/// The best-effort work beside the measured launches.
struct Beside {
  const char *name = "no best-effort work";
  bool stream = false, heldBack = false;
};

/// `heldBack`: the stream of a kernel that is held back, if not nullptr.
LaunchTimes measure(cudaStream_t stream, cudaStream_t heldBack, int count, bool areChecked) {
  std::mt19937 random(1);
  LaunchTimes times;
  times.areChecked = areChecked;
  for (int i = 0; i < count; ++i) {
    if (i % launchesPerRound == 0) {
      check(cudaStreamSynchronize(stream), "synchronisation");
      if (heldBack) {
        check(cudaStreamSynchronize(heldBack), "synchronisation");
        timedByHook(stream, false); // what holds back
        timedByHook(heldBack, false);
      }
    }
    times.add(stream, random, [] {});
  }
  return times;
}

} // namespace

int main(int argc, char **argv) {
  int count = 400000;
  Beside beside;
  bool areChecked = false;
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], "--launches=", 11) == 0)
      count = std::atoi(argv[i] + 11);
    else if (std::strcmp(argv[i], "--best-effort-stream") == 0)
      beside = {"beside an idle best-effort stream", true, false};
    else if (std::strcmp(argv[i], "--held-back") == 0)
      beside = {"beside a kernel that is held back", true, true};
    else if (std::strcmp(argv[i], "--checked") == 0)
      areChecked = true;
    else {
      std::fprintf(stderr, "usage: launch_overhead [--launches=N] [--best-effort-stream | "
                           "--held-back] [--checked]\n");
      return 1;
    }
  }
  emptyKernel();
  cudaStream_t stream = colocation::makeStream(colocation::priorities().high);
  cudaStream_t low = beside.stream ? colocation::makeStream(colocation::priorities().low) : nullptr;
  cudaStream_t heldBack = beside.heldBack ? low : nullptr;
  measure(stream, heldBack, std::min(count, 10000), areChecked); // warms up
  measure(stream, heldBack, count, areChecked).print(beside.name);
  return 0;
}
