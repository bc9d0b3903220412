// Requests on a stream of high priority beside training on a stream of low priority. The program
// does not use tally: colocation_plain shows the effect of CUDA's stream priorities, colocation the
// effect of tally. colocation.py runs both and prints the table.
//
//   colocation [--KEY=VALUE...]
//
// Prints one line of JSON for each phase of --phases: `alone` (requests only; `untrained` is the
// same phase under another name, for a run before all training), `flushed` (with the L2 overwritten
// between requests), `train` (training only, for --seconds), `both`; `launches` and
// `launches-beside` (device time of a request's kernel when kernels run back to back).
#include "attention.cuh"
#include "bandwidth.cuh"
#include "phases.cuh"
#include "product.cuh"

namespace {

using namespace colocation;

Options defaults() {
  return {{
      {"phases", "alone,both"}, // see above
      {"layers", "60"},         // kernels of a request
      {"layer-rounds", "1000"},
      {"graph", "0"},          // 1: a request is one graph
      {"requests", "400"},     // of a phase
      {"period-us", "1000"},   // between two arrivals, on average
      {"training", "compute"}, // compute, bandwidth, gemm, attention
      {"blocks", "67584"},     // of a training kernel
      {"waves", "0"},          // if not 0: the multiple of the resident blocks
      {"block-us", "10"},      // that a training block takes
      {"block-rounds", "0"},   // instead of block-us, if not 0
      {"step", "16"},          // training kernels between two synchronisations
      {"streams", "1"},        // of the training
      {"seconds", "0.5"},      // of the phase `train`
      {"seed", "1"},
  }};
}

const TrainingKind &kindOf(const std::string &name) {
  for (const TrainingKind *each : {&computeKind, &bandwidthKind, &productKind, &attentionKind})
    if (name == each->name)
      return *each;
  std::fprintf(stderr, "colocation: %s is no kind of training\n", name.c_str());
  std::exit(2);
}

class Program {
public:
  explicit Program(const Options &options)
      : options(options), training(trainerOptions()), server(serverOptions(false)),
        flushing(serverOptions(true)), trainer(training) {}

  void run(const std::string &phase) {
    runPhase(phase, options, server, flushing, trainer,
             ", \"block_rounds\": " + std::to_string(training.rounds) +
                 ", \"blocks\": " + std::to_string(training.blocks));
  }
  std::size_t wrongResults() const { return trainer.wrongResults(); }

private:
  ServerOptions serverOptions(bool flush) const {
    return {options.count("layers"), static_cast<int>(options.number("layer-rounds")),
            options.count("graph") != 0, flush};
  }
  TrainerOptions trainerOptions() const {
    const TrainingKind &kind = kindOf(options.text("training"));
    unsigned blocks = options.count("waves") != 0
                          ? options.count("waves") * residentBlocks(kind.kernel)
                          : options.count("blocks");
    int rounds = static_cast<int>(options.number("block-rounds"));
    if (rounds == 0)
      rounds = trainingRounds(options.number("block-us"), kind);
    return {blocks, rounds, options.count("step"), options.count("streams"), &kind};
  }

  const Options &options;
  TrainerOptions training;
  Server server, flushing;
  Trainer trainer;
};

} // namespace

int main(int argc, char **argv) {
  Options options = parse(argc, argv, defaults());
  Program program(options);
  for (const std::string &phase : options.list("phases"))
    program.run(phase);
  if (std::size_t wrong = program.wrongResults()) {
    std::fprintf(stderr, "colocation: %zu results of the training are wrong\n", wrong);
    return 1;
  }
}
