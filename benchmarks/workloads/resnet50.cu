// ResNet-50, batch 1, 224 x 224: convolutions as implicit matrix products, with the batch norms
// folded into filters and biases.
#include "kernels/decode.cuh"
#include "kernels/images.cuh"
#include "layers.cuh"
#include "models.h"
#include "resnet_shape.h"

namespace workloads {

namespace {

using product::Convolution;
using reference::Values;

double relu(double x) { return std::fmax(x, 0); }

class Resnet : public Inference {
public:
  Resnet(const ResnetShape &shape, Size size, cudaStream_t stream)
      : shape(shape), layers(shape), memory(stream), products(memory, size) {
    images =
        Halves(memory, static_cast<std::size_t>(layers.stem.pixels()) * shape.channels, {300, 1});
    std::uint32_t seed = 301;
    for (const Convolution &c : layers.all()) {
      std::size_t count = static_cast<std::size_t>(c.filters) * c.filterSize();
      filters.push_back({Halves(memory, count, {seed, powerBelow(std::sqrt(6.0 / c.filterSize()))}),
                         Halves(memory, c.filters, {seed + 1, 0.125f})});
      seed += 2;
    }
    classes = Linear(memory, layers.lastChannels, shape.classes, seed);
    std::size_t largest = 0;
    for (const Convolution &c : layers.all())
      largest = std::max(largest, static_cast<std::size_t>(c.results()) * c.filters);
    for (__half *&each : buffers)
      each = memory.array<__half>(largest);
    pooled = memory.array<__half>(layers.lastChannels);
    result = memory.array<float>(shape.classes);
  }

  void enqueue(cudaStream_t stream) override {
    std::size_t next = 0;
    auto convolve = [&](const __half *in, const Convolution &c, __half *out, bool activate,
                        const __half *residual = nullptr) {
      Result result;
      result.out = out;
      result.bias = filters[next].bias.data;
      result.residual = residual;
      result.stride = c.filters;
      result.activation = activate ? Activation::relu : Activation::none;
      products.run(stream, product::Patches<false>(in, c),
                   plain(filters[next].weight.data, c.filters, c.filterSize()), result, c.results(),
                   c.filters, c.filterSize());
      ++next;
    };
    __half *x = buffers[0], *first = buffers[1], *second = buffers[2], *out = buffers[3];
    convolve(images.data, layers.stem, first, true);
    images::Pooling pooling(shape.batch, layers.stem.rows, layers.stem.columns, shape.widths[0]);
    images::maxPool<<<blocksFor(pooling.threads(), 256), 256, 0, stream>>>(first, x, nullptr,
                                                                           pooling);
    for (const Bottleneck &each : layers.bottlenecks) {
      convolve(x, each.first, first, true);
      convolve(first, each.second, second, true);
      const __half *shortcut = x;
      if (each.projects) {
        convolve(x, each.shortcut, buffers[4], false);
        shortcut = buffers[4];
      }
      convolve(second, each.third, out, true, shortcut);
      std::swap(x, out);
    }
    images::averagePool<<<dim3(blocksFor(layers.lastChannels, 64), shape.batch), dim3(32, 8), 0,
                          stream>>>(x, pooled, layers.lastSide * layers.lastSide,
                                    layers.lastChannels);
    decode::
        matrixVector<<<blocksFor(shape.classes, decode::warps), decode::warps * 32, 0, stream>>>(
            classes.weight.data, pooled, classes.bias.data, nullptr, nullptr, result,
            layers.lastChannels, shape.classes, Activation::none);
  }
  const float *answer() const override { return result; }
  std::size_t answerCount() const override { return shape.classes; }
  Checked check(const std::vector<float> &answer) const override {
    Checked checked(0.02);
    checked.add(reference::relativeError({answer.begin(), answer.end()}, onHost()));
    return checked;
  }

private:
  struct Filters {
    Halves weight, bias;
  };

  Values onHost() const {
    using reference::rounded;
    std::size_t next = 0;
    auto convolve = [&](const Values &in, const Convolution &c) {
      Values out = reference::convolve(in, filters[next].weight.host(), c);
      Values bias = filters[next++].bias.host();
      for (std::size_t i = 0; i < out.size(); ++i)
        out[i] += bias[i % bias.size()];
      return out;
    };
    auto activated = [](const Values &in) { return rounded(reference::mapped(in, relu)); };
    Values x = activated(convolve(images.host(), layers.stem));
    x = reference::gathered(
        x, reference::maxPoolPlaces(x, shape.batch, layers.stem.rows, shape.widths[0]));
    for (const Bottleneck &each : layers.bottlenecks) {
      Values second = activated(convolve(activated(convolve(x, each.first)), each.second));
      if (each.projects)
        x = rounded(convolve(x, each.shortcut));
      x = activated(reference::sum(convolve(second, each.third), x));
    }
    return classes.onHost(rounded(reference::averagePool(x, shape.batch, layers.lastChannels)));
  }

  ResnetShape shape;
  ResnetLayers layers;
  Memory memory;
  Products products;
  Halves images;
  std::vector<Filters> filters;
  Linear classes;
  __half *buffers[5] = {}, *pooled = nullptr;
  float *result = nullptr;
};

} // namespace

std::unique_ptr<Inference> makeResnet50(Size size, cudaStream_t stream) {
  ResnetShape shape;
  if (size == Size::small)
    shape = {1, 64, 40, {8, 16, 24, 32}, {1, 2, 1, 1}};
  return std::make_unique<Resnet>(shape, size, stream);
}

} // namespace workloads
