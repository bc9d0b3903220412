// stream_joins STREAM_PROGRAMS [JOINS [SEED [UUID]]]: runs random stream programs as a best-effort
// process that has the GPU to itself, while other processes join its arena and leave again at
// random moments. The programs must give the same results as without Tally, and some of their work
// must have gone to CUDA at once, some through the queue.
#include "arena_children.h"

#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>

using namespace tally::runtime;
using namespace std::chrono_literals;

namespace {

/// Joins and leaves until told to stop, or for a given number of times.
class Visitor {
public:
  Visitor(const ArenaFolder &folder, unsigned seed)
      : folder(folder), random(seed), thread([this] { run(); }) {}
  ~Visitor() {
    isOver = true;
    thread.join();
  }
  Visitor(const Visitor &) = delete;
  Visitor &operator=(const Visitor &) = delete;

  int joins() const { return count; }

private:
  void run() {
    std::shared_ptr<Arena> arena = folder.open();
    std::uniform_int_distribution<int> microseconds(0, 4000), kinds(0, 1);
    for (; !isOver; ++count) {
      std::this_thread::sleep_for(std::chrono::microseconds(microseconds(random)));
      // High priority, or best effort of another class.
      std::unique_ptr<ArenaSlot> slot = claimed(arena, kinds(random) == 0 ? 0 : 2, "visitor");
      std::this_thread::sleep_for(std::chrono::microseconds(microseconds(random)));
    }
  }

  const ArenaFolder &folder;
  std::minstd_rand random;
  std::atomic<bool> isOver{false};
  std::atomic<int> count{0};
  std::thread thread;
};

/// Returns the number in front of `what`.
unsigned long long numberIn(const std::string &line, const std::string &what) {
  std::size_t end = line.find(what);
  if (end == std::string::npos)
    return 0;
  return std::strtoull(line.c_str() + line.find_last_not_of("0123456789", end - 1) + 1, nullptr,
                       10);
}

} // namespace

int main(int argc, char **argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: stream_joins STREAM_PROGRAMS [JOINS [SEED [UUID]]]\n");
    return 2;
  }
  int wanted = argc > 2 ? std::atoi(argv[2]) : 1000;
  unsigned seed = argc > 3 ? static_cast<unsigned>(std::atoi(argv[3])) : 1;
  constexpr unsigned programs = 50;
  ArenaFolder folder(argc > 4 ? argv[4] : ""); // the GPU's; the emulator has none
  unsigned long long atOnce = 0, queued = 0;
  Visitor visitor(folder, seed);
  unsigned first = seed * 100000;
  for (; visitor.joins() < wanted; first += programs) {
    Child child({"env", "TALLY_ARENA=" + folder.file(), argv[1], "--modes=ahead", "--patience=60",
                 "--programs=" + std::to_string(programs), "--seed=" + std::to_string(first)});
    std::string last;
    for (std::string line = child.line(); !line.empty(); line = child.line()) {
      atOnce += numberIn(line, " at once");
      queued += numberIn(line, " launches through variants") + numberIn(line, " non-preemptible");
      last = line;
    }
    std::optional<int> status = child.finish();
    if (status != 0 || last.find(" 0 differences") == std::string::npos) {
      std::fprintf(stderr, "seed %u: %s, status %d\n", first, last.c_str(), status.value_or(-1));
      return 1;
    }
  }
  std::printf("%d joins, %u programs, 0 differences; launches: %llu at once, %llu queued\n",
              visitor.joins(), first - seed * 100000, atOnce, queued);
  if (atOnce == 0 || queued == 0) {
    std::fprintf(stderr, "there was no change between the two ways\n");
    return 1;
  }
  return 0;
}
