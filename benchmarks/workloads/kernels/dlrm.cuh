// Kernels of a recommendation model: bags of embeddings, interactions of features, and the update
// of tables. Memory bandwidth bounds them.
#ifndef TALLY_BENCHMARKS_WORKLOADS_KERNELS_DLRM_CUH
#define TALLY_BENCHMARKS_WORKLOADS_KERNELS_DLRM_CUH

#include "rows.cuh"

namespace workloads::dlrm {

/// Tables of 2^bits rows of `width` floats, one behind the other. Each sample looks up `lookups`
/// rows of each table. All lookups of a step in one table are different rows, so updates need no
/// atomics.
struct Tables {
  int count, bits, width, lookups;

  __host__ __device__ long long rows() const { return 1ll << bits; }
  /// The row of lookup `index` (sample * lookups + i) of a step, within its table.
  __host__ __device__ long long row(int table, unsigned index, unsigned step) const {
    unsigned mixed = index * 2654435761u + table * 40503u + step * 48271u; // odd times index
    return mixed & (static_cast<unsigned>(rows()) - 1);
  }
  __host__ __device__ long long offset(int table, unsigned index, unsigned step) const {
    return (table * rows() + row(table, index, step)) * width;
  }
};

constexpr int warps = 8, mostFeatures = 32, mostWidth = 64, interactionThreads = 128;

/// features[sample][1 + table] = the sum of the rows looked up; a warp computes one sum. Another
/// kernel writes feature 0. width: even, <= 64. Grid: ceil(samples * tables / 8). Block: 256.
static __global__ void __launch_bounds__(warps * 32)
    sumBags(const float *rows, __half *features, Tables tables, int samples, const unsigned *step) {
  int bag = blockIdx.x * warps + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (bag >= samples * tables.count)
    return; // the whole warp
  int sample = bag / tables.count, table = bag % tables.count;
  if (lane >= tables.width / 2)
    return;
  float2 sum = make_float2(0, 0);
#pragma unroll 8
  for (int i = 0; i < tables.lookups; ++i) {
    long long at = tables.offset(table, sample * tables.lookups + i, *step);
    float2 pair = reinterpret_cast<const float2 *>(rows + at)[lane];
    sum.x += pair.x;
    sum.y += pair.y;
  }
  long long to = (static_cast<long long>(sample) * (tables.count + 1) + 1 + table) * tables.width;
  reinterpret_cast<__half2 *>(features + to)[lane] = __float22half2_rn(sum);
}

/// Each row that was looked up -= rate * its bag's gradient. Grid and block as in sumBags.
static __global__ void __launch_bounds__(warps * 32)
    updateTables(float *rows, const __half *gradients, Tables tables, int samples, float rate,
                 const unsigned *step) {
  int bag = blockIdx.x * warps + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (bag >= samples * tables.count)
    return;
  int sample = bag / tables.count, table = bag % tables.count;
  if (lane >= tables.width / 2)
    return;
  long long from = (static_cast<long long>(sample) * (tables.count + 1) + 1 + table) * tables.width;
  float2 gradient = __half22float2(reinterpret_cast<const __half2 *>(gradients + from)[lane]);
#pragma unroll 8
  for (int i = 0; i < tables.lookups; ++i) {
    long long at = tables.offset(table, sample * tables.lookups + i, *step);
    auto *pair = reinterpret_cast<float2 *>(rows + at) + lane;
    float2 value = *pair;
    *pair = make_float2(value.x - rate * gradient.x, value.y - rate * gradient.y);
  }
}

/// out[sample] = feature 0, then the products of each pair of features (i > j, by i), then zeros up
/// to `columns`. features <= 32, width <= 64. Grid: samples. Block: 128.
static __global__ void __launch_bounds__(interactionThreads)
    interact(const __half *features, __half *out, int count, int width, int columns) {
  __shared__ float values[mostFeatures][mostWidth + 1];
  const __half *from = features + static_cast<long long>(blockIdx.x) * count * width;
  __half *to = out + static_cast<long long>(blockIdx.x) * columns;
  for (int i = threadIdx.x; i < count * width; i += interactionThreads)
    values[i / width][i % width] = __half2float(from[i]);
  __syncthreads();
  for (int column = threadIdx.x; column < columns; column += interactionThreads) {
    int pair = column - width;
    float value = 0.0f;
    if (pair < 0) {
      value = values[0][column];
    } else if (pair < count * (count - 1) / 2) {
      int i = static_cast<int>((1.0f + sqrtf(1.0f + 8.0f * static_cast<float>(pair))) * 0.5f);
      i -= i * (i - 1) / 2 > pair;
      i += (i + 1) * i / 2 <= pair;
      int j = pair - i * (i - 1) / 2;
      for (int d = 0; d < width; ++d)
        value += values[i][d] * values[j][d];
    }
    to[column] = __float2half_rn(value);
  }
}

/// Computes the gradient of the features from the gradient of interact()'s result. Grid and block
/// as in interact.
static __global__ void __launch_bounds__(interactionThreads)
    interactGradient(const __half *arriving, const __half *features, __half *gradient, int count,
                     int width, int columns) {
  __shared__ float values[mostFeatures][mostWidth + 1];
  __shared__ float products[mostFeatures * (mostFeatures - 1) / 2];
  long long first = static_cast<long long>(blockIdx.x) * count * width;
  const __half *from = arriving + static_cast<long long>(blockIdx.x) * columns;
  for (int i = threadIdx.x; i < count * width; i += interactionThreads)
    values[i / width][i % width] = __half2float(features[first + i]);
  for (int i = threadIdx.x; i < count * (count - 1) / 2; i += interactionThreads)
    products[i] = __half2float(from[width + i]);
  __syncthreads();
  for (int at = threadIdx.x; at < count * width; at += interactionThreads) {
    int i = at / width, d = at % width;
    float sum = i == 0 ? __half2float(from[d]) : 0.0f;
    for (int j = 0; j < count; ++j)
      if (j != i)
        sum += products[i > j ? i * (i - 1) / 2 + j : j * (j - 1) / 2 + i] * values[j][d];
    gradient[first + at] = __float2half_rn(sum);
  }
}

/// Computes the loss of each sample by its first logit, and replaces the logits by the gradient of
/// the losses' sum; the other logits are padding. Grid: ceil(samples / 256). Block: 256.
static __global__ void binaryCrossEntropy(__half *logits, const float *labels, float *losses,
                                          int samples, int columns) {
  int sample = blockIdx.x * 256 + threadIdx.x;
  if (sample >= samples)
    return;
  __half *line = logits + static_cast<long long>(sample) * columns;
  float logit = __half2float(line[0]), label = labels[sample];
  losses[sample] = fmaxf(logit, 0.0f) - logit * label + log1pf(__expf(-fabsf(logit)));
  for (int i = 0; i < columns; ++i)
    line[i] = __float2half_rn(i == 0 ? 1.0f / (1.0f + __expf(-logit)) - label : 0.0f);
}

/// first[sample] = features[sample][0], rows of `count * width`; with `back` in the other
/// direction.
/// Grid: ceil(samples * width / 256). Block: 256.
static __global__ void moveFirstFeature(__half *features, __half *first, int samples, int count,
                                        int width, bool back) {
  int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= samples * width)
    return;
  __half *at = features + static_cast<long long>(i / width) * count * width + i % width;
  if (back)
    *at = first[i];
  else
    first[i] = *at;
}

static __global__ void countStep(unsigned *step) { ++*step; }

} // namespace workloads::dlrm

#endif
