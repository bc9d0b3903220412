// Token generation by GPT-2 small: 12 layers, width 768, 12 heads, batch 1. A request is 4 tokens
// behind a context of 128, whose keys and values are in the cache: about 350 tiny kernels.
#include "gpt2_reference.h"
#include "kernels/decode.cuh"
#include "layers.cuh"
#include "models.h"

namespace workloads {

namespace {

struct GenerationShape {
  Gpt2Shape model;
  int context = 128, tokens = 4;
  int capacity() const { return context + tokens; }
};

class Gpt2 : public Inference {
public:
  Gpt2(const GenerationShape &generation, cudaStream_t stream)
      : generation(generation), shape(generation.model), layout(shape), memory(stream) {
    parameters = memory.array<__half>(layout.total);
    for (const Gpt2Layout::Part &part : layout.parts)
      fill(stream, parameters + part.begin, part.count, part.filling);
    for (int i = 0; i < shape.layers; ++i)
      caches.push_back(memory.halves(cacheCount(), cacheFilling(i)));
    firstToken = memory.upload(std::vector<int>{7});
    token = memory.array<int>(1);
    x = memory.array<__half>(shape.width);
    normed = memory.array<__half>(shape.width);
    qkv = memory.array<__half>(3 * shape.width);
    context = memory.array<__half>(shape.width);
    hidden = memory.array<__half>(4 * shape.width);
    logits = memory.array<float>(shape.vocabulary);
    result = memory.array<float>(answerCount());
  }

  void enqueue(cudaStream_t stream) override {
    workloads::check(
        cudaMemcpyAsync(token, firstToken, sizeof(int), cudaMemcpyDeviceToDevice, stream),
        "the first token");
    for (int i = 0; i < generation.tokens; ++i)
      generate(stream, generation.context + i, i);
    workloads::check(cudaMemcpyAsync(result + generation.tokens, logits,
                                     shownLogits() * sizeof(float), cudaMemcpyDeviceToDevice,
                                     stream),
                     "the last logits");
  }
  const float *answer() const override { return result; }
  /// The tokens, then some of the last token's logits.
  std::size_t answerCount() const override { return generation.tokens + shownLogits(); }
  Checked check(const std::vector<float> &answer) const override;

private:
  std::size_t shownLogits() const { return std::min(shape.vocabulary, 1024); }
  std::size_t cacheCount() const { return std::size_t(2) * generation.capacity() * shape.width; }
  static Filling cacheFilling(int layer) { return {static_cast<std::uint32_t>(500 + layer), 1}; }

  void apply(cudaStream_t stream, const __half *in, const Gpt2Layout::Affine &layer, __half *out,
             const __half *residual = nullptr, Activation activation = Activation::none) {
    decode::
        matrixVector<<<blocksFor(layer.outputs, decode::warps), decode::warps * 32, 0, stream>>>(
            parameters + layer.weight, in, parameters + layer.bias, residual, out, nullptr,
            layer.inputs, layer.outputs, activation);
  }
  void norm(cudaStream_t stream, std::size_t at) {
    rows::layerNorm<<<1, 128, 0, stream>>>(x, parameters + at, parameters + at + shape.width,
                                           normed, nullptr, 1, shape.width, normEpsilon);
  }
  void generate(cudaStream_t stream, int position, int index) {
    int width = shape.width;
    decode::embedToken<<<blocksFor(width, 256), 256, 0, stream>>>(
        token, parameters + layout.words, parameters + layout.positions, x, position, width);
    for (int i = 0; i < shape.layers; ++i) {
      const Gpt2Layout::Layer &layer = layout.layers[i];
      norm(stream, layer.norm1);
      apply(stream, normed, layer.qkv, qkv);
      decode::attendCached<<<shape.heads, decode::attentionThreads, 0, stream>>>(
          qkv, caches[i], context, position, generation.capacity(), shape.headSize(),
          1 / std::sqrt(static_cast<float>(shape.headSize())));
      apply(stream, context, layer.out, x, x);
      norm(stream, layer.norm2);
      apply(stream, normed, layer.up, hidden, nullptr, Activation::gelu);
      apply(stream, hidden, layer.down, x, x);
    }
    norm(stream, layout.finalNorm);
    decode::
        matrixVector<<<blocksFor(shape.vocabulary, decode::warps), decode::warps * 32, 0, stream>>>(
            parameters + layout.words, normed, nullptr, nullptr, nullptr, logits, width,
            shape.vocabulary, Activation::none);
    decode::chooseToken<<<1, decode::choosingThreads, 0, stream>>>(logits, token, result + index,
                                                                   shape.vocabulary);
  }

  GenerationShape generation;
  Gpt2Shape shape;
  Gpt2Layout layout;
  Memory memory;
  __half *parameters, *x, *normed, *qkv, *context, *hidden;
  std::vector<__half *> caches;
  int *firstToken, *token;
  float *logits, *result;
};

/// Generation on the CPU, token after token; gives the logits of each token.
class HostGeneration {
public:
  HostGeneration(const GenerationShape &generation, const Gpt2Layout &layout)
      : generation(generation), shape(generation.model), layout(layout) {
    for (const Gpt2Layout::Part &part : layout.parts) {
      reference::Values values = hostHalves(part.count, part.filling);
      parameters.insert(parameters.end(), values.begin(), values.end());
    }
  }
  void addCache(reference::Values cache) { caches.push_back(std::move(cache)); }

  reference::Values logits(int token, int position) {
    using namespace reference;
    int width = shape.width;
    Values x(width);
    for (int i = 0; i < width; ++i)
      x[i] = rounded(parameters[layout.words + std::size_t(token) * width + i] +
                     parameters[layout.positions + std::size_t(position) * width + i]);
    for (int i = 0; i < shape.layers; ++i) {
      const Gpt2Layout::Layer &layer = layout.layers[i];
      Values attended = attend(affine(norm(x, layer.norm1), layer.qkv), caches[i], position);
      x = rounded(sum(x, affine(attended, layer.out, false)));
      Values hidden = rounded(mapped(affine(norm(x, layer.norm2), layer.up, false), gelu));
      x = rounded(sum(x, affine(hidden, layer.down, false)));
    }
    return linear(norm(x, layout.finalNorm),
                  part(layout.words, std::size_t(shape.vocabulary) * width), {}, width,
                  shape.vocabulary);
  }

private:
  reference::Values part(std::size_t begin, std::size_t count) const {
    return {parameters.begin() + static_cast<std::ptrdiff_t>(begin),
            parameters.begin() + static_cast<std::ptrdiff_t>(begin + count)};
  }
  reference::Values norm(const reference::Values &in, std::size_t at) const {
    return reference::rounded(reference::layerNorm(
        in, part(at, shape.width), part(at + shape.width, shape.width), shape.width, normEpsilon));
  }
  reference::Values affine(const reference::Values &in, const Gpt2Layout::Affine &layer,
                           bool rounded = true) const {
    reference::Values out =
        reference::linear(in, part(layer.weight, std::size_t(layer.inputs) * layer.outputs),
                          part(layer.bias, layer.outputs), layer.inputs, layer.outputs);
    return rounded ? reference::rounded(out) : out;
  }
  /// Attention of the last position to all positions before it; stores the new keys and values in
  /// the cache.
  reference::Values attend(const reference::Values &qkv, reference::Values &cache, int position) {
    int width = shape.width;
    std::size_t half = std::size_t(generation.capacity()) * width;
    reference::Values all;
    for (int p = 0; p <= position; ++p)
      for (int part = 0; part < 3; ++part)
        for (int i = 0; i < width; ++i) {
          double &kept = cache[(part == 2 ? half : 0) + std::size_t(p) * width + i];
          if (p == position && part > 0)
            kept = qkv[part * width + i];
          all.push_back(part == 0 ? qkv[i] : kept);
        }
    reference::Values context = reference::attention(all, shape.heads, shape.headSize(), true);
    return reference::rounded(reference::Values(context.end() - width, context.end()));
  }

  GenerationShape generation;
  Gpt2Shape shape;
  const Gpt2Layout &layout;
  reference::Values parameters;
  std::vector<reference::Values> caches;
};

Checked Gpt2::check(const std::vector<float> &answer) const {
  HostGeneration host(generation, layout);
  for (int i = 0; i < shape.layers; ++i)
    host.addCache(hostHalves(cacheCount(), cacheFilling(i)));
  int given = 7;
  Checked checked(0.02);
  reference::Values expected;
  for (int i = 0; i < generation.tokens; ++i) {
    expected = host.logits(given, generation.context + i);
    given = static_cast<int>(answer[i]);
    if (given < 0 || given >= shape.vocabulary)
      return checked.add(1), checked;
    // The chosen token has the largest logit, or a logit equal to it except for rounding.
    double most = *std::max_element(expected.begin(), expected.end());
    checked.add(most - expected[given]);
  }
  expected.resize(shownLogits());
  reference::Values last(answer.begin() + generation.tokens, answer.end());
  checked.add(reference::relativeError(last, expected));
  return checked;
}

} // namespace

std::unique_ptr<Inference> makeGpt2(Size size, cudaStream_t stream) {
  GenerationShape generation;
  if (size == Size::small)
    generation = {{2, 64, 2, 32, 1, 100}, 20, 3};
  return std::make_unique<Gpt2>(generation, stream);
}

} // namespace workloads
