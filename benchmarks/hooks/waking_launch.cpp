// The cost of the hooks for a kernel launch of high priority that wakes: the launch finds running
// best-effort work, which has to yield. Hooked launches, each of which wakes, and plain ones, which
// the runtime does not see, come in random order in one process beside the same training
// (launch_times.h). The same without training shows the cost of the training for a plain launch.
//
//   waking_launch [--launches=N] [--blocks=N] [--block-us=N] [--least-percent=N]
//
// Each launch comes to an idle server: 300 to 700 us behind the end of the launch before. The
// thread reads the clock in between, like a server that waits for a request. Prints median and P99
// of the time that a call takes. Exits with 1 if fewer than --least-percent (90) of the hooked
// launches beside training woke, or if the training's results are wrong. On a machine with few
// cores the runtime may miss the end of the launch before; the next launch then does not wake.
#include "launch_times.h"
#include "process/hooks.h"
#include "training_load.h"

#include <cstring>

namespace {

using namespace launch_times;

LaunchTimes measure(cudaStream_t stream, int count) {
  std::mt19937 random(1);
  std::uniform_int_distribution<std::int64_t> idle(300000, 700000);
  LaunchTimes times;
  for (int i = 0; i < count; ++i)
    times.add(stream, random, [&] {
      check(cudaStreamSynchronize(stream), "synchronisation");
      for (std::int64_t end = nanoseconds() + idle(random); nanoseconds() < end;) {
      }
    });
  check(cudaStreamSynchronize(stream), "synchronisation");
  return times;
}

std::uint64_t wakes() { return tally::hooks::Hooks::shared().totals().requests; }

} // namespace

int main(int argc, char **argv) {
  int count = 4000;
  unsigned blocks = 67584;
  double blockMicroseconds = 10;
  unsigned leastPercent = 90;
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], "--launches=", 11) == 0)
      count = std::atoi(argv[i] + 11);
    else if (std::strncmp(argv[i], "--blocks=", 9) == 0)
      blocks = static_cast<unsigned>(std::atoi(argv[i] + 9));
    else if (std::strncmp(argv[i], "--block-us=", 11) == 0)
      blockMicroseconds = std::atof(argv[i] + 11);
    else if (std::strncmp(argv[i], "--least-percent=", 16) == 0)
      leastPercent = static_cast<unsigned>(std::atoi(argv[i] + 16));
    else {
      std::fprintf(stderr, "usage: waking_launch [--launches=N] [--blocks=N] [--block-us=N] "
                           "[--least-percent=N]\n");
      return 1;
    }
  }
  emptyKernel();
  cudaStream_t stream = colocation::makeStream(colocation::priorities().high);
  startTraining(blocks, blockMicroseconds);
  measure(stream, std::min(count, 400)); // warms up
  std::uint64_t before = wakes();
  LaunchTimes beside = measure(stream, count);
  std::uint64_t woken = wakes() - before;
  std::size_t wrong = stopTraining();
  LaunchTimes alone = measure(stream, count);
  beside.print("beside training");
  beside.printBehind();
  alone.print("nothing beside");
  std::size_t hooked = beside.hooked.all.each.size();
  std::printf("%llu of %zu hooked launches woke\n", static_cast<unsigned long long>(woken), hooked);
  if (wrong != 0)
    std::fprintf(stderr, "waking_launch: %zu results of the training are wrong\n", wrong);
  bool didWake = hooked != 0 && woken * 100 >= hooked * leastPercent;
  if (!didWake)
    std::fprintf(stderr, "waking_launch: hooked launches did not wake\n");
  return wrong == 0 && didWake ? 0 : 1;
}
