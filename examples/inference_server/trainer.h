// The interface of both trainings: steps on one stream of the device, and their result.
#ifndef INFERENCE_SERVER_TRAINER_H
#define INFERENCE_SERVER_TRAINER_H

#include <cstdint>
#include <vector>

namespace inference_server {

/// The result of training.
struct TrainingResult {
  std::uint64_t steps = 0;
  std::vector<float> parameters;
  double meanLoss = 0; ///< loss in the last step, before its update
};

/// Not thread-safe.
class Trainer {
public:
  virtual ~Trainer() = default;
  /// Runs one step, from forward to update, and returns when it is done.
  virtual void step() = 0;
  virtual TrainingResult result() const = 0;
  std::uint64_t steps() const { return stepsDone; }

protected:
  std::uint64_t stepsDone = 0;
};

} // namespace inference_server

#endif
