#include "checks.h"

#include "reference.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/format.h>

namespace inference_server {

EncoderCheck::EncoderCheck(const Workload &workload) {
  for (const std::vector<std::int32_t> &tokens : workload.inputs)
    expected.push_back(encoderReference(workload.options.encoder, workload.weights, tokens));
}

void EncoderCheck::add(Mode mode, std::span<const Served> served) {
  for (const Served &each : served) {
    double difference = relativeDifference(each.logits, expected[each.input]);
    if (difference > worst) {
      worst = difference;
      worstMode = mode;
    }
    ++answers;
  }
}

Check EncoderCheck::verdict() const {
  return {answers > 0 && worst <= tolerance,
          fmt::format("encoder: {} answers, largest difference from the CPU {:.1e} (in '{}'; "
                      "allowed {:.0e})",
                      answers, worst, name(worstMode), tolerance)};
}

Check checkTrainingOnCpu(const MlpProblem &problem, std::vector<TrainingRun> runs) {
  if (runs.empty())
    return {false, "training: nothing was trained"};
  std::sort(runs.begin(), runs.end(), [](const TrainingRun &a, const TrainingRun &b) {
    return a.result.steps < b.result.steps;
  });
  MlpReference reference(problem);
  double worst = 0, firstLoss = 0, lastLoss = 0;
  std::string worstOrigin;
  for (const TrainingRun &run : runs) {
    while (reference.steps() < run.result.steps) {
      reference.step();
      if (reference.steps() == 1)
        firstLoss = reference.meanLoss();
    }
    lastLoss = reference.meanLoss();
    auto loss = static_cast<float>(run.result.meanLoss);
    double difference = std::max(relativeDifference(run.result.parameters, reference.parameters()),
                                 relativeDifference(std::span(&loss, 1), std::span(&lastLoss, 1)));
    if (difference > worst) {
      worst = difference;
      worstOrigin = run.origin;
    }
  }
  return {worst <= tolerance,
          fmt::format("training: {} runs of {} to {} steps (loss {:.3f} to {:.3f}), largest "
                      "difference from the CPU {:.1e} (in '{}'; allowed {:.0e})",
                      runs.size(), runs.front().result.steps, runs.back().result.steps, firstLoss,
                      lastLoss, worst, worstOrigin, tolerance)};
}

Check checkTrainingAgainstAlone(std::span<const TrainingRun> runs,
                                std::span<const MlpResult> alone) {
  std::string wrong;
  for (const TrainingRun &run : runs) {
    auto same = std::find_if(alone.begin(), alone.end(),
                             [&](const MlpResult &each) { return each.steps == run.result.steps; });
    bool right = same != alone.end() &&
                 std::memcmp(same->parameters.data(), run.result.parameters.data(),
                             same->parameters.size() * sizeof(float)) == 0 &&
                 std::abs(same->meanLoss - run.result.meanLoss) <= tolerance * same->meanLoss;
    if (!right)
      wrong += fmt::format("{}'{}' after {} steps", wrong.empty() ? "" : ", ", run.origin,
                           run.result.steps);
  }
  if (!wrong.empty())
    return {false, "training: differs from training alone in " + wrong};
  return {!runs.empty(),
          fmt::format("training: {} runs, parameters the same bits as those of training alone "
                      "after as many steps",
                      runs.size())};
}

} // namespace inference_server
