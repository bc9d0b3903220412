// Requests on a stream of high priority beside training on one of low priority. The program knows
// nothing of tally: colocation_plain is what CUDA's stream priorities give, colocation what tally
// does. colocation.py runs both and prints the table.
//
//   colocation [--KEY=VALUE...]
//
// Prints one line of JSON for each phase of --phases: `alone` (requests only), `flushed` (with the
// L2 overwritten between them), `train` (training only, for --seconds), `both`.
#include "loads.cuh"

#include <map>
#include <sstream>
#include <string>

namespace {

using namespace colocation;

struct Options {
  std::map<std::string, std::string> values = {
      {"phases", "alone,both"}, // see above
      {"layers", "60"},         // kernels of a request
      {"layer-rounds", "1000"},
      {"graph", "0"},        // 1: a request is one graph
      {"requests", "400"},   // of a phase
      {"period-us", "1000"}, // between two arrivals, on average
      {"blocks", "67584"},   // of a training kernel
      {"block-us", "10"},    // that a training block takes
      {"block-rounds", "0"}, // instead of block-us, where it is not 0
      {"step", "16"},        // training kernels between two synchronisations
      {"streams", "1"},      // of the training
      {"seconds", "0.5"},    // of the phase `train`
      {"seed", "1"},
  };
  const std::string &text(const char *key) const { return values.at(key); }
  double number(const char *key) const { return std::stod(values.at(key)); }
  unsigned count(const char *key) const { return static_cast<unsigned>(number(key)); }
};

Options parse(int argc, char **argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    std::string argument = argv[i];
    std::size_t equals = argument.find('=');
    std::string key = argument.substr(0, 2) == "--" && equals != std::string::npos
                          ? argument.substr(2, equals - 2)
                          : std::string();
    if (options.values.find(key) == options.values.end()) {
      std::fprintf(stderr, "colocation: %s is no option; there are:\n", argv[i]);
      for (const auto &[name, value] : options.values)
        std::fprintf(stderr, "  --%s=%s\n", name.c_str(), value.c_str());
      std::exit(2);
    }
    options.values[key] = argument.substr(equals + 1);
  }
  return options;
}

void print(const char *name, const std::vector<double> &values) {
  std::printf(", \"%s\": [", name);
  for (std::size_t i = 0; i < values.size(); ++i)
    std::printf("%s%.2f", i == 0 ? "" : ", ", values[i]);
  std::printf("]");
}

class Program {
public:
  explicit Program(const Options &options)
      : options(options), server(serverOptions(false)), flushing(serverOptions(true)),
        trainer(trainerOptions()) {}

  void run(const std::string &phase) {
    bool trains = phase == "train" || phase == "both", serves = phase != "train";
    auto begin = Clock::now();
    if (trains) {
      trainer.start();
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      begin = Clock::now();
    }
    if (!serves)
      std::this_thread::sleep_for(std::chrono::duration<double>(options.number("seconds")));
    RequestLog log;
    if (serves)
      log =
          (phase == "flushed" ? flushing : server)
              .serve(options.count("requests"), options.number("period-us"), options.count("seed"));
    auto end = Clock::now();
    if (trains)
      trainer.stop();
    std::printf("{\"phase\": \"%s\", \"block_rounds\": %d", phase.c_str(), blockRounds);
    if (trains)
      std::printf(", \"kernels_per_s\": %.3f", trainer.kernelsPerSecond(begin, end));
    if (serves) {
      std::printf(", \"active\": %.5f", log.activeFraction());
      print("latency_us", log.latencies);
      print("first_launch_us", log.firstLaunches);
    }
    std::printf("}\n");
  }
  std::size_t wrongThreads() const { return trainer.wrongThreads(); }

private:
  ServerOptions serverOptions(bool flush) const {
    return {options.count("layers"), static_cast<int>(options.number("layer-rounds")),
            options.count("graph") != 0, flush};
  }
  TrainerOptions trainerOptions() {
    blockRounds = static_cast<int>(options.number("block-rounds"));
    if (blockRounds == 0)
      blockRounds = trainingRounds(options.number("block-us"));
    return {options.count("blocks"), blockRounds, options.count("step"), options.count("streams")};
  }

  const Options &options;
  int blockRounds = 0;
  Server server, flushing;
  Trainer trainer;
};

} // namespace

int main(int argc, char **argv) {
  Options options = parse(argc, argv);
  Program program(options);
  std::stringstream phases(options.text("phases"));
  for (std::string phase; std::getline(phases, phase, ',');)
    program.run(phase);
  if (std::size_t wrong = program.wrongThreads()) {
    std::fprintf(stderr, "colocation: %zu threads did not run once in each kernel\n", wrong);
    return 1;
  }
}
