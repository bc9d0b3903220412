#include "encoder.h"

#include "random.h"

#include <cmath>

namespace inference_server {

EncoderLayout::EncoderLayout(const EncoderShape &shape) {
  auto take = [this](std::size_t count) {
    std::size_t offset = total;
    total += count;
    return offset;
  };
  std::size_t width = shape.width, hidden = shape.hidden();
  table = take(shape.vocabulary * width);
  positions = take(shape.sequence * width);
  for (int i = 0; i < shape.layers; ++i) {
    Layer layer;
    layer.gain1 = take(width);
    layer.shift1 = take(width);
    layer.qkv = take(width * 3 * width);
    layer.qkvBias = take(3 * width);
    layer.out = take(width * width);
    layer.outBias = take(width);
    layer.gain2 = take(width);
    layer.shift2 = take(width);
    layer.up = take(width * hidden);
    layer.upBias = take(hidden);
    layer.down = take(hidden * width);
    layer.downBias = take(width);
    layers.push_back(layer);
  }
  finalGain = take(width);
  finalShift = take(width);
  head = take(width * shape.classes);
  headBias = take(shape.classes);
}

std::vector<float> randomEncoderWeights(const EncoderShape &shape, std::uint64_t seed) {
  EncoderLayout layout(shape);
  std::vector<float> weights(layout.total);
  Random random(seed);
  auto fill = [&](std::size_t offset, std::size_t count, double low, double high) {
    random.fill(std::span(weights).subspan(offset, count), low, high);
  };
  std::size_t width = shape.width, hidden = shape.hidden();
  double scale = std::sqrt(3.0 / shape.width), downScale = std::sqrt(3.0 / shape.hidden());
  fill(layout.table, shape.vocabulary * width, -1, 1);
  fill(layout.positions, shape.sequence * width, -1, 1);
  for (const EncoderLayout::Layer &layer : layout.layers) {
    for (std::size_t gain : {layer.gain1, layer.gain2})
      fill(gain, width, 0.5, 1.5);
    for (std::size_t shift : {layer.shift1, layer.shift2, layer.outBias, layer.downBias})
      fill(shift, width, -0.1, 0.1);
    fill(layer.qkv, width * 3 * width, -scale, scale);
    fill(layer.qkvBias, 3 * width, -0.1, 0.1);
    fill(layer.out, width * width, -scale, scale);
    fill(layer.up, width * hidden, -scale, scale);
    fill(layer.upBias, hidden, -0.1, 0.1);
    fill(layer.down, hidden * width, -downScale, downScale);
  }
  fill(layout.finalGain, width, 0.5, 1.5);
  fill(layout.finalShift, width, -0.1, 0.1);
  fill(layout.head, width * shape.classes, -scale, scale);
  fill(layout.headBias, shape.classes, -0.1, 0.1);
  return weights;
}

std::vector<std::int32_t> randomTokens(const EncoderShape &shape, std::uint64_t seed) {
  std::vector<std::int32_t> tokens(shape.rows());
  Random random(seed);
  for (std::int32_t &token : tokens)
    token = random.below(shape.vocabulary);
  return tokens;
}

Encoder::Encoder(const Session &session, const EncoderShape &shape, DevicePtr weights)
    : session(session), shape(shape), layout(shape), weights(weights) {
  std::size_t rows = shape.rows(), width = shape.width;
  static_assert(sizeof(std::int32_t) == sizeof(float));
  tokens = session.allocateFloats(rows);
  x = session.allocateFloats(rows * width);
  normed = session.allocateFloats(rows * width);
  qkv = session.allocateFloats(rows * 3 * width);
  context = session.allocateFloats(rows * width);
  hidden = session.allocateFloats(rows * shape.hidden());
  pooled = session.allocateFloats(shape.batch * width);
  logits = session.allocateFloats(static_cast<std::size_t>(shape.batch) * shape.classes);
}

void Encoder::product(Stream stream, DevicePtr a, std::size_t weight, std::size_t bias,
                      DevicePtr result, int rows, int columns, int inner) {
  session.launch(stream, "gemm_nn", {{blocksFor(columns, 64), blocksFor(rows, 64)}, {256}}, a,
                 floatAt(weights, weight), floatAt(weights, bias), result, rows, columns, inner);
}

void Encoder::norm(Stream stream, std::size_t gain, std::size_t shift) {
  session.launch(stream, "layer_norm", {{static_cast<std::uint32_t>(shape.rows())}, {128}}, x,
                 floatAt(weights, gain), floatAt(weights, shift), normed, shape.width,
                 layerNormEpsilon);
}

void Encoder::addResidual(Stream stream, DevicePtr addend) {
  int count = shape.rows() * shape.width;
  session.launch(stream, "add_residual", {{blocksFor(count, 1024)}, {256}}, x, addend, count);
}

void Encoder::enqueueLayer(Stream stream, const EncoderLayout::Layer &layer) {
  int rows = shape.rows(), width = shape.width;
  norm(stream, layer.gain1, layer.shift1);
  product(stream, normed, layer.qkv, layer.qkvBias, qkv, rows, 3 * width, width);

  std::uint32_t headSize = shape.headSize(), roundedSequence = blocksFor(shape.sequence, 32) * 32;
  std::uint32_t sharedFloats = 16 * headSize + 16 * roundedSequence + 32 * (headSize + 1);
  session.launch(stream, "attention_forward",
                 {{blocksFor(shape.sequence, 16), static_cast<std::uint32_t>(shape.heads),
                   static_cast<std::uint32_t>(shape.batch)},
                  {256},
                  sharedFloats * static_cast<std::uint32_t>(sizeof(float))},
                 qkv, context, shape.sequence, shape.headSize(),
                 1.0f / std::sqrt(static_cast<float>(shape.headSize())));
  product(stream, context, layer.out, layer.outBias, normed, rows, width, width);
  addResidual(stream, normed);

  norm(stream, layer.gain2, layer.shift2);
  product(stream, normed, layer.up, layer.upBias, hidden, rows, shape.hidden(), width);
  int count = rows * shape.hidden();
  session.launch(stream, "gelu", {{blocksFor(count, 256)}, {256}}, hidden, count);
  product(stream, hidden, layer.down, layer.downBias, normed, rows, width, shape.hidden());
  addResidual(stream, normed);
}

void Encoder::enqueue(Stream stream, std::span<const std::int32_t> requestTokens,
                      std::span<float> requestLogits) {
  session.upload(stream, tokens, requestTokens);
  session.launch(stream, "embed",
                 {{blocksFor(shape.width, 128), static_cast<std::uint32_t>(shape.rows())}, {128}},
                 tokens, floatAt(weights, layout.table), floatAt(weights, layout.positions), x,
                 shape.sequence, shape.width);
  for (const EncoderLayout::Layer &layer : layout.layers)
    enqueueLayer(stream, layer);
  norm(stream, layout.finalGain, layout.finalShift);
  session.launch(stream, "mean_pool",
                 {{blocksFor(shape.width, 32), static_cast<std::uint32_t>(shape.batch)}, {32, 8}},
                 normed, pooled, shape.sequence, shape.width);
  product(stream, pooled, layout.head, layout.headBias, logits, shape.batch, shape.classes,
          shape.width);
  session.download(stream, requestLogits, logits);
}

} // namespace inference_server
