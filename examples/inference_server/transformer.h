// The best-effort work: training of a small transformer, pre-norm, one class per position, softmax
// cross-entropy, Adam. Weights and activations are f16 for the tensor cores; sums, gradients of
// weights, moments and the weights that Adam keeps are f32.
//
//   x = project(inputs);  per layer: x += out(attention(norm(x)));  x += down(gelu(up(norm(x))));
//   logits = head(norm(x))
//
// It uses no float atomics, so the weights after n steps have the same bits even when kernels
// yield.
#ifndef INFERENCE_SERVER_TRANSFORMER_H
#define INFERENCE_SERVER_TRANSFORMER_H

#include "device.h"
#include "trainer.h"

#include <vector>

namespace inference_server {

/// width, inputs and classes are multiples of 8; sequence <= 32; headSize() <= 64.
struct TransformerShape {
  int layers = 1, width = 0, heads = 0, sequence = 0, batch = 0, inputs = 0, classes = 0;
  /// Rows that one thread block of a weight's gradient adds up.
  int chunk = 64;
  float rate = 1e-3f;

  int rows() const { return batch * sequence; }
  int hidden() const { return 4 * width; }
  int headSize() const { return width / heads; }
  int splits() const { return (rows() + chunk - 1) / chunk; }
};

/// Offset of each tensor in the one array of parameters, in elements; f16 copies, gradients and
/// moments have the same layout. Of a norm the gain comes first, then the shift.
struct TransformerLayout {
  struct Affine {
    std::size_t weight, bias;
    int inputs, outputs;
  };
  struct Layer {
    std::size_t norm1;
    Affine qkv, out;
    std::size_t norm2;
    Affine up, down;
  };
  explicit TransformerLayout(const TransformerShape &shape);

  Affine project, head;
  std::vector<Layer> layers;
  std::size_t finalNorm, total = 0;
  std::vector<std::size_t> tensors; ///< offset of each tensor, ascending; then the total
};

/// Initial values of training: inputs that f16 holds exactly, and as a position's label the largest
/// of its first `classes` inputs, so that the model can learn it.
struct TransformerProblem {
  TransformerProblem(const TransformerShape &shape, std::uint64_t seed);

  TransformerShape shape;
  std::vector<float> inputs; ///< rows x inputs
  std::vector<std::int32_t> labels;
  std::vector<float> parameters;
};

/// Training on one stream of the device.
class TransformerTrainer : public Trainer {
public:
  /// Uploads the problem and waits for the upload.
  TransformerTrainer(const Session &session, Stream stream, const TransformerProblem &problem);

  void step() override;
  TrainingResult result() const override;
  /// Gradients of the sum of the rows' losses, in the last step.
  std::vector<float> gradients() const;

private:
  /// Values of a layer's forward pass that the backward pass needs.
  struct Saved {
    DevicePtr x, statistics1, normed1, qkv, context, middle, statistics2, normed2, up, hidden;
  };
  using Affine = TransformerLayout::Affine;

  DevicePtr allocateHalves(std::size_t count) const;
  void forwardLayer(const TransformerLayout::Layer &layer, const Saved &saved, DevicePtr out);
  void backwardLayer(const TransformerLayout::Layer &layer, const Saved &saved);
  void forward();
  void backward();
  void affine(DevicePtr in, const Affine &layer, DevicePtr residual, DevicePtr out);
  void affineGradient(DevicePtr in, DevicePtr gradient, const Affine &layer, DevicePtr inGradient);
  void norm(DevicePtr in, std::size_t parameters, DevicePtr out, DevicePtr statistics);
  void normGradient(DevicePtr gradient, DevicePtr in, std::size_t parameters, DevicePtr statistics,
                    DevicePtr residual, DevicePtr inGradient);
  tally::LaunchShape perHead() const;
  float attentionScale() const;
  void sumPartials(std::size_t to, int count);

  const Session &session;
  Stream stream;
  TransformerShape shape;
  TransformerLayout layout;
  DevicePtr inputs, labels, parameters, rounded, gradientSums, moments;
  std::vector<Saved> saved;
  DevicePtr last, lastStatistics, lastNormed, logits;
  DevicePtr logitGradient, gradient, normedGradient, wideGradient;
  DevicePtr partials, losses, lossSum;
};

} // namespace inference_server

#endif
