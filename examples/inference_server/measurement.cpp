#include "measurement.h"

#include "checks.h"

#include <algorithm>
#include <fmt/format.h>

namespace inference_server {

namespace {

/// Requests of this repetition: an even share of all requests.
int requestsIn(const Options &options, int repetition) {
  return options.requests * (repetition + 1) / options.repetitions -
         options.requests * repetition / options.repetitions;
}

/// At the same priority a request waits for whole training kernels and the queue grows without end.
/// So such a cell runs a tenth of the requests.
std::size_t requestsOf(Mode mode, std::size_t requests) {
  return mode == Mode::SamePriority ? (requests + 9) / 10 : requests;
}

/// A small training against the CPU, with sizes that are no multiples of any tile. Few steps: in
/// later steps an activation near zero may have another sign in single precision than in double.
Check checkSmallTraining(const Workload &workload) {
  MlpShape shape{.batch = 300, .inputs = 50, .hidden = 100, .classes = 10, .chunk = 100};
  MlpProblem problem(shape, workload.options.seed);
  std::vector<std::uint64_t> checkpoints = {5};
  TrainingAlone alone = runTrainingAlone(workload, problem, 0, checkpoints);
  return checkTrainingOnCpu(problem, {{"small", alone.results.front()}});
}

/// A small transformer against the CPU, with sizes that are no multiples of any tile.
Check checkSmallTransformer(const Workload &workload) {
  TransformerShape shape{.layers = 2,
                         .width = 24,
                         .heads = 3,
                         .sequence = 20,
                         .batch = 7,
                         .inputs = 16,
                         .classes = 8,
                         .chunk = 56,
                         .rate = 3e-3f};
  TransformerProblem problem(shape, workload.options.seed);
  TransformerTraining training = trainTransformer(workload, problem, 40);
  return checkTransformer(problem, training);
}

/// Trains alone, once a repetition, until training has taken as many steps as each of the runs.
TrainingAlone trainAlone(const Workload &workload, std::span<const TrainingRun> runs,
                         double minimumSeconds) {
  std::vector<std::uint64_t> checkpoints;
  for (const TrainingRun &run : runs)
    checkpoints.push_back(run.result.steps);
  std::sort(checkpoints.begin(), checkpoints.end());
  checkpoints.erase(std::unique(checkpoints.begin(), checkpoints.end()), checkpoints.end());
  return runTrainingAlone(workload, workload.problem, minimumSeconds, checkpoints);
}

} // namespace

Measurement measure(const Workload &workload,
                    const std::function<void(std::string_view)> &progress) {
  const Options &options = workload.options;
  Measurement result;
  for (Mode mode : options.modes)
    result.modes.push_back({mode, {}});

  progress("computing the answers on the CPU");
  EncoderCheck encoderCheck(workload);
  progress("measuring the capacity");
  result.capacity = measureCapacity(workload);
  Seconds meanGap = result.capacity.service / options.load;

  for (int repetition = 0; repetition < options.repetitions; ++repetition) {
    // All modes serve the same arrivals, so that arrivals cause no difference between modes.
    std::vector<Arrival> arrivals =
        poissonArrivals(requestsIn(options, repetition), meanGap, options.inputs,
                        options.seed + 1000 + static_cast<std::uint64_t>(repetition));
    std::vector<TrainingRun> runs;
    for (ModeCells &each : result.modes) {
      progress(fmt::format("repetition {} of {}: {}", repetition + 1, options.repetitions,
                           name(each.mode)));
      Cell cell = runCell(workload, each.mode,
                          std::span(arrivals).first(requestsOf(each.mode, arrivals.size())));
      encoderCheck.add(each.mode, cell.served);
      if (cell.trained)
        runs.push_back({std::string(name(each.mode)), std::move(*cell.trained)});
      cell.trained.reset();
      each.cells.push_back(std::move(cell));
    }
    progress(
        fmt::format("repetition {} of {}: training alone", repetition + 1, options.repetitions));
    TrainingAlone alone = trainAlone(workload, runs, arrivals.back().at.count() / 4);
    if (!runs.empty())
      result.checks.push_back(checkTrainingAgainstAlone(runs, alone.results));
    alone.results.clear();
    result.trainingAlone.push_back(std::move(alone));
  }

  progress("checking the results");
  result.checks.insert(result.checks.begin(), encoderCheck.verdict());
  result.checks.push_back(options.job == Job::Transformer ? checkSmallTransformer(workload)
                                                          : checkSmallTraining(workload));
  return result;
}

} // namespace inference_server
