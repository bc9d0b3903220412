// Training of GPT-2 small: 12 layers, width 768, 12 heads, sequences of 1,024, tied embeddings,
// Adam; 4 sequences a step. Weights and activations are f16, for the tensor cores; gradients of
// weights, moments and Adam's copy of the weights are f32. There are no float atomics: each run
// gives the same bits.
#include "../../examples/inference_server/kernels/training.cuh"
#include "gpt2_reference.h"
#include "kernels/gpt2.cuh"
#include "layers.cuh"
#include "models.h"

#include <algorithm>

namespace workloads {

namespace {

constexpr float rate = 1e-4f;
constexpr int rowsPerRun = 64; // of a sum over rows

class Gpt2Training : public Training {
public:
  Gpt2Training(const Gpt2Shape &shape, Size size, cudaStream_t stream)
      : shape(shape), layout(shape), memory(stream), products(memory, size) {
    const std::size_t rowCount = shape.rows(), width = shape.width;
    initial = memory.array<float>(layout.total);
    for (const Gpt2Layout::Part &part : layout.parts)
      fill(stream, initial + part.begin, part.count, part.filling);
    weights = memory.array<float>(layout.total);
    rounded = memory.array<__half>(layout.total);
    moments = memory.array<float2>(layout.total);
    gradients = memory.array<float>(layout.total);
    makeTokens();
    auto halves = [&](std::size_t columns) { return memory.array<__half>(rowCount * columns); };
    auto statistics = [&] { return memory.array<float2>(rowCount); };
    for (int i = 0; i < shape.layers; ++i)
      saved.push_back({halves(width), halves(width), halves(3 * width), weightsOfAttention(),
                       halves(width), halves(width), halves(width), halves(4 * width),
                       halves(4 * width), statistics(), statistics()});
    last = halves(width);
    lastNormed = halves(width);
    lastStatistics = statistics();
    logits = halves(shape.columns());
    gradient = halves(width);
    normedGradient = halves(width);
    wideGradient = halves(4 * width);
    scoreGradient = weightsOfAttention();
    partials = memory.array<float>((rowCount + rowsPerRun - 1) / rowsPerRun * 4 * width);
    losses = memory.array<float>(rowCount);
    total = memory.array<float>(1);
  }

  void reset(cudaStream_t stream) override {
    const std::size_t count = layout.total;
    workloads::check(
        cudaMemcpyAsync(weights, initial, count * sizeof(float), cudaMemcpyDeviceToDevice, stream),
        "reset");
    workloads::check(cudaMemsetAsync(moments, 0, count * sizeof(float2), stream), "reset");
    gpt2::roundAll<<<1056, 256, 0, stream>>>(weights, rounded, static_cast<int>(count));
    steps = 0;
  }
  void enqueue(cudaStream_t stream) override {
    forward(stream);
    backward(stream);
    ++steps;
    adam_update<<<blocksFor(layout.total, 256), 256, 0, stream>>>(
        weights, rounded, moments, gradients, 1 / static_cast<float>(shape.rows()), rate,
        static_cast<float>(1 - std::pow(0.9, steps)),
        static_cast<float>(1 - std::pow(0.999, steps)), static_cast<int>(layout.total));
  }
  const float *figure() const override { return total; }
  Checked check(cudaStream_t stream) override;

private:
  using Layer = Gpt2Layout::Layer;
  using Affine = Gpt2Layout::Affine;
  /// The results of the forward pass that the backward pass needs.
  struct Saved {
    __half *x, *normed1, *qkv, *attention, *context, *middle, *normed2, *up, *hidden;
    float2 *statistics1, *statistics2;
  };

  __half *weightsOfAttention() {
    return memory.array<__half>(static_cast<std::size_t>(shape.batch) * shape.heads *
                                shape.sequence * shape.sequence);
  }
  void makeTokens();
  void norm(cudaStream_t stream, const __half *in, std::size_t at, __half *out,
            float2 *statistics) {
    rows::layerNorm<<<blocksFor(shape.rows(), rows::warps), 128, 0, stream>>>(
        in, rounded + at, rounded + at + shape.width, out, statistics, shape.rows(), shape.width,
        normEpsilon);
  }
  void affine(cudaStream_t stream, const __half *in, const Affine &layer, __half *out,
              const __half *residual = nullptr, __half *before = nullptr) {
    Result result;
    result.out = out;
    result.bias = rounded + layer.bias;
    result.residual = residual;
    result.before = before;
    result.activation = before ? Activation::gelu : Activation::none;
    result.stride = layer.outputs;
    products.run(stream, plain(in, shape.rows(), layer.inputs),
                 plain(rounded + layer.weight, layer.outputs, layer.inputs), result, shape.rows(),
                 layer.outputs, layer.inputs);
  }
  void weightGradient(cudaStream_t stream, const __half *out, const __half *in, std::size_t at,
                      int outputs, int inputs) {
    Result result;
    result.sums = gradients + at;
    result.stride = inputs;
    products.run(stream, turned(out, outputs, outputs), turned(in, inputs, inputs), result, outputs,
                 inputs, shape.rows());
  }
  void inputGradient(cudaStream_t stream, const __half *out, std::size_t at, __half *in,
                     int outputs, int inputs) {
    Result result;
    result.out = in;
    result.stride = inputs;
    products.run(stream, plain(out, shape.rows(), outputs), turned(rounded + at, inputs, inputs),
                 result, shape.rows(), inputs, outputs);
  }
  void sumRuns(cudaStream_t stream, std::size_t at, int count) {
    sum_splits<<<blocksFor(count, 32), dim3(32, 8), 0, stream>>>(
        partials, gradients + at, count, static_cast<int>(blocksFor(shape.rows(), rowsPerRun)));
  }
  void affineGradient(cudaStream_t stream, const __half *out, const __half *in, const Affine &layer,
                      __half *inGradient) {
    weightGradient(stream, out, in, layer.weight, layer.outputs, layer.inputs);
    bias_sum<<<dim3(blocksFor(layer.outputs, 32), blocksFor(shape.rows(), rowsPerRun)), dim3(32, 8),
               0, stream>>>(out, partials, shape.rows(), layer.outputs, rowsPerRun);
    sumRuns(stream, layer.bias, layer.outputs);
    inputGradient(stream, out, layer.weight, inGradient, layer.outputs, layer.inputs);
  }
  void normGradient(cudaStream_t stream, const __half *out, const __half *in, std::size_t at,
                    const float2 *statistics, const __half *residual, __half *inGradient) {
    norm_weights<<<dim3(blocksFor(shape.width, 32), blocksFor(shape.rows(), rowsPerRun)),
                   dim3(32, 8), 0, stream>>>(out, in, statistics, partials, shape.rows(),
                                             shape.width, rowsPerRun);
    sumRuns(stream, at, 2 * shape.width);
    norm_backward<<<blocksFor(shape.rows(), 4), 128, 0, stream>>>(
        out, in, rounded + at, statistics, residual, inGradient, shape.rows(), shape.width);
  }
  /// The columns of one head, for each sequence of the batch; rows are `stride` apart.
  template <class Operand> Operand perHead(const __half *from, int stride) const {
    return {from,
            shape.headSize(),
            stride,
            static_cast<long long>(shape.sequence) * stride,
            shape.headSize(),
            shape.heads};
  }
  template <class Operand> Operand perHeadRows(const __half *from, int stride) const {
    Operand operand = perHead<Operand>(from, stride);
    operand.extent = shape.sequence;
    return operand;
  }
  /// A matrix of queries by keys for each head.
  template <class Operand> Operand squares(const __half *from) const {
    long long square = static_cast<long long>(shape.sequence) * shape.sequence;
    return {from, shape.sequence, shape.sequence, shape.heads * square, square, shape.heads};
  }
  Result toHeads(__half *to, int stride) const {
    Result result;
    result.out = to;
    result.stride = stride;
    result.outer = static_cast<long long>(shape.sequence) * stride;
    result.inner = shape.headSize();
    result.perOuter = shape.heads;
    return result;
  }
  Result toSquares(__half *to, float scale) const {
    Result result;
    result.out = to;
    result.scale = scale;
    result.stride = shape.sequence;
    result.inner = static_cast<long long>(shape.sequence) * shape.sequence;
    result.outer = shape.heads * result.inner;
    result.perOuter = shape.heads;
    return result;
  }
  float attentionScale() const { return 1 / std::sqrt(static_cast<float>(shape.headSize())); }
  int heads() const { return shape.batch * shape.heads; }
  void attend(cudaStream_t stream, const Saved &kept);
  void attendBackward(cudaStream_t stream, const Saved &kept, const __half *contextGradient,
                      __half *qkvGradient);
  void forward(cudaStream_t stream);
  void backward(cudaStream_t stream);
  void backwardLayer(cudaStream_t stream, const Layer &layer, const Saved &kept);

  Gpt2Shape shape;
  Gpt2Layout layout;
  Memory memory;
  Products products;
  int steps = 0;
  float *initial, *weights, *gradients, *partials, *losses, *total;
  float2 *moments, *lastStatistics;
  __half *rounded, *last, *lastNormed, *logits, *gradient, *normedGradient, *wideGradient;
  __half *scoreGradient;
  std::vector<Saved> saved;
  std::vector<int> hostTokens, hostLabels;
  int *tokens, *labels, *words, *starts, *order, wordCount = 0;
};

void Gpt2Training::makeTokens() {
  for (int i = 0; i < shape.rows(); ++i) {
    hostTokens.push_back(static_cast<int>(randomBits(91, i) % shape.vocabulary));
    hostLabels.push_back(static_cast<int>(randomBits(92, i) % shape.vocabulary));
  }
  tokens = memory.upload(hostTokens);
  labels = memory.upload(hostLabels);
  // Rows sorted by word, so that one thread adds up the gradient of each word.
  std::vector<int> sorted(shape.rows()), distinct, begins;
  for (int i = 0; i < shape.rows(); ++i)
    sorted[i] = i;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](int a, int b) { return hostTokens[a] < hostTokens[b]; });
  for (int i = 0; i < shape.rows(); ++i)
    if (i == 0 || hostTokens[sorted[i]] != hostTokens[sorted[i - 1]]) {
      distinct.push_back(hostTokens[sorted[i]]);
      begins.push_back(i);
    }
  begins.push_back(shape.rows());
  wordCount = static_cast<int>(distinct.size());
  words = memory.upload(distinct);
  starts = memory.upload(begins);
  order = memory.upload(sorted);
}

void Gpt2Training::attend(cudaStream_t stream, const Saved &kept) {
  int sequence = shape.sequence, stride = 3 * shape.width, rowCount = heads() * sequence;
  products.run(stream, perHeadRows<Plain>(kept.qkv, stride),
               perHeadRows<Plain>(kept.qkv + shape.width, stride),
               toSquares(kept.attention, attentionScale()), sequence, sequence, shape.headSize(),
               heads());
  gpt2::causalSoftmax<<<blocksFor(rowCount, rows::warps), 128, 0, stream>>>(kept.attention,
                                                                            rowCount, sequence);
  products.run(stream, squares<Plain>(kept.attention),
               perHead<Turned>(kept.qkv + 2 * shape.width, stride),
               toHeads(kept.context, shape.width), sequence, shape.headSize(), sequence, heads());
}

void Gpt2Training::attendBackward(cudaStream_t stream, const Saved &kept,
                                  const __half *contextGradient, __half *qkvGradient) {
  int sequence = shape.sequence, width = shape.width, stride = 3 * width, size = shape.headSize();
  int rowCount = heads() * sequence;
  products.run(stream, squares<Turned>(kept.attention), perHead<Turned>(contextGradient, width),
               toHeads(qkvGradient + 2 * width, stride), sequence, size, sequence, heads());
  products.run(stream, perHeadRows<Plain>(contextGradient, width),
               perHeadRows<Plain>(kept.qkv + 2 * width, stride), toSquares(scoreGradient, 1),
               sequence, sequence, size, heads());
  gpt2::softmaxGradient<<<blocksFor(rowCount, rows::warps), 128, 0, stream>>>(
      scoreGradient, kept.attention, rowCount, sequence, attentionScale());
  products.run(stream, squares<Plain>(scoreGradient), perHead<Turned>(kept.qkv + width, stride),
               toHeads(qkvGradient, stride), sequence, size, sequence, heads());
  products.run(stream, squares<Turned>(scoreGradient), perHead<Turned>(kept.qkv, stride),
               toHeads(qkvGradient + width, stride), sequence, size, sequence, heads());
}

void Gpt2Training::forward(cudaStream_t stream) {
  int rowCount = shape.rows(), width = shape.width;
  rows::embed<<<dim3(blocksFor(width, 256), rowCount), 128, 0, stream>>>(
      tokens, rounded + layout.words, rounded + layout.positions, saved[0].x, shape.sequence,
      width);
  for (int i = 0; i < shape.layers; ++i) {
    const Layer &layer = layout.layers[i];
    const Saved &kept = saved[i];
    norm(stream, kept.x, layer.norm1, kept.normed1, kept.statistics1);
    affine(stream, kept.normed1, layer.qkv, kept.qkv);
    attend(stream, kept);
    affine(stream, kept.context, layer.out, kept.middle, kept.x);
    norm(stream, kept.middle, layer.norm2, kept.normed2, kept.statistics2);
    affine(stream, kept.normed2, layer.up, kept.hidden, nullptr, kept.up);
    affine(stream, kept.hidden, layer.down, i + 1 < shape.layers ? saved[i + 1].x : last,
           kept.middle);
  }
  norm(stream, last, layout.finalNorm, lastNormed, lastStatistics);
  Result result;
  result.out = logits;
  result.stride = shape.columns();
  products.run(stream, plain(lastNormed, rowCount, width),
               plain(rounded + layout.words, shape.columns(), width), result, rowCount,
               shape.columns(), width);
  gpt2::crossEntropy<<<rowCount, gpt2::lossThreads, 0, stream>>>(logits, labels, losses,
                                                                 shape.vocabulary, shape.columns());
  gpt2::sumAll<<<1, gpt2::lossThreads, 0, stream>>>(losses, total, rowCount);
}

/// Replaces the gradient of the layer's output in `gradient` by that of its input.
void Gpt2Training::backwardLayer(cudaStream_t stream, const Layer &layer, const Saved &kept) {
  affineGradient(stream, gradient, kept.hidden, layer.down, wideGradient);
  int pairs = shape.rows() * 2 * shape.width;
  gelu_backward<<<blocksFor(pairs, 256), 256, 0, stream>>>(
      reinterpret_cast<__half2 *>(wideGradient), reinterpret_cast<const __half2 *>(kept.up), pairs);
  affineGradient(stream, wideGradient, kept.normed2, layer.up, normedGradient);
  normGradient(stream, normedGradient, kept.middle, layer.norm2, kept.statistics2, gradient,
               gradient);
  affineGradient(stream, gradient, kept.context, layer.out, normedGradient);
  attendBackward(stream, kept, normedGradient, wideGradient);
  affineGradient(stream, wideGradient, kept.normed1, layer.qkv, normedGradient);
  normGradient(stream, normedGradient, kept.x, layer.norm1, kept.statistics1, gradient, gradient);
}

void Gpt2Training::backward(cudaStream_t stream) {
  int width = shape.width;
  weightGradient(stream, logits, lastNormed, layout.words, shape.columns(), width);
  inputGradient(stream, logits, layout.words, normedGradient, shape.columns(), width);
  normGradient(stream, normedGradient, last, layout.finalNorm, lastStatistics, nullptr, gradient);
  for (int i = shape.layers; i-- > 0;)
    backwardLayer(stream, layout.layers[i], saved[i]);
  gpt2::embeddingGradient<<<dim3(blocksFor(width, 128), wordCount), 128, 0, stream>>>(
      gradient, words, starts, order, gradients + layout.words, width);
  gpt2::positionGradient<<<dim3(blocksFor(width, 128), shape.sequence), 128, 0, stream>>>(
      gradient, gradients + layout.positions, shape.batch, shape.sequence, width);
}

Checked Gpt2Training::check(cudaStream_t stream) {
  reset(stream);
  finish(stream);
  std::vector<float> before = download(weights, layout.total);
  std::vector<float> halves = downloadFloats(rounded, layout.total);
  enqueue(stream);
  finish(stream);
  std::vector<float> gradient = download(gradients, layout.total);
  std::vector<float> after = download(weights, layout.total);
  auto loss = [this](const reference::Values &parameters) {
    return gpt2Loss(shape, layout, parameters, hostTokens, hostLabels);
  };
  reference::Values parameters(halves.begin(), halves.end());
  double expected = loss(parameters);
  Checked checked(0.01);
  checked.add(std::fabs(download(total, 1)[0] - expected) / expected);
  checked.add(reference::gradientError(loss, parameters, layout.tensors(),
                                       {gradient.begin(), gradient.end()}));
  // The first step of Adam has the length of the rate, whatever the gradient.
  for (std::size_t i = 0; i < layout.total; ++i) {
    double g = gradient[i] / static_cast<double>(shape.rows());
    double moved = before[i] - rate * g / (std::fabs(g) + 1e-8);
    checked.add(std::fabs(after[i] - moved) / rate);
  }
  return checked;
}

} // namespace

std::unique_ptr<Training> makeGpt2Training(Size size, cudaStream_t stream) {
  Gpt2Shape shape;
  if (size == Size::small)
    shape = {2, 64, 2, 24, 2, 100};
  return std::make_unique<Gpt2Training>(shape, size, stream);
}

} // namespace workloads
