// The same computations on the CPU, accumulated in double: the reference for the device's results.
#ifndef INFERENCE_SERVER_REFERENCE_H
#define INFERENCE_SERVER_REFERENCE_H

#include "encoder.h"
#include "mlp.h"
#include "transformer.h"

#include <span>
#include <vector>

namespace inference_server {

/// Logits, batch x classes.
std::vector<double> encoderReference(const EncoderShape &shape, std::span<const float> weights,
                                     std::span<const std::int32_t> tokens);

/// Training on the CPU, step by step.
class MlpReference {
public:
  explicit MlpReference(const MlpProblem &problem);

  void step();
  std::uint64_t steps() const { return stepsDone; }
  std::span<const double> parameters() const { return parameterValues; }
  double meanLoss() const { return lastMeanLoss; }

private:
  MlpShape shape;
  MlpLayout layout;
  std::vector<double> inputs, parameterValues;
  std::vector<std::int32_t> labels;
  std::uint64_t stepsDone = 0;
  double lastMeanLoss = 0;
};

/// The sum of the rows' losses.
double transformerLoss(const TransformerProblem &problem, std::span<const double> parameters);

/// The largest |a - b| over the largest |b|; infinite where a value is not finite.
double relativeDifference(std::span<const float> a, std::span<const double> b);

} // namespace inference_server

#endif
