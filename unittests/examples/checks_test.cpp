#include "checks.h"
#include "reference.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace inference_server;

namespace {

const MlpShape smallShape{
    .batch = 12, .inputs = 5, .hidden = 6, .classes = 3, .chunk = 4, .rate = 0.05f};

double lossAt(MlpProblem problem, std::size_t parameter, float delta) {
  problem.parameters[parameter] += delta;
  MlpReference reference(problem);
  reference.step();
  return reference.meanLoss();
}

TrainingResult trainOnCpu(const MlpProblem &problem, std::uint64_t steps) {
  MlpReference reference(problem);
  while (reference.steps() < steps)
    reference.step();
  return {
      steps, {reference.parameters().begin(), reference.parameters().end()}, reference.meanLoss()};
}

Options smallOptions() {
  Options options;
  options.encoder = {.layers = 2, .width = 12, .heads = 3, .sequence = 5, .batch = 2};
  options.training = smallShape;
  return options;
}

} // namespace

TEST_CASE("the reference's gradients are those of its loss") {
  MlpProblem problem(smallShape, 3);
  MlpReference reference(problem);
  reference.step();
  for (std::size_t i = 0; i < problem.parameters.size(); ++i) {
    double gradient = (problem.parameters[i] - reference.parameters()[i]) / smallShape.rate;
    double byDifference = (lossAt(problem, i, 1e-3f) - lossAt(problem, i, -1e-3f)) / 2e-3;
    CHECK(gradient == doctest::Approx(byDifference).epsilon(0.02).scale(0.1));
  }
}

TEST_CASE("training on the reference learns") {
  MlpProblem problem(smallShape, 3);
  CHECK(trainOnCpu(problem, 200).meanLoss < 0.7 * trainOnCpu(problem, 1).meanLoss);
}

TEST_CASE("a sequence's logits do not depend on the other sequences of its request") {
  Options options = smallOptions();
  auto weights = randomEncoderWeights(options.encoder, 1);
  auto tokens = randomTokens(options.encoder, 2);
  auto both = encoderReference(options.encoder, weights, tokens);
  for (int i = 0; i < 5; ++i)
    tokens[i] = (tokens[i] + 1) % options.encoder.vocabulary;
  auto changed = encoderReference(options.encoder, weights, tokens);
  int classes = options.encoder.classes;
  CHECK(std::vector(both.begin() + classes, both.end()) ==
        std::vector(changed.begin() + classes, changed.end()));
  CHECK(both[0] != changed[0]);
}

TEST_CASE("a wrong answer is found") {
  Workload workload(smallOptions());
  auto right = encoderReference(workload.options.encoder, workload.weights, workload.inputs[1]);
  Served served;
  served.input = 1;
  served.logits.assign(right.begin(), right.end());

  EncoderCheck good(workload);
  CHECK_FALSE(good.verdict().right); // nothing was answered
  good.add(Mode::Tally, std::span(&served, 1));
  CHECK(good.verdict().right);

  for (float wrong : {served.logits[7] + 0.01f, float(NAN)}) {
    Served bad = served;
    bad.logits[7] = wrong;
    EncoderCheck check(workload);
    check.add(Mode::Tally, std::span(&bad, 1));
    check.add(Mode::Alone, std::span(&served, 1));
    CHECK_FALSE(check.verdict().right);
    CHECK(check.verdict().text.find("'tally'") != std::string::npos);
  }
}

TEST_CASE("wrong training is found against the CPU") {
  MlpProblem problem(smallShape, 3);
  TrainingResult three = trainOnCpu(problem, 3), five = trainOnCpu(problem, 5);
  CHECK(checkTrainingOnCpu(problem, {{"b", five}, {"a", three}}).right);
  CHECK_FALSE(checkTrainingOnCpu(problem, {}).right);

  TrainingResult wrongWeight = five, notANumber = five, wrongLoss = five, oneTooMany = five;
  wrongWeight.parameters[20] += 0.01f;
  notANumber.parameters.back() = NAN;
  wrongLoss.meanLoss = NAN;
  oneTooMany.steps = 4;
  for (const TrainingResult &wrong : {wrongWeight, notANumber, wrongLoss, oneTooMany}) {
    Check check = checkTrainingOnCpu(problem, {{"a", three}, {"guilty", wrong}});
    CHECK_FALSE(check.right);
    CHECK(check.text.find("'guilty'") != std::string::npos);
  }
}

TEST_CASE("one bit is found against training alone") {
  MlpProblem problem(smallShape, 3);
  std::vector<TrainingResult> alone = {trainOnCpu(problem, 3), trainOnCpu(problem, 5)};
  std::vector<TrainingRun> runs = {{"a", alone[0]}, {"b", alone[1]}, {"c", alone[1]}};
  CHECK(checkTrainingAgainstAlone(runs, alone).right);
  CHECK_FALSE(checkTrainingAgainstAlone({}, alone).right);
  runs[1].result.parameters[4] = std::nextafter(runs[1].result.parameters[4], 9.0f);
  Check check = checkTrainingAgainstAlone(runs, alone);
  CHECK_FALSE(check.right);
  CHECK(check.text.find("'b' after 5 steps: 1 of") != std::string::npos);
  CHECK(check.text.find("'c'") == std::string::npos);
  // A run without a reference run to compare with is not right either.
  runs = {{"a", trainOnCpu(problem, 4)}};
  CHECK_FALSE(checkTrainingAgainstAlone(runs, alone).right);
}
