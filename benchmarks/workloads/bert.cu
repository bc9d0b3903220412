// BERT-base: 12 layers, width 768, 12 heads, 128 tokens, post-norm, GELU. The answer is the pooled
// first position.
#include "kernels/short_attention.cuh"
#include "layers.cuh"
#include "models.h"

namespace workloads {

namespace {

struct BertShape {
  int layers = 12, width = 768, heads = 12, tokens = 128, vocabulary = 30522;
  int headSize() const { return width / heads; }
};

class Bert : public Inference {
public:
  Bert(const BertShape &shape, Size size, cudaStream_t stream)
      : shape(shape), memory(stream), products(memory, size),
        words(memory, std::size_t(shape.vocabulary) * shape.width, {1, 1}),
        places(memory, std::size_t(shape.tokens) * shape.width, {2, 0.5f}) {
    std::uint32_t seed = 3;
    embeddingNorm = LayerNorm(memory, shape.width, seed);
    for (int i = 0; i < shape.layers; ++i) {
      Layer layer;
      layer.qkv = Linear(memory, shape.width, 3 * shape.width, seed);
      layer.out = Linear(memory, shape.width, shape.width, seed);
      layer.norm1 = LayerNorm(memory, shape.width, seed);
      layer.up = Linear(memory, shape.width, 4 * shape.width, seed);
      layer.down = Linear(memory, 4 * shape.width, shape.width, seed);
      layer.norm2 = LayerNorm(memory, shape.width, seed);
      layers.push_back(layer);
    }
    pool = Linear(memory, shape.width, shape.width, seed);
    for (int i = 0; i < shape.tokens; ++i)
      hostTokens.push_back(static_cast<int>(randomBits(seed, i) % shape.vocabulary));
    tokens = memory.upload(hostTokens);
    auto rowsOf = [&](int columns) {
      return memory.array<__half>(std::size_t(shape.tokens) * columns);
    };
    embedded = rowsOf(shape.width);
    x = rowsOf(shape.width);
    qkv = rowsOf(3 * shape.width);
    context = rowsOf(shape.width);
    sums = rowsOf(shape.width);
    hidden = rowsOf(4 * shape.width);
    pooled = memory.array<__half>(shape.width);
    result = memory.array<float>(shape.width);
  }

  void enqueue(cudaStream_t stream) override {
    int count = shape.tokens;
    rows::embed<<<dim3(blocksFor(shape.width, 256), count), 128, 0, stream>>>(
        tokens, words.data, places.data, embedded, count, shape.width);
    embeddingNorm.run(stream, embedded, x, count);
    for (const Layer &layer : layers) {
      layer.qkv.run(stream, products, x, qkv, count);
      short_attention::
          shortAttention<<<dim3(blocksFor(count, short_attention::queries), shape.heads),
                           short_attention::threads, 0, stream>>>(
              qkv, context, count, shape.headSize(), 1 / std::sqrt(float(shape.headSize())));
      layer.out.run(stream, products, context, sums, count, Activation::none, x);
      layer.norm1.run(stream, sums, x, count);
      layer.up.run(stream, products, x, hidden, count, Activation::gelu);
      layer.down.run(stream, products, hidden, sums, count, Activation::none, x);
      layer.norm2.run(stream, sums, x, count);
    }
    pool.run(stream, products, x, pooled, 1, Activation::tanh);
    rows::widen<<<blocksFor(shape.width, 256), 256, 0, stream>>>(pooled, result, shape.width);
  }
  const float *answer() const override { return result; }
  std::size_t answerCount() const override { return shape.width; }

  Checked check(const std::vector<float> &answer) const override {
    Checked checked(0.02);
    checked.add(reference::relativeError({answer.begin(), answer.end()}, onHost()));
    return checked;
  }

private:
  struct Layer {
    Linear qkv, out, up, down;
    LayerNorm norm1, norm2;
  };

  reference::Values onHost() const {
    using namespace reference;
    Values wordValues = words.host(), current = places.host();
    for (int i = 0; i < shape.tokens; ++i)
      for (int column = 0; column < shape.width; ++column)
        current[i * shape.width + column] += wordValues[hostTokens[i] * shape.width + column];
    current = embeddingNorm.onHost(rounded(current));
    for (const Layer &layer : layers) {
      Values attended = rounded(
          attention(rounded(layer.qkv.onHost(current)), shape.heads, shape.headSize(), false));
      current = layer.norm1.onHost(rounded(sum(layer.out.onHost(attended), current)));
      Values wide = rounded(mapped(layer.up.onHost(current), gelu));
      current = layer.norm2.onHost(rounded(sum(layer.down.onHost(wide), current)));
    }
    current.resize(shape.width);
    return mapped(pool.onHost(current), [](double value) { return std::tanh(value); });
  }

  BertShape shape;
  Memory memory;
  Products products;
  Halves words, places;
  LayerNorm embeddingNorm;
  std::vector<Layer> layers;
  Linear pool;
  std::vector<int> hostTokens;
  int *tokens = nullptr;
  __half *embedded = nullptr, *x = nullptr, *qkv = nullptr, *context = nullptr, *sums = nullptr;
  __half *hidden = nullptr, *pooled = nullptr;
  float *result = nullptr;
};

} // namespace

std::unique_ptr<Inference> makeBert(Size size, cudaStream_t stream) {
  BertShape shape;
  if (size == Size::small)
    shape = {2, 64, 2, 24, 100};
  return std::make_unique<Bert>(shape, size, stream);
}

} // namespace workloads
