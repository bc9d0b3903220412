// Signalling between two processes by the arena: the time from raise() in one process to onRaise()
// in the other (by CLOCK_MONOTONIC, which both read), and the time that raise() and withdraw()
// take.
//   build/benchmarks/arena_benchmark
// The counters p50 and p99 are nanoseconds; raise_p50 is the time of a call that woke a sleeper.
#include "arena/arena_watcher.h"

#include "arena_folder.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <string>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

using namespace tally::runtime;
using namespace std::chrono_literals;

namespace {

/// The way in which a watcher waits for the next change.
enum class Watch { Spins, Sleeps, Idle };

/// Another process with a watcher, which writes the instant of its notification to its slot.
class Watching {
public:
  Watching(const ArenaFolder &folder, Watch how) : process(fork()) {
    if (process != 0)
      return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    auto arena = folder.open();
    auto slot = std::move(*arena->claim(1, "watching"));
    ArenaWatcherOptions options;
    if (how != Watch::Spins)
      options.spin = 0ns;
    options.spinWhileBusy = how == Watch::Spins;
    options.sleepsWhileIdle = how == Watch::Idle;
    options.onRaise = [&] {
      slot->set(ArenaCounter::Requests, static_cast<std::uint64_t>(SteadyClock{}().count()));
      return true;
    };
    options.onWithdraw = [&] { slot->set(ArenaCounter::Requests, 0); };
    ArenaWatcher watcher(arena, std::move(options));
    watcher.setBusy(how != Watch::Idle);
    slot->set(ArenaCounter::Launches, 1); // ready
    pause();
    std::abort();
  }
  ~Watching() {
    kill(process, SIGKILL);
    waitpid(process, nullptr, 0);
  }
  Watching(const Watching &) = delete;
  Watching &operator=(const Watching &) = delete;

private:
  pid_t process;
};

std::uint64_t noted(const Arena &arena, ArenaCounter which) {
  for (const ArenaSlotView &each : arena.view())
    if (each.slotClass == 1)
      return each.statistics[static_cast<std::size_t>(which)];
  return 0;
}

double quantile(std::vector<double> values, double which) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(which * static_cast<double>(values.size() - 1))];
}

void signal(benchmark::State &state, Watch how) {
  ArenaFolder folder;
  Watching watching(folder, how);
  auto arena = folder.open();
  auto slot = std::move(*arena->claim(0, "signalling"));
  while (noted(*arena, ArenaCounter::Launches) == 0)
    usleep(1000);
  std::vector<double> took, calls;
  for (auto each : state) {
    static_cast<void>(each);
    Nanoseconds begun = SteadyClock{}();
    slot->raise();
    Nanoseconds called = SteadyClock{}();
    std::uint64_t told = 0;
    while ((told = noted(*arena, ArenaCounter::Requests)) == 0)
      usleep(20);
    took.push_back(static_cast<double>(told) - static_cast<double>(begun.count()));
    calls.push_back(static_cast<double>((called - begun).count()));
    state.SetIterationTime(took.back() * 1e-9);
    slot->withdraw();
    while (noted(*arena, ArenaCounter::Requests) != 0)
      usleep(20);
    usleep(300); // it may fall asleep again
  }
  state.counters["p50"] = quantile(took, 0.5);
  state.counters["p99"] = quantile(took, 0.99);
  state.counters["raise_p50"] = quantile(calls, 0.5);
}

/// Opens and closes a scope while no process sleeps; with and without a process that watches.
void raiseAndWithdraw(benchmark::State &state, std::optional<Watch> watched) {
  ArenaFolder folder;
  std::optional<Watching> watching;
  if (watched)
    watching.emplace(folder, *watched);
  auto arena = folder.open();
  auto slot = std::move(*arena->claim(0, "signalling"));
  while (watched && noted(*arena, ArenaCounter::Launches) == 0)
    usleep(1000);
  for (auto each : state) {
    static_cast<void>(each);
    slot->raise();
    slot->withdraw();
  }
}

/// The same inside an open scope, like every overlapping request but the first.
void raiseInside(benchmark::State &state) {
  ArenaFolder folder;
  auto slot = std::move(*folder.open()->claim(0, "signalling"));
  slot->raise();
  for (auto each : state) {
    static_cast<void>(each);
    slot->raise();
    slot->withdraw();
  }
}

} // namespace

BENCHMARK_CAPTURE(signal, spinning, Watch::Spins)->UseManualTime()->Iterations(2000);
BENCHMARK_CAPTURE(signal, sleeping, Watch::Sleeps)->UseManualTime()->Iterations(2000);
BENCHMARK_CAPTURE(raiseAndWithdraw, nobodyWatches, std::nullopt);
BENCHMARK_CAPTURE(raiseAndWithdraw, watcherSpins, Watch::Spins);
BENCHMARK_CAPTURE(raiseAndWithdraw, watcherIdle, Watch::Idle);
BENCHMARK(raiseInside);

BENCHMARK_MAIN();
