// The program whose loss under tally ordinary.py measures: steps of some kind (cell.cuh), or
// requests. It does not use tally; ordinary_plain is the same program without tally. Commands
// (commands.cuh):
//
// - calibrate KIND US: blocks and rounds of the kind's kernels, US by the kind of a step, kernel or
//   block
// - make KIND BLOCKS ROUNDS: selects the cell for the commands below
// - steps COUNT: so many steps, then a wait for them all; steps a second, and their digest
// - calls COUNT: host time of each call, with few queued steps: [median, P99] in nanoseconds
// - start AHEAD: starts steps, at most so many ahead of the device; answers when one has begun
// - stop BEGIN END: ends them; steps a second between the two instants, and the digest of all
// - serve LAYERS ROUNDS GRAPH REQUESTS PERIOD_US SEED: requests of so many kernels, as a graph with
//   1, in an open loop
// - join LAYERS ROUNDS REQUESTS PAUSE_US: requests that come PAUSE_US apart, without warm-up
//   requests; after a join with one request the process is idle
#include "cell.cuh"
#include "commands.cuh"

namespace {

using namespace ordinary;

std::unique_ptr<Cell> cell;

void calibrate(std::istream &words) {
  std::string name;
  double microseconds = 0;
  words >> name >> microseconds;
  Shape shape = calibrated(kindOf(name), microseconds);
  std::printf("{\"blocks\": %u, \"rounds\": %d}\n", shape.blocks, shape.rounds);
}

void make(std::istream &words) {
  std::string name;
  Shape shape;
  words >> name >> shape.blocks >> shape.rounds;
  cell.reset();
  cell = std::make_unique<Cell>(kindOf(name), shape);
  std::printf("{}\n");
}

void printDigest() {
  std::printf("\"digest\": \"%016llx\"}\n", static_cast<unsigned long long>(cell->digest()));
}

void steps(std::istream &words) {
  unsigned count = 0;
  words >> count;
  cell->reset();
  auto begin = Clock::now();
  for (unsigned i = 0; i < count; ++i)
    cell->step(JustCall());
  cell->witness();
  cell->synchronise();
  double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  std::printf("{\"steps_per_s\": %.3f, ", count / seconds);
  printDigest();
}

void calls(std::istream &words) {
  constexpr std::size_t untimed = 8, timed = 8; // steps behind one wait
  std::size_t count = 0;
  words >> count;
  cell->reset();
  std::array<std::vector<double>, callNames.size()> took;
  auto time = [&took](Call kind, auto call) {
    auto begin = Clock::now();
    call();
    std::chrono::duration<double, std::nano> nanoseconds = Clock::now() - begin;
    took[static_cast<std::size_t>(kind)].push_back(nanoseconds.count());
  };
  for (std::size_t i = 0; i < count; ++i) {
    if (i % timed == 0) {
      cell->synchronise();
      for (std::size_t j = 0; j < untimed; ++j)
        cell->step(JustCall());
    }
    cell->step(time);
  }
  cell->synchronise();
  const char *separator = "{";
  for (std::size_t i = 0; i < took.size(); ++i) {
    if (took[i].empty())
      continue;
    std::printf("%s\"%s\": [%.0f, %.0f]", separator, callNames[i], median(took[i]),
                percentile(took[i], 0.99));
    separator = ", ";
  }
  std::printf("}\n");
}

/// Makes steps from a thread of its own, and polls the progress of the device.
class Runner {
public:
  explicit Runner(unsigned ahead) : thread([this, ahead] { run(ahead); }) {}
  ~Runner() { stop(); }

  void stop() {
    stopping = true;
    if (thread.joinable())
      thread.join();
  }
  bool hasBegun() const { return begun; }
  unsigned count() const { return made; }
  double stepsPerSecond(Clock::time_point begin, Clock::time_point end) const {
    return (seenAt(end) - seenAt(begin)) / std::chrono::duration<double>(end - begin).count();
  }

private:
  struct Look {
    Clock::time_point at;
    unsigned seen;
  };

  void look() {
    auto now = Clock::now();
    if (looks.empty() || now - looks.back().at > std::chrono::microseconds(200))
      looks.push_back({now, cell->seen()});
  }
  void run(unsigned ahead) {
    while (!stopping) {
      look();
      if (made - cell->seen() < ahead) {
        cell->step(JustCall());
        ++made;
      } else {
        std::this_thread::sleep_for(std::chrono::microseconds(30));
      }
      begun = begun || cell->seen() > 0;
    }
    look();
  }
  /// Interpolates: between two polls the device advances evenly.
  double seenAt(Clock::time_point at) const {
    auto next =
        std::find_if(looks.begin(), looks.end(), [at](const Look &each) { return each.at >= at; });
    if (next == looks.end())
      return looks.back().seen;
    if (next == looks.begin())
      return next->seen;
    const Look &last = next[-1];
    double part = Microseconds(at - last.at) / Microseconds(next->at - last.at);
    return last.seen + part * (next->seen - last.seen);
  }

  unsigned made = 0;
  std::vector<Look> looks;
  std::atomic<bool> stopping{false}, begun{false};
  std::thread thread; // uses the others
};

std::unique_ptr<Runner> runner;

void start(std::istream &words) {
  unsigned ahead = 1;
  words >> ahead;
  cell->reset();
  runner = std::make_unique<Runner>(ahead);
  while (!runner->hasBegun())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::printf("{\"now\": %lld}\n", nanoseconds(Clock::now()));
}

void stop(std::istream &words) {
  long long begin = 0, end = 0;
  words >> begin >> end;
  runner->stop();
  cell->witness();
  std::printf("{\"steps_per_s\": %.3f, \"steps\": %u, ",
              runner->stepsPerSecond(instant(begin), instant(end)), runner->count());
  printDigest();
  runner.reset();
}

void serve(std::istream &words) {
  ServerOptions options;
  std::size_t requests = 0;
  double period = 0;
  std::uint64_t seed = 0;
  words >> options.layers >> options.rounds >> options.graph >> requests >> period >> seed;
  auto &server = serverOf<Server>(options);
  server.serve(20, period, seed); // warms up
  printRequests(server.serve(requests, period, seed));
}

/// A server whose requests come at a steady pace.
class SteadyServer : public Server {
public:
  using Server::Server;
  RequestLog serveSteadily(std::size_t count, double pause) {
    std::vector<double> arrivals;
    for (std::size_t i = 0; i < count; ++i)
      arrivals.push_back(static_cast<double>(i) * pause);
    return serveOpenLoop(
        arrivals, std::numeric_limits<double>::infinity(), [this] { launchFirst(); },
        [this] { launchRest(); }, [](bool) {});
  }
};

void join(std::istream &words) {
  ServerOptions options;
  std::size_t requests = 1;
  double pause = 0;
  words >> options.layers >> options.rounds >> requests >> pause;
  printRequests(serverOf<SteadyServer>(options).serveSteadily(requests, pause));
}

} // namespace

int main() {
  int status = obey({{"calibrate", calibrate},
                     {"make", make},
                     {"steps", steps},
                     {"calls", calls},
                     {"start", start},
                     {"stop", stop},
                     {"serve", serve},
                     {"join", join}});
  // The runner and the cell free their memory while the device still exists.
  runner.reset();
  cell.reset();
  return status;
}
