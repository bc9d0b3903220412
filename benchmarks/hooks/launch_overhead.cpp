// What the hooks add to a kernel launch of high priority that wakes nobody: hooked launches and
// plain ones taking turns in one process, on one stream (launch_pairs.h).
//
//   launch_overhead [--pairs=N] [--best-effort-stream | --held-back]
//
// --best-effort-stream: beside an idle stream of lower priority, so that launches are counted for
// it; without it there is no best-effort work in the process. --held-back: beside one with a kernel
// that the launches hold back, so that the dispatcher's thread looks again and again whether more
// of them come.
//
// Prints median and P99 of the time that a call takes.
#include "launch_pairs.h"

#include <cstring>

namespace {

using namespace launch_pairs;

/// Pairs between synchronisations: far fewer than the driver queues, so that none waits.
constexpr int pairsPerRound = 64;

/// What is measured beside what.
struct Beside {
  const char *name = "no best-effort work";
  bool stream = false, heldBack = false;
};

/// `heldBack`: the stream of a kernel that is, if not nullptr.
Pairs measure(cudaStream_t stream, cudaStream_t heldBack, int count) {
  std::mt19937 random(1);
  Pairs pairs;
  for (int i = 0; i < count; ++i) {
    if (i % pairsPerRound == 0) {
      check(cudaStreamSynchronize(stream), "synchronisation");
      if (heldBack) {
        check(cudaStreamSynchronize(heldBack), "synchronisation");
        timedByHook(stream); // what holds back
        timedByHook(heldBack);
      }
    }
    pairs.add(stream, random, [] {});
  }
  return pairs;
}

} // namespace

int main(int argc, char **argv) {
  int count = 200000;
  Beside beside;
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], "--pairs=", 8) == 0)
      count = std::atoi(argv[i] + 8);
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
  emptyKernel();
  cudaStream_t stream = colocation::makeStream(colocation::priorities().high);
  cudaStream_t low = beside.stream ? colocation::makeStream(colocation::priorities().low) : nullptr;
  cudaStream_t heldBack = beside.heldBack ? low : nullptr;
  measure(stream, heldBack, std::min(count, 5000)); // warms up
  measure(stream, heldBack, count).print(beside.name);
  return 0;
}
