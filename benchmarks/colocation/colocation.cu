// Requests on a stream of high priority beside training on one of low priority. The program knows
// nothing of tally: colocation_plain is what CUDA's stream priorities give, colocation what tally
// does. colocation.py runs both and prints the table.
//
//   colocation [--KEY=VALUE...]
//
// Prints one line of JSON for each phase of --phases: `alone` (requests only), `flushed` (with the
// L2 overwritten between them), `train` (training only, for --seconds), `both`.
#include "loads.cuh"
#include "phases.cuh"

namespace {

using namespace colocation;

Options defaults() {
  return {{
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
  }};
}

class Program {
public:
  explicit Program(const Options &options)
      : options(options), server(serverOptions(false)), flushing(serverOptions(true)),
        trainer(trainerOptions()) {}

  void run(const std::string &phase) {
    runPhase(phase, options, server, flushing, trainer,
             ", \"block_rounds\": " + std::to_string(blockRounds));
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
  Options options = parse(argc, argv, defaults());
  Program program(options);
  for (const std::string &phase : options.list("phases"))
    program.run(phase);
  if (std::size_t wrong = program.wrongThreads()) {
    std::fprintf(stderr, "colocation: %zu threads did not run once in each kernel\n", wrong);
    return 1;
  }
}
