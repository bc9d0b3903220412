// The other best-effort work: training of a perceptron with two hidden layers, softmax
// cross-entropy, plain gradient descent on one batch. It uses no float atomics, so the weights
// after n steps have the same bits even when kernels yield.
#ifndef INFERENCE_SERVER_MLP_H
#define INFERENCE_SERVER_MLP_H

#include "device.h"
#include "trainer.h"

#include <array>
#include <cstdint>
#include <vector>

namespace inference_server {

struct MlpShape {
  int batch = 0, inputs = 0, hidden = 0, classes = 0;
  /// Rows of the batch that one thread block of a weight gradient adds up.
  int chunk = 64;
  float rate = 0.1f;

  int splits() const { return (batch + chunk - 1) / chunk; }
};

/// Offsets of each layer's weights (inputs x outputs) and biases in the one array of parameters, in
/// floats; gradients have the same layout.
struct MlpLayout {
  struct Layer {
    std::size_t weight, bias;
    int inputs, outputs;
  };
  explicit MlpLayout(const MlpShape &shape);

  std::array<Layer, 3> layers;
  std::size_t total = 0;
};

/// Initial values of training. The label of a row is the largest of its first `classes` inputs, so
/// that the model can learn it.
struct MlpProblem {
  MlpProblem(const MlpShape &shape, std::uint64_t seed);

  MlpShape shape;
  std::vector<float> inputs;
  std::vector<std::int32_t> labels;
  std::vector<float> parameters;
};

/// Training on one stream of the device.
class MlpTrainer : public Trainer {
public:
  /// Uploads the problem and waits for the upload.
  MlpTrainer(const Session &session, Stream stream, const MlpProblem &problem);

  void step() override;
  TrainingResult result() const override;

private:
  void forward();
  void backward();
  void product(DevicePtr in, const MlpLayout::Layer &layer, DevicePtr out);
  void weightGradient(DevicePtr in, DevicePtr gradient, const MlpLayout::Layer &layer);
  void inputGradient(DevicePtr gradient, const MlpLayout::Layer &layer, DevicePtr activation,
                     DevicePtr out);

  const Session &session;
  Stream stream;
  MlpShape shape;
  MlpLayout layout;
  DevicePtr inputs, labels, parameters, gradients;
  std::array<DevicePtr, 3> activations;
  std::array<DevicePtr, 3> activationGradients;
  DevicePtr partials, losses, lossSum;
};

} // namespace inference_server

#endif
