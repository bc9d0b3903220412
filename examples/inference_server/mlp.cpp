#include "mlp.h"

#include "random.h"

#include <algorithm>
#include <cmath>

namespace inference_server {

MlpLayout::MlpLayout(const MlpShape &shape) {
  std::array<int, 4> widths = {shape.inputs, shape.hidden, shape.hidden, shape.classes};
  for (std::size_t i = 0; i < layers.size(); ++i) {
    Layer &layer = layers[i];
    layer.inputs = widths[i];
    layer.outputs = widths[i + 1];
    layer.weight = total;
    layer.bias = layer.weight + static_cast<std::size_t>(layer.inputs) * layer.outputs;
    total = layer.bias + layer.outputs;
  }
}

MlpProblem::MlpProblem(const MlpShape &shape, std::uint64_t seed)
    : shape(shape), inputs(static_cast<std::size_t>(shape.batch) * shape.inputs),
      labels(shape.batch) {
  Random random(seed);
  random.fill(inputs, -1, 1);
  for (int row = 0; row < shape.batch; ++row) {
    auto first = inputs.begin() + static_cast<std::ptrdiff_t>(row) * shape.inputs;
    labels[row] = static_cast<std::int32_t>(
        std::max_element(first, first + std::min(shape.classes, shape.inputs)) - first);
  }
  MlpLayout layout(shape);
  parameters.resize(layout.total);
  for (const MlpLayout::Layer &layer : layout.layers) {
    double scale = std::sqrt(6.0 / layer.inputs);
    random.fill(std::span(parameters).subspan(layer.weight, layer.bias - layer.weight), -scale,
                scale);
  }
}

MlpTrainer::MlpTrainer(const Session &session, Stream stream, const MlpProblem &problem)
    : session(session), stream(stream), shape(problem.shape), layout(problem.shape) {
  std::size_t batch = shape.batch;
  inputs = session.allocateFloats(problem.inputs.size());
  labels = session.allocateFloats(batch);
  parameters = session.allocateFloats(layout.total);
  gradients = session.allocateFloats(layout.total);
  std::size_t largest = 0;
  for (std::size_t i = 0; i < layout.layers.size(); ++i) {
    const MlpLayout::Layer &layer = layout.layers[i];
    activations[i] = session.allocateFloats(batch * layer.outputs);
    activationGradients[i] = session.allocateFloats(batch * layer.outputs);
    largest = std::max(largest, static_cast<std::size_t>(layer.inputs) * layer.outputs);
  }
  partials = session.allocateFloats(largest * shape.splits());
  losses = session.allocateFloats(batch);
  lossSum = session.allocateFloats(1);

  session.upload(stream, inputs, std::span(problem.inputs));
  session.upload(stream, labels, std::span(problem.labels));
  session.upload(stream, parameters, std::span(problem.parameters));
  session.synchronize(stream);
}

void MlpTrainer::product(DevicePtr in, const MlpLayout::Layer &layer, DevicePtr out) {
  session.launch(stream, "gemm_nn",
                 {{blocksFor(layer.outputs, 64), blocksFor(shape.batch, 64)}, {256}}, in,
                 floatAt(parameters, layer.weight), floatAt(parameters, layer.bias), out,
                 shape.batch, layer.outputs, layer.inputs);
}

void MlpTrainer::forward() {
  DevicePtr in = inputs;
  for (std::size_t i = 0; i < layout.layers.size(); ++i) {
    product(in, layout.layers[i], activations[i]);
    int count = shape.batch * layout.layers[i].outputs;
    if (i + 1 < layout.layers.size())
      session.launch(stream, "relu", {{blocksFor(count, 256)}, {256}}, activations[i], count);
    in = activations[i];
  }
}

void MlpTrainer::weightGradient(DevicePtr in, DevicePtr gradient, const MlpLayout::Layer &layer) {
  std::uint32_t splits = static_cast<std::uint32_t>(shape.splits());
  int weightCount = layer.inputs * layer.outputs;
  session.launch(stream, "gemm_tn_split",
                 {{blocksFor(layer.outputs, 64), blocksFor(layer.inputs, 64), splits}, {256}}, in,
                 gradient, partials, layer.inputs, layer.outputs, shape.batch, shape.chunk);
  session.launch(stream, "sum_splits", {{blocksFor(weightCount, 32)}, {32, 8}}, partials,
                 floatAt(gradients, layer.weight), weightCount, shape.splits());
  session.launch(stream, "column_sum", {{blocksFor(layer.outputs, 32), splits}, {32, 8}}, gradient,
                 partials, shape.batch, layer.outputs, shape.chunk);
  session.launch(stream, "sum_splits", {{blocksFor(layer.outputs, 32)}, {32, 8}}, partials,
                 floatAt(gradients, layer.bias), layer.outputs, shape.splits());
}

void MlpTrainer::inputGradient(DevicePtr gradient, const MlpLayout::Layer &layer,
                               DevicePtr activation, DevicePtr out) {
  int count = shape.batch * layer.inputs;
  session.launch(stream, "gemm_nt",
                 {{blocksFor(layer.inputs, 64), blocksFor(shape.batch, 64)}, {256}}, gradient,
                 floatAt(parameters, layer.weight), out, shape.batch, layer.inputs, layer.outputs);
  session.launch(stream, "relu_backward", {{blocksFor(count, 256)}, {256}}, out, activation, count);
}

void MlpTrainer::backward() {
  session.launch(stream, "softmax_cross_entropy", {{blocksFor(shape.batch, 4)}, {128}},
                 activations[2], labels, activationGradients[2], losses, shape.batch,
                 shape.classes);
  session.launch(stream, "accumulate_sum", {{blocksFor(shape.batch, 1024)}, {256}}, losses, lossSum,
                 shape.batch);
  for (std::size_t i = layout.layers.size(); i-- > 0;) {
    weightGradient(i > 0 ? activations[i - 1] : inputs, activationGradients[i], layout.layers[i]);
    if (i > 0)
      inputGradient(activationGradients[i], layout.layers[i], activations[i - 1],
                    activationGradients[i - 1]);
  }
}

void MlpTrainer::step() {
  // The fill comes first, while the stream is empty: a fill cannot yield, so Tally sends it only
  // once all kernels before it are done.
  must(session.runtime().fill(stream, lossSum, std::byte{0}, sizeof(float)), "clearing the loss");
  forward();
  backward();
  int count = static_cast<int>(layout.total);
  session.launch(stream, "sgd_update", {{blocksFor(count, 256)}, {256}}, parameters, gradients,
                 shape.rate, count);
  session.synchronize(stream);
  ++stepsDone;
}

TrainingResult MlpTrainer::result() const {
  TrainingResult result;
  result.steps = stepsDone;
  result.parameters.resize(layout.total);
  float loss = 0;
  session.download(stream, std::span(result.parameters), parameters);
  session.download(stream, std::span(&loss, 1), lossSum);
  session.synchronize(stream);
  result.meanLoss = static_cast<double>(loss) / shape.batch;
  return result;
}

} // namespace inference_server
