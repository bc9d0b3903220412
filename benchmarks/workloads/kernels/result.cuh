// The last step of a product: bias, residual, activation, and the address of the results.
#ifndef TALLY_BENCHMARKS_WORKLOADS_KERNELS_RESULT_CUH
#define TALLY_BENCHMARKS_WORKLOADS_KERNELS_RESULT_CUH

#include "piece.cuh"

namespace workloads::product {

enum class Activation { none, gelu, relu, tanh };

/// Destination of the sums, by pieces of 8 columns, all of them aligned: x = scale * sum + bias +
/// residual; `before` gets x, `out` gets f(x), and `sums` gets x in f32. The store skips null
/// pointers.
struct Result {
  __half *out = nullptr;
  float *sums = nullptr;
  const __half *bias = nullptr;     ///< one for each column
  const __half *residual = nullptr; ///< laid out as `out`
  __half *before = nullptr;         ///< likewise
  int stride = 0;                   ///< halves between rows
  float scale = 1;
  Activation activation = Activation::none;
  long long outer = 0, inner = 0; ///< distances of a batch's products, as in Matrix
  int perOuter = 1;

  /// Whether the store changes nothing but the scale.
  __device__ __forceinline__ bool isBare() const {
    return !bias && !residual && !before && activation == Activation::none;
  }
  /// The same result, with constants that the compiler can use.
  __device__ __forceinline__ Result bare() const {
    Result same = *this;
    same.bias = same.residual = same.before = nullptr;
    same.activation = Activation::none;
    return same;
  }
};

__device__ __forceinline__ float activate(float x, Activation activation) {
  switch (activation) {
  case Activation::gelu:
    return 0.5f * x * (1.0f + erff(x * 0.70710678f));
  case Activation::relu:
    return fmaxf(x, 0.0f);
  case Activation::tanh:
    return tanhf(x);
  case Activation::none:
    break;
  }
  return x;
}

/// Eight neighbours of the result.
__device__ __forceinline__ void store(const Result &result, long long at, int column,
                                      float (&x)[8]) {
  auto add = [&x](const __half *from) {
    Piece piece = *reinterpret_cast<const Piece *>(from);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float2 more = __half22float2(piece.pairs[i]);
      x[2 * i] += more.x;
      x[2 * i + 1] += more.y;
    }
  };
  auto put = [&x](__half *to) {
    Piece piece;
#pragma unroll
    for (int i = 0; i < 4; ++i)
      piece.pairs[i] = __floats2half2_rn(x[2 * i], x[2 * i + 1]);
    *reinterpret_cast<Piece *>(to) = piece;
  };
#pragma unroll
  for (float &each : x)
    each *= result.scale;
  if (result.bias)
    add(result.bias + column);
  if (result.residual)
    add(result.residual + at);
  if (result.sums) {
    auto *to = reinterpret_cast<float4 *>(result.sums + at);
    to[0] = make_float4(x[0], x[1], x[2], x[3]);
    to[1] = make_float4(x[4], x[5], x[6], x[7]);
  }
  if (result.before)
    put(result.before + at);
  if (!result.out)
    return;
  if (result.activation != Activation::none)
#pragma unroll
    for (float &each : x)
      each = activate(each, result.activation);
  put(result.out + at);
}

} // namespace workloads::product

#endif
