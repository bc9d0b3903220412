// The transformer's training step on the emulator, compared with differences of the CPU's loss.
#include "checks.h"
#include "reference.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace inference_server;

namespace {

// No size is a multiple of a tile; heads have 8 columns, and the last chunk cuts a run of rows.
const TransformerShape oddShape{.layers = 2,
                                .width = 40,
                                .heads = 5,
                                .sequence = 11,
                                .batch = 5,
                                .inputs = 24,
                                .classes = 16,
                                .chunk = 16,
                                .rate = 3e-3f};

TransformerTraining train(const TransformerProblem &problem, int steps) {
  Options options;
  options.bundle = INFERENCE_SERVER_BUNDLE;
  options.encoder = {.layers = 1, .width = 8, .heads = 1, .sequence = 4, .batch = 1};
  options.training = {.batch = 32, .inputs = 8, .hidden = 8, .classes = 8};
  return trainTransformer(Workload(options), problem, steps);
}

} // namespace

TEST_CASE("gradients are those of the loss, tensor by tensor") {
  TransformerProblem problem(oddShape, 3);
  TransformerTraining training = train(problem, 1);
  CHECK(gradientError(problem, training.gradients) < 5e-3);
  std::vector<double> start(problem.parameters.begin(), problem.parameters.end());
  double loss = transformerLoss(problem, start) / oddShape.rows();
  CHECK(training.first.meanLoss == doctest::Approx(loss).epsilon(1e-3));

  // The check finds a tensor's gradient that is off by a tenth, has a wrong sign or is missing in
  // part.
  TransformerLayout layout(oddShape);
  for (std::size_t tensor = 0; tensor + 1 < layout.tensors.size(); ++tensor) {
    CAPTURE(tensor);
    for (double factor : {1.1, -1.0, 0.0}) {
      std::vector<float> wrong = training.gradients;
      for (std::size_t i = layout.tensors[tensor]; i < layout.tensors[tensor + 1]; ++i)
        if (factor != 0 || i % 2)
          wrong[i] *= static_cast<float>(factor);
      CHECK_FALSE(gradientError(problem, wrong, tensor) <= halfTolerance);
    }
  }
  training.gradients[7] = NAN;
  CHECK(std::isinf(gradientError(problem, training.gradients, 0)));
}

TEST_CASE("Adam's first steps are those of its definition") {
  TransformerProblem problem(oddShape, 3);
  TransformerTraining training = train(problem, 1);
  for (std::size_t i = 0; i < problem.parameters.size(); ++i) {
    // After one step the quotient of the moments is the gradient's sign, except for the 1e-8.
    double gradient = double{training.gradients[i]} / oddShape.rows();
    double expected =
        problem.parameters[i] - double{oddShape.rate} * gradient / (std::abs(gradient) + 1e-8);
    CHECK(training.first.parameters[i] == doctest::Approx(expected).epsilon(1e-5).scale(0.01));
  }
}

TEST_CASE("a training that goes wrong is told from one that goes right") {
  TransformerProblem problem(oddShape, 3);
  TransformerTraining training = train(problem, 40);
  CHECK(checkTransformer(problem, training).right);
  TransformerTraining wrongLoss = training, wrongGradient = training, learnsNothing = training;
  wrongLoss.first.meanLoss *= 1.1;
  for (float &each : wrongGradient.gradients)
    each *= 1.1f;
  learnsNothing.last.meanLoss = training.first.meanLoss;
  for (const TransformerTraining &wrong : {wrongLoss, wrongGradient, learnsNothing})
    CHECK_FALSE(checkTransformer(problem, wrong).right);
}
