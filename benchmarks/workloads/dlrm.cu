// Training of a recommendation model in the shape of DLRM: 26 tables of 262,144 rows of 64 floats,
// 16 lookups in each by each of 4,096 samples, pairwise interactions, two small perceptrons, SGD.
// The tables' bandwidth bounds it.
#include "kernels/batch_norm.cuh"
#include "kernels/dlrm.cuh"
#include "kernels/gpt2.cuh"
#include "layers.cuh"
#include "models.h"

#include <algorithm>

namespace workloads {

namespace {

using reference::Values;

constexpr float rate = 0.125f;

struct DlrmShape {
  dlrm::Tables tables{26, 18, 64, 16};
  int samples = 4096, dense = 16;
  std::vector<int> bottom{512, 256, 64}; // the last width is the tables' width
  std::vector<int> top{512, 256, 8};     // only the first output of the last layer counts
  int features() const { return tables.count + 1; }
  int pairs() const { return features() * (features() - 1) / 2; }
  int columns() const { return (tables.width + pairs() + 7) / 8 * 8; }
};

class Dlrm : public Training {
public:
  Dlrm(const DlrmShape &shape, Size size, cudaStream_t stream)
      : shape(shape), memory(stream), products(memory, size) {
    addLayers(shape.dense, shape.bottom);
    addLayers(shape.columns(), shape.top);
    tensors.push_back(total);
    initial = memory.floats(tensors, fillings);
    weights = memory.array<float>(total);
    momentum = memory.array<float>(total);
    gradients = memory.array<float>(total);
    rounded = memory.array<__half>(total);
    tables = memory.array<float>(tableCount());
    inputs = memory.halves(std::size_t(shape.samples) * shape.dense, inputFilling);
    for (int i = 0; i < shape.samples; ++i)
      hostLabels.push_back(static_cast<float>(randomBits(602, i) % 2));
    labels = memory.upload(hostLabels);
    auto halves = [&](std::size_t columns) {
      return memory.array<__half>(shape.samples * columns);
    };
    features = halves(std::size_t(shape.features()) * shape.tables.width);
    featureGradient = halves(std::size_t(shape.features()) * shape.tables.width);
    interactions = halves(shape.columns());
    std::size_t widest = std::max(shape.columns(), shape.dense);
    for (const Layer &layer : layers)
      widest = std::max<std::size_t>(widest, layer.outputs);
    for (Layer &layer : layers)
      layer.out = halves(layer.outputs);
    for (__half *&each : buffers)
      each = halves(widest);
    partials = memory.array<float>(std::size_t(runs()) * 2 * widest);
    losses = memory.array<float>(shape.samples);
    lossSum = memory.array<float>(1);
    step = memory.array<unsigned>(1);
  }

  void reset(cudaStream_t stream) override {
    workloads::check(
        cudaMemcpyAsync(weights, initial, total * sizeof(float), cudaMemcpyDeviceToDevice, stream),
        "reset");
    workloads::check(cudaMemsetAsync(momentum, 0, total * sizeof(float), stream), "reset");
    workloads::check(cudaMemsetAsync(step, 0, sizeof(unsigned), stream), "reset");
    gpt2::roundAll<<<1056, 256, 0, stream>>>(weights, rounded, static_cast<int>(total));
    fill(stream, tables, tableCount(), tableFilling);
  }
  void enqueue(cudaStream_t stream) override {
    forward(stream);
    backward(stream);
    float scale = 1 / static_cast<float>(shape.samples);
    batch_norm::momentumUpdate<<<blocksFor(total, 256), 256, 0, stream>>>(
        weights, rounded, momentum, gradients, scale, rate, static_cast<int>(total));
    dlrm::updateTables<<<bagBlocks(), dlrm::warps * 32, 0, stream>>>(
        tables, featureGradient, shape.tables, shape.samples, rate * scale, step);
    dlrm::countStep<<<1, 1, 0, stream>>>(step);
  }
  const float *figure() const override { return lossSum; }
  Checked check(cudaStream_t stream) override;

private:
  static constexpr Filling inputFilling{600, 1}, tableFilling{601, 0.25f};
  struct Layer {
    std::size_t weight, bias;
    int inputs, outputs;
    bool activates;
    __half *out;
  };

  std::size_t tableCount() const {
    return std::size_t(shape.tables.count) * shape.tables.rows() * shape.tables.width;
  }
  unsigned bagBlocks() const {
    return blocksFor(static_cast<long long>(shape.samples) * shape.tables.count, dlrm::warps);
  }
  int runs() const { return static_cast<int>(blocksFor(shape.samples, batch_norm::rowsPerRun)); }
  std::size_t take(std::size_t count, float scale) {
    fillings.push_back({static_cast<std::uint32_t>(610 + fillings.size()), scale, 0});
    tensors.push_back(total);
    total += count;
    return tensors.back();
  }
  void addLayers(int inputs, const std::vector<int> &widths) {
    for (int outputs : widths) {
      std::size_t weight = take(std::size_t(inputs) * outputs, powerBelow(std::sqrt(6.0 / inputs)));
      layers.push_back({weight, take(outputs, 0.125f), inputs, outputs, outputs != 8, nullptr});
      inputs = outputs;
    }
  }
  std::size_t bottomLayers() const { return shape.bottom.size(); }

  void run(cudaStream_t stream, const Layer &layer, const __half *in) {
    Result result;
    result.out = layer.out;
    result.bias = rounded + layer.bias;
    result.stride = layer.outputs;
    result.activation = layer.activates ? Activation::relu : Activation::none;
    products.run(stream, plain(in, shape.samples, layer.inputs),
                 plain(rounded + layer.weight, layer.outputs, layer.inputs), result, shape.samples,
                 layer.outputs, layer.inputs);
  }
  /// `arriving`: gradient of the layer's result. Computes the gradient of its input to `to`, if
  /// `to` is not null.
  void runBackward(cudaStream_t stream, const Layer &layer, const __half *in, __half *arriving,
                   __half *to) {
    int pieces = shape.samples * (layer.outputs / 8);
    if (layer.activates)
      batch_norm::maskGradient<<<blocksFor(pieces, 256), 256, 0, stream>>>(arriving, layer.out,
                                                                           pieces);
    batch_norm::sumValues<<<dim3(blocksFor(layer.outputs, 64), runs()), batch_norm::runThreads, 0,
                            stream>>>(arriving, partials, shape.samples, layer.outputs);
    batch_norm::addRuns<<<blocksFor(layer.outputs, 256), 256, 0, stream>>>(
        partials, gradients + layer.bias, runs(), 2 * layer.outputs, layer.outputs);
    Result weight;
    weight.sums = gradients + layer.weight;
    weight.stride = layer.inputs;
    products.run(stream, turned(arriving, layer.outputs, layer.outputs),
                 turned(in, layer.inputs, layer.inputs), weight, layer.outputs, layer.inputs,
                 shape.samples);
    if (!to)
      return;
    Result result;
    result.out = to;
    result.stride = layer.inputs;
    products.run(stream, plain(arriving, shape.samples, layer.outputs),
                 turned(rounded + layer.weight, layer.inputs, layer.inputs), result, shape.samples,
                 layer.inputs, layer.outputs);
  }
  void forward(cudaStream_t stream);
  void backward(cudaStream_t stream);
  double lossOnHost(const Values &parameters, const std::vector<Values> &outs) const;

  DlrmShape shape;
  Memory memory;
  Products products;
  std::vector<Layer> layers; // the bottom's, then the top's
  std::vector<std::size_t> tensors;
  std::vector<Filling> fillings;
  std::size_t total = 0;
  std::vector<float> hostLabels;
  float *initial, *weights, *momentum, *gradients, *tables, *labels, *partials, *losses, *lossSum;
  __half *rounded, *inputs, *features, *featureGradient, *interactions, *buffers[2];
  unsigned *step;
};

void Dlrm::forward(cudaStream_t stream) {
  const __half *x = inputs;
  for (std::size_t i = 0; i < bottomLayers(); ++i) {
    run(stream, layers[i], x);
    x = layers[i].out;
  }
  int width = shape.tables.width, count = shape.features();
  dlrm::moveFirstFeature<<<blocksFor(shape.samples * width, 256), 256, 0, stream>>>(
      features, layers[bottomLayers() - 1].out, shape.samples, count, width, true);
  dlrm::sumBags<<<bagBlocks(), dlrm::warps * 32, 0, stream>>>(tables, features, shape.tables,
                                                              shape.samples, step);
  dlrm::interact<<<shape.samples, dlrm::interactionThreads, 0, stream>>>(
      features, interactions, count, width, shape.columns());
  x = interactions;
  for (std::size_t i = bottomLayers(); i < layers.size(); ++i) {
    run(stream, layers[i], x);
    x = layers[i].out;
  }
  dlrm::binaryCrossEntropy<<<blocksFor(shape.samples, 256), 256, 0, stream>>>(
      layers.back().out, labels, losses, shape.samples, layers.back().outputs);
  gpt2::sumAll<<<1, gpt2::lossThreads, 0, stream>>>(losses, lossSum, shape.samples);
}

void Dlrm::backward(cudaStream_t stream) {
  __half *arriving = layers.back().out, *to = buffers[0], *next = buffers[1];
  for (std::size_t i = layers.size(); i-- > bottomLayers();) {
    runBackward(stream, layers[i], i == bottomLayers() ? interactions : layers[i - 1].out, arriving,
                to);
    arriving = to;
    std::swap(to, next);
  }
  int width = shape.tables.width, count = shape.features();
  dlrm::interactGradient<<<shape.samples, dlrm::interactionThreads, 0, stream>>>(
      arriving, features, featureGradient, count, width, shape.columns());
  arriving = to;
  std::swap(to, next);
  dlrm::moveFirstFeature<<<blocksFor(shape.samples * width, 256), 256, 0, stream>>>(
      featureGradient, arriving, shape.samples, count, width, false);
  for (std::size_t i = bottomLayers(); i-- > 0;) {
    runBackward(stream, layers[i], i == 0 ? inputs : layers[i - 1].out, arriving,
                i == 0 ? nullptr : to);
    arriving = to;
    std::swap(to, next);
  }
}

/// The sum of the samples' losses. `outs`: each layer's results in the model's own pass; their
/// signs show the values that ReLU lets through.
double Dlrm::lossOnHost(const Values &parameters, const std::vector<Values> &outs) const {
  auto apply = [&](std::size_t i, const Values &in) {
    const Layer &layer = layers[i];
    auto part = [&](std::size_t begin, std::size_t count) {
      auto at = parameters.begin() + static_cast<std::ptrdiff_t>(begin);
      return Values(at, at + static_cast<std::ptrdiff_t>(count));
    };
    Values out =
        reference::linear(in, part(layer.weight, std::size_t(layer.inputs) * layer.outputs),
                          part(layer.bias, layer.outputs), layer.inputs, layer.outputs);
    for (std::size_t j = 0; layer.activates && j < out.size(); ++j)
      out[j] = outs[i][j] > 0 ? out[j] : 0;
    return out;
  };
  Values x = hostHalves(std::size_t(shape.samples) * shape.dense, inputFilling);
  for (std::size_t i = 0; i < bottomLayers(); ++i)
    x = apply(i, x);
  int width = shape.tables.width, count = shape.features();
  Values joined;
  for (int sample = 0; sample < shape.samples; ++sample) {
    std::vector<Values> vectors = {
        Values(x.begin() + sample * width, x.begin() + (sample + 1) * width)};
    for (int table = 0; table < shape.tables.count; ++table) {
      Values bag(width);
      for (int i = 0; i < shape.tables.lookups; ++i)
        for (int d = 0; d < width; ++d)
          bag[d] +=
              parameters[total + shape.tables.offset(table, sample * shape.tables.lookups + i, 0) +
                         d];
      vectors.push_back(bag);
    }
    joined.insert(joined.end(), vectors[0].begin(), vectors[0].end());
    for (int i = 0; i < count; ++i)
      for (int j = 0; j < i; ++j) {
        double product = 0;
        for (int d = 0; d < width; ++d)
          product += vectors[i][d] * vectors[j][d];
        joined.push_back(product);
      }
    joined.resize(std::size_t(sample + 1) * shape.columns());
  }
  for (std::size_t i = bottomLayers(); i < layers.size(); ++i)
    joined = apply(i, joined);
  double loss = 0;
  for (int sample = 0; sample < shape.samples; ++sample) {
    double logit = joined[std::size_t(sample) * layers.back().outputs];
    loss += std::log1p(std::exp(logit)) - logit * hostLabels[sample];
  }
  return loss;
}

Checked Dlrm::check(cudaStream_t stream) {
  reset(stream);
  finish(stream);
  std::vector<float> halves = downloadFloats(rounded, total),
                     before = download(tables, tableCount());
  enqueue(stream);
  finish(stream);
  std::vector<Values> outs;
  for (const Layer &layer : layers) {
    std::vector<float> out = downloadFloats(layer.out, std::size_t(shape.samples) * layer.outputs);
    outs.emplace_back(out.begin(), out.end());
  }
  Values parameters(halves.begin(), halves.end()), gradient;
  parameters.insert(parameters.end(), before.begin(), before.end());
  for (float each : download(gradients, total))
    gradient.push_back(each);
  std::vector<float> after = download(tables, tableCount());
  for (std::size_t i = 0; i < after.size(); ++i)
    gradient.push_back((double{before[i]} - after[i]) * shape.samples / rate);
  auto loss = [&](const Values &values) { return lossOnHost(values, outs); };
  std::vector<std::size_t> all = tensors;
  for (int table = 1; table <= shape.tables.count; ++table)
    all.push_back(total + table * shape.tables.rows() * shape.tables.width);
  double expected = loss(parameters);
  Checked checked(0.005);
  checked.add(std::fabs(download(lossSum, 1)[0] - expected) / expected);
  checked.add(reference::gradientError(loss, parameters, all, gradient));
  return checked;
}

} // namespace

std::unique_ptr<Training> makeDlrm(Size size, cudaStream_t stream) {
  DlrmShape shape;
  if (size == Size::small)
    shape = {{3, 6, 16, 2}, 24, 16, {24, 16}, {24, 8}};
  return std::make_unique<Dlrm>(shape, size, stream);
}

} // namespace workloads
