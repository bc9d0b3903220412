#include "endure.h"

#include "requests.h"

#include <chrono>
#include <cstdio>
#include <map>

#include <unistd.h>

namespace tally::programs {

namespace {

using Clock = std::chrono::steady_clock;

double residentMiB() {
  long pages = 0, resident = 0;
  if (std::FILE *file = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(file, "%ld %ld", &pages, &resident) != 2)
      resident = 0;
    std::fclose(file);
  }
  return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);
}

struct Tenth {
  double memory = 0, median = 0, p99 = 0; ///< MiB, microseconds
};

class Endurance {
public:
  explicit Endurance(const EndureOptions &options)
      : options(options), requests(std::chrono::microseconds(options.requestEvery)) {}

  int run() {
    auto begun = Clock::now();
    for (int tenth = 1; tenth <= 10; ++tenth) {
      auto until = begun + std::chrono::milliseconds(options.seconds * 100LL * tenth);
      while (Clock::now() < until)
        runNext();
      note(std::chrono::duration<double>(Clock::now() - begun).count());
    }
    return verdict();
  }

private:
  void runNext() {
    std::uint64_t seed = options.seed + next++ % options.programs;
    Outcome outcome = execute(generate(seed, options.generator), workers, options.execute);
    auto [known, isNew] = hashes.emplace(seed, outcome.hash);
    if (!isNew && known->second != outcome.hash) {
      ++differences;
      std::printf("DIFFERS: program %llu from its first run\n",
                  static_cast<unsigned long long>(seed));
    }
  }

  void note(double seconds) {
    std::vector<std::chrono::nanoseconds> all = requests.takeLatencies();
    Tenth &now = tenths.emplace_back();
    now.memory = residentMiB();
    auto at = [&](std::size_t percent) {
      return all.empty() ? 0.0
                         : static_cast<double>(all[(all.size() - 1) * percent / 100].count()) / 1e3;
    };
    now.median = at(50);
    now.p99 = at(99);
    std::printf("%7.0f s  %8llu programs  %7.1f MiB  %7zu requests  P50 %9.1f us  P99 %9.1f us\n",
                seconds, static_cast<unsigned long long>(next), now.memory, all.size(), now.median,
                now.p99);
    std::fflush(stdout);
  }

  int verdict() {
    const Tenth &early = tenths[1], &late = tenths.back();
    bool grew = late.memory > early.memory * 1.1 + 8, slower = late.median > early.median * 2;
    if (!requests.allRight())
      std::printf("FAILED: a request's answer was wrong\n");
    if (grew)
      std::printf("FAILED: memory grew\n");
    if (slower)
      std::printf("FAILED: latency grew\n");
    bool right = !grew && !slower && requests.allRight() && differences == 0;
    std::printf(right ? "all right\n" : "not all right\n");
    return !right;
  }

  const EndureOptions &options;
  Requests requests;
  Workers workers;
  std::map<std::uint64_t, std::uint64_t> hashes;
  std::uint64_t next = 0;
  int differences = 0;
  std::vector<Tenth> tenths;
};

} // namespace

int endure(const EndureOptions &options) { return Endurance(options).run(); }

} // namespace tally::programs
