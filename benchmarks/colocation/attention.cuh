// Training with attention: a block has a tile of queries and goes over all keys of its head, with a
// running softmax, which each greater score corrects.
#ifndef TALLY_BENCHMARKS_COLOCATION_ATTENTION_CUH
#define TALLY_BENCHMARKS_COLOCATION_ATTENTION_CUH

#include "checking.cuh"

namespace colocation {

struct Attention {
  static constexpr unsigned width = 64;   ///< of a query, key, value
  static constexpr unsigned queries = 64; ///< of a block
  static constexpr unsigned keys = 32;    ///< of a turn
  static constexpr unsigned own = 4;      ///< queries of a thread, and result columns of each query
  static constexpr unsigned across = 16;  ///< threads that share the same queries
};

// Scores are whole numbers from -3 to 3 and weights are powers of two, so sums over up to 2^16 keys
// are exact: the results do not depend on the order of the additions.

/// Three ones in each query.
static __global__ void fillQueries(float *memory, unsigned count) {
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    unsigned apart = (i - (wordAt(i / Attention::width) >> 26)) % Attention::width;
    memory[i] = apart == 0 || apart == 21 || apart == 42 ? 1 : 0;
  }
}
/// Keys of -1, 0, 1, values of -4 to 3.
static __global__ void fillKeysAndValues(float *keys, float *values, unsigned count) {
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    keys[i] = static_cast<float>((wordAt(i) >> 16) % 3) - 1;
    values[i] = static_cast<float>(wordAt(i + (1u << 31)) >> 29) - 4;
  }
}

__device__ inline float4 &fourAt(float *at) { return *reinterpret_cast<float4 *>(at); }
__device__ inline float4 fourAt(const float *at) { return *reinterpret_cast<const float4 *>(at); }

/// Copies a thread's part of `count` rows, transposed, to a tile in shared memory.
template <unsigned count, unsigned stride>
__device__ inline void turnTo(float (&tile)[Attention::width][stride], const float *rows) {
  for (unsigned i = threadIdx.x * 4; i < count * Attention::width; i += threads * 4) {
    float4 four = fourAt(rows + i);
    unsigned row = i / Attention::width, place = i % Attention::width;
    tile[place][row] = four.x;
    tile[place + 1][row] = four.y;
    tile[place + 2][row] = four.z;
    tile[place + 3][row] = four.w;
  }
}

template <class Combine> __device__ inline float overQuery(float value, Combine combine) {
#pragma unroll
  for (unsigned distance = Attention::across / 2; distance > 0; distance /= 2)
    value = combine(value, __shfl_xor_sync(0xffffffffu, value, distance));
  return value;
}

/// Keys and values of successive heads are `stride` rows apart; only the first `length` rows count.
static __global__ void __launch_bounds__(threads)
    attend(const float *queries, const float *keys, const float *values, unsigned *results,
           unsigned stride, unsigned length) {
  using A = Attention;
  __shared__ float queryTile[A::width][A::queries], keyTile[A::width][A::keys + 1];
  __shared__ float valueTile[A::keys][A::width], weightTile[A::keys][A::queries];
  unsigned first = threadIdx.x / A::across * A::own, lane = threadIdx.x % A::across;
  std::size_t place = (std::size_t{blockIdx.y} * gridDim.x + blockIdx.x) * A::queries * A::width;
  keys += std::size_t{blockIdx.y} * stride * A::width;
  values += std::size_t{blockIdx.y} * stride * A::width;
  turnTo<A::queries>(queryTile, queries + place);
  float greatest[A::own], total[A::own] = {}, sum[A::own][A::own] = {};
#pragma unroll
  for (float &each : greatest)
    each = -INFINITY;
  for (unsigned key = 0; key < length; key += A::keys) {
    __syncthreads();
    turnTo<A::keys>(keyTile, keys + key * A::width);
    for (unsigned i = threadIdx.x * 4; i < A::keys * A::width; i += threads * 4)
      fourAt(&valueTile[0][0] + i) = fourAt(values + key * A::width + i);
    __syncthreads();
    float score[2][A::own] = {};
#pragma unroll
    for (unsigned i = 0; i < A::width; ++i) {
      float4 four = fourAt(&queryTile[i][first]);
      float query[] = {four.x, four.y, four.z, four.w};
#pragma unroll
      for (unsigned q = 0; q < A::own; ++q) {
        score[0][q] += query[q] * keyTile[i][lane];
        score[1][q] += query[q] * keyTile[i][lane + A::across];
      }
    }
#pragma unroll
    for (unsigned q = 0; q < A::own; ++q) {
      float greater = fmaxf(greatest[q], overQuery(fmaxf(score[0][q], score[1][q]),
                                                   [](float a, float b) { return fmaxf(a, b); }));
      float correction = exp2f(greatest[q] - greater);
      greatest[q] = greater;
      score[0][q] = exp2f(score[0][q] - greater);
      score[1][q] = exp2f(score[1][q] - greater);
      total[q] = total[q] * correction + score[0][q] + score[1][q];
#pragma unroll
      for (float &each : sum[q])
        each *= correction;
    }
    fourAt(&weightTile[lane][first]) = {score[0][0], score[0][1], score[0][2], score[0][3]};
    fourAt(&weightTile[lane + A::across][first]) = {score[1][0], score[1][1], score[1][2],
                                                    score[1][3]};
    // Only the query's own half warp uses its weights.
    __syncwarp();
#pragma unroll
    for (unsigned i = 0; i < A::keys; ++i) {
      float4 weight = fourAt(&weightTile[i][first]), value = fourAt(&valueTile[i][lane * A::own]);
      float weights[] = {weight.x, weight.y, weight.z, weight.w};
      float four[] = {value.x, value.y, value.z, value.w};
#pragma unroll
      for (unsigned q = 0; q < A::own; ++q)
#pragma unroll
        for (unsigned v = 0; v < A::own; ++v)
          sum[q][v] += weights[q] * four[v];
    }
  }
#pragma unroll
  for (unsigned q = 0; q < A::own; ++q) {
    float all = overQuery(total[q], [](float a, float b) { return a + b; });
#pragma unroll
    for (unsigned v = 0; v < A::own; ++v)
      results[place + (first + q) * A::width + lane * A::own + v] +=
          __float_as_uint(sum[q][v] / all);
  }
}

/// Checks four results of each query.
static __global__ void countRightAttention(const float *queries, const float *keys,
                                           const float *values, const unsigned *results,
                                           unsigned stride, unsigned length, unsigned launches,
                                           unsigned long long *right) {
  using A = Attention;
  unsigned query = threadIdx.x / 4, at = threadIdx.x % 4 * 16 + (blockIdx.x + query) % 16;
  std::size_t place = (std::size_t{blockIdx.y} * gridDim.x + blockIdx.x) * A::queries + query;
  keys += std::size_t{blockIdx.y} * stride * A::width;
  values += std::size_t{blockIdx.y} * stride * A::width;
  float own[A::width], total = 0, sum = 0;
#pragma unroll
  for (unsigned i = 0; i < A::width; ++i)
    own[i] = queries[place * A::width + i];
  for (unsigned key = 0; key < length; ++key) {
    float score = 0;
#pragma unroll
    for (unsigned i = 0; i < A::width; ++i)
      score += own[i] * keys[key * A::width + i];
    // Scores are small, so the sum needs no correction by the greatest score.
    float weight = exp2f(score);
    total += weight;
    sum += weight * values[key * A::width + at];
  }
  if (results[place * A::width + at] == __float_as_uint(sum / total) * launches)
    atomicAdd(right, 1ull);
}

class Attending final : public Training {
public:
  Attending(unsigned blocks, int rounds, unsigned outputs)
      : grid(std::min(blocks, 64u), (blocks + std::min(blocks, 64u) - 1) / std::min(blocks, 64u)),
        stride(lengthOf(rounds)), queries(all()),
        keys(std::size_t{grid.y} * stride * Attention::width), values(keys.size()) {
    for (unsigned i = 0; i < outputs; ++i)
      results.emplace_back(all());
    fillQueries<<<1056, threads>>>(queries.data(), static_cast<unsigned>(all()));
    fillKeysAndValues<<<1056, threads>>>(keys.data(), values.data(),
                                         static_cast<unsigned>(keys.size()));
    check(cudaGetLastError(), "launch");
  }
  void launch(unsigned output, int rounds, cudaStream_t stream) override {
    attend<<<grid, threads, 0, stream>>>(queries.data(), keys.data(), values.data(),
                                         results[output].data(), stride, lengthOf(rounds));
  }
  std::size_t wrongResults(unsigned output, int rounds, unsigned launches) override {
    std::size_t looked = std::size_t{grid.x} * grid.y * threads;
    return wrongOf(looked, [&](cudaStream_t stream, auto *right) {
      countRightAttention<<<grid, threads, 0, stream>>>(queries.data(), keys.data(), values.data(),
                                                        results[output].data(), stride,
                                                        lengthOf(rounds), launches, right);
    });
  }

private:
  static unsigned lengthOf(int rounds) { return static_cast<unsigned>(rounds) * Attention::keys; }
  std::size_t all() const {
    return std::size_t{grid.x} * grid.y * Attention::queries * Attention::width;
  }

  dim3 grid; ///< tiles of queries, heads
  unsigned stride;
  Buffer<float> queries, keys, values;
  std::vector<Buffer<unsigned>> results;
};

static const TrainingKind attentionKind = {
    "attention", reinterpret_cast<const void *>(attend), 4, 44,
    [](unsigned blocks, int rounds, unsigned outputs) -> std::unique_ptr<Training> {
      return std::make_unique<Attending>(blocks, rounds, outputs);
    }};

} // namespace colocation

#endif
