// The whole measurement: runs the cells of all modes in turns, and checks every result.
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

/// One line of the verdict on the results.
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

/// Runs all cells and checks. Before each one it calls `progress` with its name.
Measurement measure(const Workload &workload,
                    const std::function<void(std::string_view)> &progress);

} // namespace inference_server

#endif
