#include "transformer.h"

#include "random.h"

#include <algorithm>
#include <cmath>

namespace inference_server {

namespace {

constexpr float normEpsilon = 1e-5f;

constexpr DevicePtr halfAt(DevicePtr array, std::size_t i) { return array + i * 2; }

/// Rounds to the nearest f16; `value` is finite and far below f16's largest value.
std::uint16_t halfBits(float value) {
  float magnitude = std::fabs(value);
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  exponent = std::max(exponent - 1, -14);
  auto steps = static_cast<int>(std::nearbyint(std::ldexp(magnitude, 10 - exponent)));
  // Fraction and exponent are one number, so a carry moves into the exponent.
  int code = steps < 1024 ? steps : steps + (exponent + 14) * 1024;
  return static_cast<std::uint16_t>(code | (std::signbit(value) ? 0x8000 : 0));
}

std::vector<std::uint16_t> halves(std::span<const float> values) {
  std::vector<std::uint16_t> bits(values.size());
  std::transform(values.begin(), values.end(), bits.begin(), halfBits);
  return bits;
}

} // namespace

TransformerLayout::TransformerLayout(const TransformerShape &shape) {
  auto take = [this](std::size_t count) {
    std::size_t offset = total;
    tensors.push_back(offset);
    total += count;
    return offset;
  };
  auto takeAffine = [&](int inputs, int outputs) {
    Affine affine{0, 0, inputs, outputs};
    affine.weight = take(static_cast<std::size_t>(inputs) * outputs);
    affine.bias = take(outputs);
    return affine;
  };
  int width = shape.width;
  project = takeAffine(shape.inputs, width);
  for (int i = 0; i < shape.layers; ++i) {
    Layer layer;
    layer.norm1 = take(2 * width);
    layer.qkv = takeAffine(width, 3 * width);
    layer.out = takeAffine(width, width);
    layer.norm2 = take(2 * width);
    layer.up = takeAffine(width, shape.hidden());
    layer.down = takeAffine(shape.hidden(), width);
    layers.push_back(layer);
  }
  finalNorm = take(2 * width);
  head = takeAffine(width, shape.classes);
  tensors.push_back(total);
}

TransformerProblem::TransformerProblem(const TransformerShape &shape, std::uint64_t seed)
    : shape(shape), inputs(static_cast<std::size_t>(shape.rows()) * shape.inputs),
      labels(shape.rows()) {
  Random random(seed);
  for (float &value : inputs)
    value = static_cast<float>(random.below(257) - 128) / 128.0f;
  for (int row = 0; row < shape.rows(); ++row) {
    auto first = inputs.begin() + static_cast<std::ptrdiff_t>(row) * shape.inputs;
    labels[row] = static_cast<std::int32_t>(
        std::max_element(first, first + std::min(shape.classes, shape.inputs)) - first);
  }
  TransformerLayout layout(shape);
  parameters.resize(layout.total);
  auto fillAffine = [&](const TransformerLayout::Affine &affine) {
    double scale = std::sqrt(3.0 / affine.inputs);
    random.fill(std::span(parameters).subspan(affine.weight, affine.bias - affine.weight), -scale,
                scale);
  };
  auto fillNorm = [&](std::size_t norm) {
    std::fill_n(parameters.begin() + static_cast<std::ptrdiff_t>(norm), shape.width, 1.0f);
  };
  fillAffine(layout.project);
  for (const TransformerLayout::Layer &layer : layout.layers) {
    fillNorm(layer.norm1);
    fillNorm(layer.norm2);
    for (const TransformerLayout::Affine *each : {&layer.qkv, &layer.out, &layer.up, &layer.down})
      fillAffine(*each);
  }
  fillNorm(layout.finalNorm);
  fillAffine(layout.head);
}

DevicePtr TransformerTrainer::allocateHalves(std::size_t count) const {
  return session.allocateFloats((count + 1) / 2);
}

TransformerTrainer::TransformerTrainer(const Session &session, Stream stream,
                                       const TransformerProblem &problem)
    : session(session), stream(stream), shape(problem.shape), layout(problem.shape) {
  std::size_t rows = shape.rows(), width = shape.width, hidden = shape.hidden();
  inputs = allocateHalves(problem.inputs.size());
  labels = session.allocateFloats(rows);
  parameters = session.allocateFloats(layout.total);
  rounded = allocateHalves(layout.total);
  gradientSums = session.allocateFloats(layout.total);
  moments = session.allocateFloats(2 * layout.total);
  for (int i = 0; i < shape.layers; ++i)
    saved.push_back({allocateHalves(rows * width), session.allocateFloats(2 * rows),
                     allocateHalves(rows * width), allocateHalves(rows * 3 * width),
                     allocateHalves(rows * width), allocateHalves(rows * width),
                     session.allocateFloats(2 * rows), allocateHalves(rows * width),
                     allocateHalves(rows * hidden), allocateHalves(rows * hidden)});
  last = allocateHalves(rows * width);
  lastStatistics = session.allocateFloats(2 * rows);
  lastNormed = allocateHalves(rows * width);
  logits = allocateHalves(rows * shape.classes);
  logitGradient = allocateHalves(rows * shape.classes);
  gradient = allocateHalves(rows * width);
  normedGradient = allocateHalves(rows * width);
  wideGradient = allocateHalves(rows * hidden);
  std::size_t largest = std::max<std::size_t>(
      {width * hidden, static_cast<std::size_t>(shape.inputs) * width, width * shape.classes});
  partials = session.allocateFloats(largest * shape.splits());
  losses = session.allocateFloats(rows);
  lossSum = session.allocateFloats(1);

  std::vector<std::uint16_t> inputHalves = halves(problem.inputs);
  std::vector<std::uint16_t> parameterHalves = halves(problem.parameters);
  std::vector<float> zeros(2 * layout.total);
  session.upload(stream, inputs, std::span<const std::uint16_t>(inputHalves));
  session.upload(stream, labels, std::span(problem.labels));
  session.upload(stream, parameters, std::span(problem.parameters));
  session.upload(stream, rounded, std::span<const std::uint16_t>(parameterHalves));
  session.upload(stream, moments, std::span<const float>(zeros));
  session.synchronize(stream);
}

void TransformerTrainer::affine(DevicePtr in, const Affine &layer, DevicePtr residual,
                                DevicePtr out) {
  session.launch(stream, "tensor_nn",
                 {{blocksFor(layer.outputs, 64), blocksFor(shape.rows(), 64)}, {128}}, in,
                 halfAt(rounded, layer.weight), halfAt(rounded, layer.bias), residual, out,
                 shape.rows(), layer.outputs, layer.inputs);
}

void TransformerTrainer::sumPartials(std::size_t to, int count) {
  session.launch(stream, "sum_splits", {{blocksFor(count, 32)}, {32, 8}}, partials,
                 floatAt(gradientSums, to), count, shape.splits());
}

/// Computes the gradients of the layer's weights and bias and, unless `inGradient` is null, of its
/// input.
void TransformerTrainer::affineGradient(DevicePtr in, DevicePtr outGradient, const Affine &layer,
                                        DevicePtr inGradient) {
  auto splits = static_cast<std::uint32_t>(shape.splits());
  session.launch(stream, "tensor_tn_split",
                 {{blocksFor(layer.outputs, 64), blocksFor(layer.inputs, 64), splits}, {128}}, in,
                 outGradient, partials, layer.inputs, layer.outputs, shape.rows(), shape.chunk);
  sumPartials(layer.weight, layer.inputs * layer.outputs);
  session.launch(stream, "bias_sum", {{blocksFor(layer.outputs, 32), splits}, {32, 8}}, outGradient,
                 partials, shape.rows(), layer.outputs, shape.chunk);
  sumPartials(layer.bias, layer.outputs);
  if (inGradient)
    session.launch(stream, "tensor_nt",
                   {{blocksFor(layer.inputs, 64), blocksFor(shape.rows(), 64)}, {128}}, outGradient,
                   halfAt(rounded, layer.weight), inGradient, shape.rows(), layer.inputs,
                   layer.outputs);
}

void TransformerTrainer::norm(DevicePtr in, std::size_t gain, DevicePtr out, DevicePtr statistics) {
  session.launch(stream, "norm_forward", {{blocksFor(shape.rows(), 4)}, {128}}, in,
                 halfAt(rounded, gain), halfAt(rounded, gain + shape.width), out, statistics,
                 shape.rows(), shape.width, normEpsilon);
}

void TransformerTrainer::normGradient(DevicePtr outGradient, DevicePtr in, std::size_t gain,
                                      DevicePtr statistics, DevicePtr residual,
                                      DevicePtr inGradient) {
  auto splits = static_cast<std::uint32_t>(shape.splits());
  session.launch(stream, "norm_weights", {{blocksFor(shape.width, 32), splits}, {32, 8}},
                 outGradient, in, statistics, partials, shape.rows(), shape.width, shape.chunk);
  sumPartials(gain, 2 * shape.width);
  session.launch(stream, "norm_backward", {{blocksFor(shape.rows(), 4)}, {128}}, outGradient, in,
                 halfAt(rounded, gain), statistics, residual, inGradient, shape.rows(),
                 shape.width);
}

/// Launches a thread block for each head of each sequence.
tally::LaunchShape TransformerTrainer::perHead() const {
  return {{static_cast<std::uint32_t>(shape.heads), static_cast<std::uint32_t>(shape.batch)},
          {128}};
}

float TransformerTrainer::attentionScale() const {
  return 1.0f / std::sqrt(static_cast<float>(shape.headSize()));
}

void TransformerTrainer::forwardLayer(const TransformerLayout::Layer &layer, const Saved &kept,
                                      DevicePtr out) {
  norm(kept.x, layer.norm1, kept.normed1, kept.statistics1);
  affine(kept.normed1, layer.qkv, 0, kept.qkv);
  session.launch(stream, "training_attention_forward", perHead(), kept.qkv, kept.context,
                 shape.sequence, shape.headSize(), attentionScale());
  affine(kept.context, layer.out, kept.x, kept.middle);
  norm(kept.middle, layer.norm2, kept.normed2, kept.statistics2);
  affine(kept.normed2, layer.up, 0, kept.up);
  int pairs = shape.rows() * (shape.hidden() / 2);
  session.launch(stream, "gelu_forward", {{blocksFor(pairs, 256)}, {256}}, kept.up, kept.hidden,
                 pairs);
  affine(kept.hidden, layer.down, kept.middle, out);
}

/// Replaces the gradient of the layer's output in `gradient` by the gradient of its input.
void TransformerTrainer::backwardLayer(const TransformerLayout::Layer &layer, const Saved &kept) {
  affineGradient(kept.hidden, gradient, layer.down, wideGradient);
  int pairs = shape.rows() * (shape.hidden() / 2);
  session.launch(stream, "gelu_backward", {{blocksFor(pairs, 256)}, {256}}, wideGradient, kept.up,
                 pairs);
  affineGradient(kept.normed2, wideGradient, layer.up, normedGradient);
  normGradient(normedGradient, kept.middle, layer.norm2, kept.statistics2, gradient, gradient);

  affineGradient(kept.context, gradient, layer.out, normedGradient);
  session.launch(stream, "training_attention_backward", perHead(), kept.qkv, normedGradient,
                 wideGradient, shape.sequence, shape.headSize(), attentionScale());
  affineGradient(kept.normed1, wideGradient, layer.qkv, normedGradient);
  normGradient(normedGradient, kept.x, layer.norm1, kept.statistics1, gradient, gradient);
}

void TransformerTrainer::forward() {
  affine(inputs, layout.project, 0, shape.layers > 0 ? saved[0].x : last);
  for (std::size_t i = 0; i < saved.size(); ++i)
    forwardLayer(layout.layers[i], saved[i], i + 1 < saved.size() ? saved[i + 1].x : last);
  norm(last, layout.finalNorm, lastNormed, lastStatistics);
  affine(lastNormed, layout.head, 0, logits);
}

void TransformerTrainer::backward() {
  int rows = shape.rows();
  session.launch(stream, "cross_entropy", {{blocksFor(rows, 4)}, {128}}, logits, labels,
                 logitGradient, losses, rows, shape.classes);
  session.launch(stream, "accumulate_sum", {{blocksFor(rows, 1024)}, {256}}, losses, lossSum, rows);
  affineGradient(lastNormed, logitGradient, layout.head, normedGradient);
  normGradient(normedGradient, last, layout.finalNorm, lastStatistics, 0, gradient);
  for (std::size_t i = saved.size(); i-- > 0;)
    backwardLayer(layout.layers[i], saved[i]);
  affineGradient(inputs, gradient, layout.project, 0);
}

void TransformerTrainer::step() {
  // The fill comes first, while the stream is empty: a fill cannot yield, so Tally sends it only
  // once all kernels before it are done.
  must(session.runtime().fill(stream, lossSum, std::byte{0}, sizeof(float)), "clearing the loss");
  forward();
  backward();
  int count = static_cast<int>(layout.total);
  auto time = static_cast<double>(stepsDone + 1);
  session.launch(stream, "adam_update", {{blocksFor(count, 256)}, {256}}, parameters, rounded,
                 moments, gradientSums, 1.0f / static_cast<float>(shape.rows()), shape.rate,
                 static_cast<float>(1 - std::pow(0.9, time)),
                 static_cast<float>(1 - std::pow(0.999, time)), count);
  session.synchronize(stream);
  ++stepsDone;
}

TrainingResult TransformerTrainer::result() const {
  TrainingResult result;
  result.steps = stepsDone;
  result.parameters.resize(layout.total);
  float loss = 0;
  session.download(stream, std::span(result.parameters), parameters);
  session.download(stream, std::span(&loss, 1), lossSum);
  session.synchronize(stream);
  result.meanLoss = static_cast<double>(loss) / shape.rows();
  return result;
}

std::vector<float> TransformerTrainer::gradients() const {
  std::vector<float> values(layout.total);
  session.download(stream, std::span(values), gradientSums);
  session.synchronize(stream);
  return values;
}

} // namespace inference_server
