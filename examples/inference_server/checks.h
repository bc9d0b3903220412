// Compares the device's results with reference results.
#ifndef INFERENCE_SERVER_CHECKS_H
#define INFERENCE_SERVER_CHECKS_H

#include "measurement.h"

namespace inference_server {

/// Largest difference allowed between fp32 on the device and double on the CPU, relative to the
/// largest value: a few hundred roundings of 2^-24.
constexpr double tolerance = 1e-4;

/// The same for the transformer, whose values are rounded to f16: 2^-11 each time.
constexpr double halfTolerance = 2e-2;

/// Checks every answer to every request against the CPU.
class EncoderCheck {
public:
  explicit EncoderCheck(const Workload &workload);
  void add(Mode mode, std::span<const Served> served);
  Check verdict() const;

private:
  std::vector<std::vector<double>> expected; // by input
  std::uint64_t answers = 0;
  double worst = 0;
  Mode worstMode = Mode::Alone;
};

/// A training result, and the run that it came from.
struct TrainingRun {
  std::string origin;
  TrainingResult result;
};

/// Checks `runs`, in any order, against the CPU.
Check checkTrainingOnCpu(const MlpProblem &problem, std::vector<TrainingRun> runs);

/// The error of a transformer's gradient in one tensor, against differences of the CPU's loss:
/// along the gradient itself, relative to its length, and of a dozen single parameters, relative to
/// the largest of its elements. Returns the larger of the two errors.
double gradientError(const TransformerProblem &problem, std::span<const float> gradients,
                     std::size_t tensor);
/// The largest of all tensors.
double gradientError(const TransformerProblem &problem, std::span<const float> gradients);

/// Checks gradients and loss against the CPU, and whether the loss falls by half.
Check checkTransformer(const TransformerProblem &problem, const TransformerTraining &training);

/// Compares with training alone on the device after as many steps, bit for bit.
Check checkTrainingAgainstAlone(std::span<const TrainingRun> runs,
                                std::span<const TrainingResult> alone);

} // namespace inference_server

#endif
