// Layers that several models have: their weights, their launches, and their computation on the CPU.
#ifndef TALLY_BENCHMARKS_WORKLOADS_LAYERS_CUH
#define TALLY_BENCHMARKS_WORKLOADS_LAYERS_CUH

#include "kernels/rows.cuh"
#include "products.cuh"
#include "reference.h"

namespace workloads {

constexpr float normEpsilon = 1e-5f;

constexpr unsigned blocksFor(long long count, int perBlock) {
  return static_cast<unsigned>((count + perBlock - 1) / perBlock);
}

/// An array of halves, and its filling.
struct Halves {
  __half *data = nullptr;
  std::size_t count = 0;
  Filling filling;

  Halves() = default;
  Halves(Memory &memory, std::size_t count, const Filling &filling)
      : data(memory.halves(count, filling)), count(count), filling(filling) {}
  reference::Values host() const { return hostHalves(count, filling); }
};

/// x W^T + bias; the weights are [outputs][inputs].
struct Linear {
  int inputs = 0, outputs = 0;
  Halves weight, bias;

  Linear() = default;
  /// Takes two seeds from `seed` on, and advances it.
  Linear(Memory &memory, int inputs, int outputs, std::uint32_t &seed)
      : inputs(inputs), outputs(outputs), weight(memory, static_cast<std::size_t>(inputs) * outputs,
                                                 {seed, powerBelow(std::sqrt(3.0 / inputs)) * 2}),
        bias(memory, outputs, {seed + 1, 0.125f}) {
    seed += 2;
  }
  void run(cudaStream_t stream, const Products &products, const __half *in, __half *out, int rows,
           Activation activation = Activation::none, const __half *residual = nullptr) const {
    Result result;
    result.out = out;
    result.bias = bias.data;
    result.residual = residual;
    result.stride = outputs;
    result.activation = activation;
    products.run(stream, plain(in, rows, inputs), plain(weight.data, outputs, inputs), result, rows,
                 outputs, inputs);
  }
  reference::Values onHost(const reference::Values &in) const {
    return reference::linear(in, weight.host(), bias.host(), inputs, outputs);
  }
};

struct LayerNorm {
  int columns = 0;
  Halves gain, shift;

  LayerNorm() = default;
  LayerNorm(Memory &memory, int columns, std::uint32_t &seed)
      : columns(columns), gain(memory, columns, {seed, 0.25f, 1.0f}),
        shift(memory, columns, {seed + 1, 0.25f}) {
    seed += 2;
  }
  void run(cudaStream_t stream, const __half *in, __half *out, int rowCount) const {
    rows::layerNorm<<<blocksFor(rowCount, rows::warps), 128, 0, stream>>>(
        in, gain.data, shift.data, out, nullptr, rowCount, columns, normEpsilon);
  }
  reference::Values onHost(const reference::Values &in) const {
    return reference::rounded(
        reference::layerNorm(in, gain.host(), shift.host(), columns, normEpsilon));
  }
};

} // namespace workloads

#endif
