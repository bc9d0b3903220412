// Training of ResNet-50: 64 images of 224 x 224 a step, batch norm, SGD with momentum. Operands are
// f16, for the tensor cores; statistics, gradients of weights and the weights themselves are f32.
#include "kernels/batch_norm.cuh"
#include "kernels/gpt2.cuh"
#include "layers.cuh"
#include "models.h"
#include "resnet_shape.h"

#include <algorithm>

namespace workloads {

namespace {

using product::Convolution;
using reference::Values;

constexpr float rate = 1e-3f;

/// The decisions of the model's pass: the results of each norm that ReLU let through, and the
/// largest pixels. If rounding flips a decision, gradients change by far more than by the rounding
/// itself. So the reference takes the model's decisions, and is smooth.
struct Decisions {
  std::vector<std::vector<bool>> positive; // of each convolution
  std::vector<std::size_t> largest;
};

/// The places of the parameters of a convolution and its norm: filters, gain, shift.
struct Place {
  std::size_t filters, gain;
};

class ResnetTraining : public Training {
public:
  ResnetTraining(const ResnetShape &shape, Size size, cudaStream_t stream)
      : shape(shape), layers(shape), convolutions(layers.all()), memory(stream),
        products(memory, size) {
    layOut();
    initial = memory.floats(tensors, fillings);
    weights = memory.array<float>(total);
    rounded = memory.array<__half>(total);
    momentum = memory.array<float>(total);
    gradients = memory.array<float>(total);
    images = memory.halves(std::size_t(layers.stem.pixels()) * shape.channels, imageFilling);
    for (int i = 0; i < shape.batch; ++i)
      hostLabels.push_back(static_cast<int>(randomBits(402, i) % shape.classes));
    labels = memory.upload(hostLabels);
    std::size_t largest = 0;
    for (const Convolution &c : convolutions) {
      std::size_t count = std::size_t(c.results()) * c.filters;
      kept.push_back({memory.array<__half>(count), memory.array<__half>(count),
                      memory.array<float2>(c.filters)});
      largest = std::max({largest, count, std::size_t(c.pixels()) * c.channels});
    }
    for (__half **each : {&gradient, &inner, &other})
      *each = memory.array<__half>(largest);
    pooledCount =
        std::size_t(shape.batch) * layers.pooledSide * layers.pooledSide * shape.widths[0];
    pooled = memory.array<__half>(pooledCount);
    places = memory.array<unsigned char>(pooledCount);
    features = memory.array<__half>(std::size_t(shape.batch) * layers.lastChannels);
    featureGradient = memory.array<__half>(std::size_t(shape.batch) * layers.lastChannels);
    logits = memory.array<__half>(std::size_t(shape.batch) * shape.classes);
    losses = memory.array<float>(shape.batch);
    lossSum = memory.array<float>(1);
    std::size_t runs = 0;
    for (const Convolution &c : convolutions)
      runs = std::max(runs, std::size_t(runsOf(c)) * 2 * c.filters);
    partials = memory.array<float>(runs);
  }

  void reset(cudaStream_t stream) override {
    workloads::check(
        cudaMemcpyAsync(weights, initial, total * sizeof(float), cudaMemcpyDeviceToDevice, stream),
        "reset");
    workloads::check(cudaMemsetAsync(momentum, 0, total * sizeof(float), stream), "reset");
    gpt2::roundAll<<<1056, 256, 0, stream>>>(weights, rounded, static_cast<int>(total));
  }
  void enqueue(cudaStream_t stream) override {
    forward(stream);
    backward(stream);
    batch_norm::momentumUpdate<<<blocksFor(total, 256), 256, 0, stream>>>(
        weights, rounded, momentum, gradients, 1 / static_cast<float>(shape.batch), rate,
        static_cast<int>(total));
  }
  const float *figure() const override { return lossSum; }
  Checked check(cudaStream_t stream) override;

private:
  /// Results of a convolution: its own, the result behind norm and ReLU, and the norm's statistics.
  struct Kept {
    __half *result, *out;
    float2 *statistics;
  };
  static constexpr Filling imageFilling{400, 1};

  static int runsOf(const Convolution &c) {
    return static_cast<int>(blocksFor(c.results(), batch_norm::rowsPerRun));
  }
  static int pieces(const Convolution &c) { return c.results() * (c.filters / 8); }

  std::size_t take(std::size_t count, float scale, float offset = 0) {
    fillings.push_back({static_cast<std::uint32_t>(410 + fillings.size()), scale, offset});
    tensors.push_back(total);
    total += count;
    return tensors.back();
  }
  void layOut() {
    for (const Convolution &c : convolutions) {
      std::size_t filters = take(std::size_t(c.filters) * c.filterSize(),
                                 powerBelow(std::sqrt(6.0 / c.filterSize())));
      std::size_t gain = take(c.filters, 0.25f, 1.0f);
      take(c.filters, 0.25f);
      where.push_back({filters, gain});
    }
    headWeight = take(std::size_t(layers.lastChannels) * shape.classes,
                      powerBelow(std::sqrt(3.0 / layers.lastChannels)));
    headBias = take(shape.classes, 0.125f);
    tensors.push_back(total);
  }

  /// Runs convolution i, its norm, and ReLU if `activate`; adds `residual` before the ReLU.
  void convolve(cudaStream_t stream, std::size_t i, const __half *in, bool activate,
                const __half *residual = nullptr) {
    const Convolution &c = convolutions[i];
    Result result;
    result.out = kept[i].result;
    result.stride = c.filters;
    products.run(stream, product::Patches<false>(in, c),
                 plain(rounded + where[i].filters, c.filters, c.filterSize()), result, c.results(),
                 c.filters, c.filterSize());
    batch_norm::
        sumValues<<<dim3(blocksFor(c.filters, 64), runsOf(c)), batch_norm::runThreads, 0, stream>>>(
            kept[i].result, partials, c.results(), c.filters);
    batch_norm::finishStatistics<<<blocksFor(c.filters, 256), 256, 0, stream>>>(
        partials, kept[i].statistics, runsOf(c), c.results(), c.filters, normEpsilon);
    batch_norm::normalize<<<blocksFor(pieces(c), 256), 256, 0, stream>>>(
        kept[i].result, kept[i].statistics, rounded + where[i].gain,
        rounded + where[i].gain + c.filters, residual, kept[i].out, pieces(c), c.filters, activate);
  }
  /// Replaces the gradient behind the norm of convolution i, in `arriving`, by the gradient of its
  /// input, in `to`, plus `residual`. Without `to` it computes only the gradients of the
  /// parameters.
  void convolveBackward(cudaStream_t stream, std::size_t i, const __half *in, __half *arriving,
                        __half *to, const __half *residual = nullptr) {
    const Convolution &c = convolutions[i];
    float *sums = gradients + where[i].gain;
    batch_norm::sumGradients<<<dim3(blocksFor(c.filters, 64), runsOf(c)), batch_norm::runThreads, 0,
                               stream>>>(arriving, kept[i].result, kept[i].statistics, partials,
                                         c.results(), c.filters);
    batch_norm::addRuns<<<blocksFor(2 * c.filters, 256), 256, 0, stream>>>(
        partials, sums, runsOf(c), 2 * c.filters, 2 * c.filters);
    batch_norm::normalizeGradient<<<blocksFor(pieces(c), 256), 256, 0, stream>>>(
        arriving, kept[i].result, kept[i].statistics, rounded + where[i].gain, sums, pieces(c),
        c.filters, 1 / static_cast<float>(c.results()));
    Result weight;
    weight.sums = gradients + where[i].filters;
    weight.stride = c.filterSize();
    products.run(stream, turned(arriving, c.filters, c.filters), product::Patches<true>(in, c),
                 weight, c.filters, c.filterSize(), c.results());
    if (!to)
      return;
    Result image;
    image.out = to;
    image.residual = residual;
    image.stride = c.channels;
    products.run(stream, product::GradientPatches(arriving, c),
                 product::TurnedFilters(rounded + where[i].filters, c), image, c.pixels(),
                 c.channels, c.taps * c.taps * c.filters);
  }
  void mask(cudaStream_t stream, __half *arriving, std::size_t i) {
    batch_norm::maskGradient<<<blocksFor(pieces(convolutions[i]), 256), 256, 0, stream>>>(
        arriving, kept[i].out, pieces(convolutions[i]));
  }
  void forward(cudaStream_t stream);
  void backward(cudaStream_t stream);
  Decisions decisions() const;
  double lossOnHost(const Values &parameters, const Decisions &decisions) const;

  ResnetShape shape;
  ResnetLayers layers;
  std::vector<Convolution> convolutions;
  Memory memory;
  Products products;
  std::vector<std::size_t> tensors; // begins of the tensors, then the total
  std::vector<Filling> fillings;
  std::vector<Place> where;
  std::size_t total = 0, headWeight = 0, headBias = 0, pooledCount = 0;
  std::vector<Kept> kept;
  std::vector<int> hostLabels;
  int *labels;
  float *initial, *weights, *momentum, *gradients, *partials, *losses, *lossSum;
  __half *rounded, *images, *pooled, *features, *featureGradient, *logits;
  __half *gradient, *inner, *other;
  unsigned char *places;
};

void ResnetTraining::forward(cudaStream_t stream) {
  convolve(stream, 0, images, true);
  images::Pooling pooling(shape.batch, layers.stem.rows, layers.stem.columns, shape.widths[0]);
  images::maxPool<<<blocksFor(pooling.threads(), 256), 256, 0, stream>>>(kept[0].out, pooled,
                                                                         places, pooling);
  const __half *x = pooled;
  std::size_t i = 1;
  for (const Bottleneck &each : layers.bottlenecks) {
    convolve(stream, i, x, true);
    convolve(stream, i + 1, kept[i].out, true);
    const __half *from = kept[i + 1].out;
    i += 2;
    if (each.projects) {
      convolve(stream, i, x, false);
      x = kept[i++].out;
    }
    convolve(stream, i, from, true, x);
    x = kept[i++].out;
  }
  images::averagePool<<<dim3(blocksFor(layers.lastChannels, 64), shape.batch), dim3(32, 8), 0,
                        stream>>>(x, features, layers.lastSide * layers.lastSide,
                                  layers.lastChannels);
  Result result;
  result.out = logits;
  result.bias = rounded + headBias;
  result.stride = shape.classes;
  products.run(stream, plain(features, shape.batch, layers.lastChannels),
               plain(rounded + headWeight, shape.classes, layers.lastChannels), result, shape.batch,
               shape.classes, layers.lastChannels);
  gpt2::crossEntropy<<<shape.batch, gpt2::lossThreads, 0, stream>>>(logits, labels, losses,
                                                                    shape.classes, shape.classes);
  gpt2::sumAll<<<1, gpt2::lossThreads, 0, stream>>>(losses, lossSum, shape.batch);
}

void ResnetTraining::backward(cudaStream_t stream) {
  int channels = layers.lastChannels, side = layers.lastSide;
  Result weight;
  weight.sums = gradients + headWeight;
  weight.stride = channels;
  products.run(stream, turned(logits, shape.classes, shape.classes),
               turned(features, channels, channels), weight, shape.classes, channels, shape.batch);
  gpt2::positionGradient<<<dim3(blocksFor(shape.classes, 128), 1), 128, 0, stream>>>(
      logits, gradients + headBias, shape.batch, 1, shape.classes);
  Result feature;
  feature.out = featureGradient;
  feature.stride = channels;
  products.run(stream, plain(logits, shape.batch, shape.classes),
               turned(rounded + headWeight, channels, channels), feature, shape.batch, channels,
               shape.classes);
  int lastPieces = shape.batch * side * side * (channels / 8);
  batch_norm::averagePoolGradient<<<blocksFor(lastPieces, 256), 256, 0, stream>>>(
      featureGradient, gradient, side * side, channels, lastPieces);

  std::size_t i = convolutions.size();
  for (std::size_t b = layers.bottlenecks.size(); b-- > 0;) {
    bool projects = layers.bottlenecks[b].projects;
    i -= projects ? 4 : 3; // the first convolution of this bottleneck
    std::size_t third = i + (projects ? 3 : 2);
    const __half *x = b == 0 ? pooled : kept[i - 1].out;
    mask(stream, gradient, third);
    // The gradient of the sum goes to the shortcut too. The norm's gradient overwrites its input,
    // so the code copies it.
    const Convolution &c = convolutions[third];
    workloads::check(cudaMemcpyAsync(other, gradient,
                                     std::size_t(c.results()) * c.filters * sizeof(__half),
                                     cudaMemcpyDeviceToDevice, stream),
                     "copying a gradient");
    convolveBackward(stream, third, kept[i + 1].out, other, inner);
    mask(stream, inner, i + 1);
    convolveBackward(stream, i + 1, kept[i].out, inner, other);
    mask(stream, other, i);
    if (projects) {
      convolveBackward(stream, i + 2, x, gradient, inner);
      convolveBackward(stream, i, x, other, gradient, inner);
    } else {
      convolveBackward(stream, i, x, other, gradient, gradient);
    }
  }
  images::Pooling pooling(shape.batch, layers.stem.rows, layers.stem.columns, shape.widths[0]);
  int stemPieces = pieces(layers.stem);
  batch_norm::maxPoolGradient<<<blocksFor(stemPieces, 256), 256, 0, stream>>>(
      gradient, places, inner, pooling, stemPieces);
  mask(stream, inner, 0);
  convolveBackward(stream, 0, images, inner, nullptr);
}

Decisions ResnetTraining::decisions() const {
  Decisions found;
  for (std::size_t i = 0; i < convolutions.size(); ++i) {
    const Convolution &c = convolutions[i];
    found.positive.emplace_back();
    for (float each : downloadFloats(kept[i].out, std::size_t(c.results()) * c.filters))
      found.positive.back().push_back(each > 0);
  }
  int rows = layers.pooledSide, side = layers.stem.rows, channels = shape.widths[0];
  std::vector<unsigned char> taps = download(places, pooledCount);
  for (std::size_t i = 0; i < pooledCount; ++i) {
    std::size_t place = i / channels, image = place / (rows * rows);
    std::size_t y = place / rows % rows * 2 + taps[i] / 3 - 1,
                x = place % rows * 2 + taps[i] % 3 - 1;
    found.largest.push_back(((image * side + y) * side + x) * channels + i % channels);
  }
  return found;
}

/// The sum of the images' losses.
double ResnetTraining::lossOnHost(const Values &parameters, const Decisions &decisions) const {
  auto part = [&](std::size_t begin, std::size_t count) {
    return Values(parameters.begin() + static_cast<std::ptrdiff_t>(begin),
                  parameters.begin() + static_cast<std::ptrdiff_t>(begin + count));
  };
  std::size_t next = 0;
  auto convolve = [&](const Values &in) {
    const Convolution &c = convolutions[next];
    const Place &place = where[next++];
    Values out =
        reference::convolve(in, part(place.filters, std::size_t(c.filters) * c.filterSize()), c);
    for (int f = 0; f < c.filters; ++f) {
      double mean = 0, variance = 0;
      for (std::size_t i = f; i < out.size(); i += c.filters)
        mean += out[i] / c.results();
      for (std::size_t i = f; i < out.size(); i += c.filters)
        variance += (out[i] - mean) * (out[i] - mean) / c.results();
      for (std::size_t i = f; i < out.size(); i += c.filters)
        out[i] = (out[i] - mean) / std::sqrt(variance + normEpsilon) * parameters[place.gain + f] +
                 parameters[place.gain + c.filters + f];
    }
    return out;
  };
  // ReLU behind the latest convolution.
  auto activated = [&](Values values) {
    const std::vector<bool> &positive = decisions.positive[next - 1];
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = positive[i] ? values[i] : 0;
    return values;
  };
  Values x = activated(
      convolve(hostHalves(std::size_t(layers.stem.pixels()) * shape.channels, imageFilling)));
  x = reference::gathered(x, decisions.largest);
  for (const Bottleneck &each : layers.bottlenecks) {
    Values second = activated(convolve(x));
    second = activated(convolve(second));
    if (each.projects)
      x = convolve(x);
    Values third = convolve(second);
    x = activated(reference::sum(third, x));
  }
  Values lines =
      reference::linear(reference::averagePool(x, shape.batch, layers.lastChannels),
                        part(headWeight, std::size_t(layers.lastChannels) * shape.classes),
                        part(headBias, shape.classes), layers.lastChannels, shape.classes);
  double loss = 0;
  for (int b = 0; b < shape.batch; ++b) {
    double sum = 0;
    for (int c = 0; c < shape.classes; ++c)
      sum += std::exp(lines[b * shape.classes + c]);
    loss += std::log(sum) - lines[b * shape.classes + hostLabels[b]];
  }
  return loss;
}

Checked ResnetTraining::check(cudaStream_t stream) {
  reset(stream);
  finish(stream);
  std::vector<float> before = download(weights, total), halves = downloadFloats(rounded, total);
  enqueue(stream);
  finish(stream);
  std::vector<float> found = download(gradients, total), after = download(weights, total);
  Decisions decided = decisions();
  auto loss = [&](const Values &parameters) { return lossOnHost(parameters, decided); };
  Values parameters(halves.begin(), halves.end());
  double expected = loss(parameters);
  Checked checked(0.05);
  checked.add(std::fabs(download(lossSum, 1)[0] - expected) / expected);
  checked.add(reference::gradientError(loss, parameters, tensors, {found.begin(), found.end()}));
  for (std::size_t i = 0; i < total; ++i)
    checked.add(std::fabs(before[i] - rate * found[i] / shape.batch - after[i]) / rate);
  return checked;
}

} // namespace

std::unique_ptr<Training> makeResnet50Training(Size size, cudaStream_t stream) {
  ResnetShape shape;
  shape.batch = 64;
  if (size == Size::small)
    shape = {4, 64, 16, {8, 8, 8, 16}, {1, 2, 1, 1}};
  return std::make_unique<ResnetTraining>(shape, size, stream);
}

} // namespace workloads
