// Holds what the device computed against what is right.
#ifndef INFERENCE_SERVER_CHECKS_H
#define INFERENCE_SERVER_CHECKS_H

#include "measurement.h"

namespace inference_server {

/// Largest difference allowed between fp32 on the device and double on the CPU, relative to the
/// largest value: a few hundred roundings of 2^-24.
constexpr double tolerance = 1e-4;

/// Every answer to every request, against the CPU.
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

/// A result of training and where it is from.
struct TrainingRun {
  std::string origin;
  MlpResult result;
};

/// Against the CPU; `runs` in any order.
Check checkTrainingOnCpu(const MlpProblem &problem, std::vector<TrainingRun> runs);

/// Against training alone on the device after as many steps, bit for bit.
Check checkTrainingAgainstAlone(std::span<const TrainingRun> runs,
                                std::span<const MlpResult> alone);

} // namespace inference_server

#endif
