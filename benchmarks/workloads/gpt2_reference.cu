#include "gpt2_reference.h"

#include <algorithm>

namespace workloads {

std::size_t Gpt2Layout::take(std::size_t count, float scale, float offset) {
  std::size_t begin = total;
  parts.push_back({begin, count, {static_cast<std::uint32_t>(200 + parts.size()), scale, offset}});
  total += count;
  return begin;
}

std::size_t Gpt2Layout::takeNorm(int width) {
  std::size_t gain = take(width, 0.25f, 1.0f);
  take(width, 0.25f);
  return gain;
}

Gpt2Layout::Affine Gpt2Layout::takeAffine(int inputs, int outputs) {
  Affine affine{0, 0, inputs, outputs};
  affine.weight =
      take(static_cast<std::size_t>(inputs) * outputs, powerBelow(std::sqrt(3.0 / inputs)));
  affine.bias = take(outputs, 0.125f);
  return affine;
}

Gpt2Layout::Gpt2Layout(const Gpt2Shape &shape) {
  int width = shape.width;
  words =
      take(static_cast<std::size_t>(shape.columns()) * width, powerBelow(std::sqrt(3.0 / width)));
  positions = take(static_cast<std::size_t>(shape.sequence) * width, 0.0625f);
  for (int i = 0; i < shape.layers; ++i) {
    Layer layer;
    layer.norm1 = takeNorm(width);
    layer.qkv = takeAffine(width, 3 * width);
    layer.out = takeAffine(width, width);
    layer.norm2 = takeNorm(width);
    layer.up = takeAffine(width, 4 * width);
    layer.down = takeAffine(4 * width, width);
    layers.push_back(layer);
  }
  finalNorm = takeNorm(width);
}

std::vector<std::size_t> Gpt2Layout::tensors() const {
  std::vector<std::size_t> begins;
  for (const Part &part : parts)
    begins.push_back(part.begin);
  begins.push_back(total);
  return begins;
}

double gpt2Loss(const Gpt2Shape &shape, const Gpt2Layout &layout,
                const reference::Values &parameters, const std::vector<int> &tokens,
                const std::vector<int> &labels) {
  using reference::Values;
  int width = shape.width;
  auto part = [&](std::size_t begin, std::size_t count) {
    return Values(parameters.begin() + static_cast<std::ptrdiff_t>(begin),
                  parameters.begin() + static_cast<std::ptrdiff_t>(begin + count));
  };
  auto norm = [&](const Values &in, std::size_t at) {
    return reference::layerNorm(in, part(at, width), part(at + width, width), width, 1e-5f);
  };
  auto affine = [&](const Values &in, const Gpt2Layout::Affine &layer) {
    return reference::linear(in, part(layer.weight, std::size_t(layer.inputs) * layer.outputs),
                             part(layer.bias, layer.outputs), layer.inputs, layer.outputs);
  };
  double loss = 0;
  for (int b = 0; b < shape.batch; ++b) {
    Values x(static_cast<std::size_t>(shape.sequence) * width);
    for (int i = 0; i < shape.sequence; ++i)
      for (int column = 0; column < width; ++column)
        x[i * width + column] =
            parameters[layout.words + tokens[b * shape.sequence + i] * width + column] +
            parameters[layout.positions + i * width + column];
    for (const Gpt2Layout::Layer &layer : layout.layers) {
      Values context = reference::attention(affine(norm(x, layer.norm1), layer.qkv), shape.heads,
                                            shape.headSize(), true);
      x = reference::sum(x, affine(context, layer.out));
      Values hidden = reference::mapped(affine(norm(x, layer.norm2), layer.up), reference::gelu);
      x = reference::sum(x, affine(hidden, layer.down));
    }
    Values logits = reference::linear(norm(x, layout.finalNorm),
                                      part(layout.words, std::size_t(shape.vocabulary) * width), {},
                                      width, shape.vocabulary);
    for (int i = 0; i < shape.sequence; ++i) {
      auto line = logits.begin() + static_cast<std::ptrdiff_t>(i) * shape.vocabulary;
      double most = *std::max_element(line, line + shape.vocabulary), sum = 0;
      for (int c = 0; c < shape.vocabulary; ++c)
        sum += std::exp(line[c] - most);
      loss += std::log(sum) + most - line[labels[b * shape.sequence + i]];
    }
  }
  return loss;
}

} // namespace workloads
