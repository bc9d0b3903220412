// The whole measurement: cells taking turns, and the checks of everything that was computed.
#ifndef INFERENCE_SERVER_MEASUREMENT_H
#define INFERENCE_SERVER_MEASUREMENT_H

#include "cell.h"

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace inference_server {

/// The cells of one mode, one per repetition.
struct ModeCells {
  Mode mode;
  std::vector<Cell> cells;
};

/// One line of the verdict on the numbers.
struct Check {
  bool right = false;
  std::string text;
};

struct Measurement {
  Capacity capacity;
  std::vector<ModeCells> modes; ///< Alone is the first
  std::vector<TrainingAlone> trainingAlone;
  std::vector<Check> checks;
};

/// Runs everything. `progress` is told what is about to run.
Measurement measure(const Workload &workload,
                    const std::function<void(std::string_view)> &progress);

} // namespace inference_server

#endif
