#include "checks.h"

#include "random.h"
#include "reference.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <numeric>

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

double gradientError(const TransformerProblem &problem, std::span<const float> gradients,
                     std::size_t tensor) {
  std::vector<std::size_t> tensors = TransformerLayout(problem.shape).tensors;
  std::size_t begin = tensors[tensor], count = tensors[tensor + 1] - begin;
  std::span<const float> told = gradients.subspan(begin, count);
  double length = std::sqrt(std::inner_product(told.begin(), told.end(), told.begin(), 0.0));
  std::vector<double> parameters(problem.parameters.begin(), problem.parameters.end());
  // Slope of the CPU's loss when each parameter of the tensor moves by step(i).
  auto slope = [&](auto step) {
    constexpr double distance = 1e-3;
    auto lossAt = [&](double factor) {
      std::vector<double> moved = parameters;
      for (std::size_t i = 0; i < count; ++i)
        moved[begin + i] += factor * step(i);
      return transformerLoss(problem, moved);
    };
    return (lossAt(distance) - lossAt(-distance)) / (2 * distance);
  };
  double worst =
      std::abs(slope([&](std::size_t i) { return double{told[i]} / length; }) - length) / length;
  double largest = 0;
  for (float each : told)
    largest = std::max(largest, std::abs(double{each}));
  Random random(tensor);
  for (int sample = 0; sample < 12; ++sample) {
    auto chosen = static_cast<std::size_t>(random.below(static_cast<int>(count)));
    double alone = slope([&](std::size_t i) { return i == chosen ? 1.0 : 0.0; });
    worst = std::max(worst, std::abs(alone - double{told[chosen]}) / largest);
  }
  return std::isfinite(worst) && std::isfinite(length) ? worst
                                                       : std::numeric_limits<double>::infinity();
}

double gradientError(const TransformerProblem &problem, std::span<const float> gradients) {
  double worst = 0;
  for (std::size_t i = 0; i + 1 < TransformerLayout(problem.shape).tensors.size(); ++i)
    worst = std::max(worst, gradientError(problem, gradients, i));
  return worst;
}

Check checkTransformer(const TransformerProblem &problem, const TransformerTraining &training) {
  std::vector<double> parameters(problem.parameters.begin(), problem.parameters.end());
  double expected = transformerLoss(problem, parameters) / problem.shape.rows();
  double loss = std::abs(training.first.meanLoss - expected) / expected;
  double gradients = gradientError(problem, training.gradients);
  bool learns = training.last.meanLoss < training.first.meanLoss / 2;
  return {loss <= halfTolerance && gradients <= halfTolerance && learns,
          fmt::format("training: a small transformer's loss differs by {:.1e} from the CPU's, its "
                      "gradients by {:.1e} (allowed {:.0e}); {} steps take the loss from {:.3f} to "
                      "{:.3f}",
                      loss, gradients, halfTolerance, training.last.steps, training.first.meanLoss,
                      training.last.meanLoss)};
}

namespace {

/// Describes the first error of a run, compared with training alone for the same number of steps;
/// empty if there is none.
std::string differenceFrom(const TrainingResult *alone, const TrainingResult &run) {
  if (!alone)
    return "nothing to compare with";
  std::size_t different = 0, first = 0;
  for (std::size_t i = run.parameters.size(); i-- > 0;)
    if (std::bit_cast<std::uint32_t>(run.parameters[i]) !=
        std::bit_cast<std::uint32_t>(alone->parameters[i])) {
      ++different;
      first = i;
    }
  if (different > 0)
    return fmt::format("{} of {} parameters differ, the first is number {}", different,
                       run.parameters.size(), first);
  // Atomics sum the loss, so the order of the additions differs between runs.
  if (!(std::abs(alone->meanLoss - run.meanLoss) <= tolerance * alone->meanLoss))
    return fmt::format("loss {} instead of {}", run.meanLoss, alone->meanLoss);
  return "";
}

} // namespace

Check checkTrainingAgainstAlone(std::span<const TrainingRun> runs,
                                std::span<const TrainingResult> alone) {
  std::string wrong;
  for (const TrainingRun &run : runs) {
    auto same = std::find_if(alone.begin(), alone.end(), [&](const TrainingResult &each) {
      return each.steps == run.result.steps;
    });
    std::string difference = differenceFrom(same == alone.end() ? nullptr : &*same, run.result);
    if (!difference.empty())
      wrong += fmt::format("{}'{}' after {} steps: {}", wrong.empty() ? "" : "; ", run.origin,
                           run.result.steps, difference);
  }
  if (!wrong.empty())
    return {false, "training is not what it is alone: " + wrong};
  return {!runs.empty(),
          fmt::format("training: {} runs, parameters the same bits as those of training alone "
                      "after as many steps",
                      runs.size())};
}

} // namespace inference_server
