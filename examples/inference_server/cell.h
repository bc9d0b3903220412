// One cell of the measurement: one way of sharing, one repetition, one fresh runtime.
#ifndef INFERENCE_SERVER_CELL_H
#define INFERENCE_SERVER_CELL_H

#include "options.h"
#include "server.h"
#include "training.h"

#include <optional>
#include <string>
#include <vector>

namespace inference_server {

/// Settings that all cells of a run share.
struct Workload {
  explicit Workload(const Options &options);

  Options options;
  std::vector<float> weights;
  std::vector<std::vector<std::int32_t>> inputs;
  TrainingProblem problem;
};

struct Cell {
  std::vector<Served> served;
  double seconds = 0;      ///< from the start until the last request and step were done
  double active = 0;       ///< seconds of them in which a request was being served
  std::uint64_t steps = 0; ///< training steps in `seconds`
  std::optional<TrainingResult> trained; ///< where there was training
  tally::runtime::Statistics statistics;
};

/// Serves the arrivals, with training back to back beside them where the mode has it.
Cell runCell(const Workload &workload, Mode mode, std::span<const Arrival> arrivals);

/// Training with the device to itself, for at least `minimumSeconds` and until the last of
/// `checkpoints` (ascending counts of steps), keeping the result at each checkpoint.
struct TrainingAlone {
  double seconds = 0;
  std::uint64_t steps = 0;
  std::vector<TrainingResult> results; ///< one result per checkpoint, then the last result
};
TrainingAlone runTrainingAlone(const Workload &workload, const TrainingProblem &problem,
                               double minimumSeconds, std::span<const std::uint64_t> checkpoints);

/// Trains a transformer for `steps` steps, alone on the device.
struct TransformerTraining {
  std::vector<float> gradients; ///< gradients of the first step
  TrainingResult first, last;
};
TransformerTraining trainTransformer(const Workload &workload, const TransformerProblem &problem,
                                     int steps);

/// Properties of the device, and the mean time of a request with one worker and no other work.
struct Capacity {
  std::string device;
  Seconds service{0};
};
Capacity measureCapacity(const Workload &workload);

} // namespace inference_server

#endif
