// Training that reads far more memory than the L2 holds.
#ifndef TALLY_BENCHMARKS_COLOCATION_BANDWIDTH_CUH
#define TALLY_BENCHMARKS_COLOCATION_BANDWIDTH_CUH

#include "checking.cuh"

namespace colocation {

struct Reading {
  static constexpr unsigned atOnce = 4; ///< reads of a thread in flight
  static constexpr unsigned perRound = atOnce * threads;

  /// The place where a block begins to read: scattered, so that concurrent blocks read different
  /// memory.
  static __device__ unsigned first(unsigned block) {
    return block * 2654435761u / threads * threads;
  }
  static __device__ unsigned next(unsigned sum, uint4 read) {
    return sum * 5 + read.x + read.y + read.z + read.w;
  }
  static __device__ uint4 at(unsigned index) {
    return {wordAt(4 * index), wordAt(4 * index + 1), wordAt(4 * index + 2), wordAt(4 * index + 3)};
  }
};

static __global__ void fillForReading(uint4 *memory, unsigned count) {
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
    memory[i] = Reading::at(i);
}

/// `mask`: the number of the memory's elements, a power of two, minus 1.
static __global__ void readMemory(const uint4 *memory, unsigned mask, unsigned *sums, int rounds) {
  unsigned at = Reading::first(blockIdx.x) + threadIdx.x, sum = 0;
  // Each thread has exactly `atOnce` reads in flight; the pragma keeps the compiler from adding
  // more.
#pragma unroll 1
  for (int r = 0; r < rounds; ++r, at += Reading::perRound) {
    uint4 read[Reading::atOnce];
#pragma unroll
    for (unsigned i = 0; i < Reading::atOnce; ++i)
      read[i] = memory[(at + i * threads) & mask];
#pragma unroll
    for (unsigned i = 0; i < Reading::atOnce; ++i)
      sum = Reading::next(sum, read[i]);
  }
  sums[blockIdx.x * blockDim.x + threadIdx.x] += sum;
}

static __global__ void countRightSums(const unsigned *sums, unsigned mask, int rounds,
                                      unsigned launches, unsigned long long *right) {
  unsigned at = Reading::first(blockIdx.x) + threadIdx.x, sum = 0;
  for (unsigned i = 0; i < static_cast<unsigned>(rounds) * Reading::atOnce; ++i)
    sum = Reading::next(sum, Reading::at((at + i * threads) & mask));
  if (sums[blockIdx.x * blockDim.x + threadIdx.x] == sum * launches)
    atomicAdd(right, 1ull);
}

/// Each block reads its part of at most 2 GiB once; the places wrap around at the end of the
/// memory.
class Bandwidth final : public Training {
public:
  Bandwidth(unsigned blocks, int rounds, unsigned outputs)
      : blocks(blocks), memory(elements(blocks, rounds)) {
    for (unsigned i = 0; i < outputs; ++i)
      sums.emplace_back(std::size_t{blocks} * threads);
    fillForReading<<<1056, threads>>>(memory.data(), mask() + 1);
    check(cudaGetLastError(), "launch");
  }
  void launch(unsigned output, int rounds, cudaStream_t stream) override {
    readMemory<<<blocks, threads, 0, stream>>>(memory.data(), mask(), sums[output].data(), rounds);
  }
  std::size_t wrongResults(unsigned output, int rounds, unsigned launches) override {
    return wrongOf(sums[output].size(), [&](cudaStream_t stream, auto *right) {
      countRightSums<<<blocks, threads, 0, stream>>>(sums[output].data(), mask(), rounds, launches,
                                                     right);
    });
  }

private:
  static std::size_t elements(unsigned blocks, int rounds) {
    std::size_t count = 1, read = std::size_t{blocks} * Reading::perRound * rounds;
    while (count < read && count < std::size_t{1} << 27)
      count *= 2;
    return count;
  }
  unsigned mask() const { return static_cast<unsigned>(memory.size() - 1); }

  unsigned blocks;
  Buffer<uint4> memory;
  std::vector<Buffer<unsigned>> sums;
};

static const TrainingKind bandwidthKind = {
    "bandwidth", reinterpret_cast<const void *>(readMemory), 8, 88,
    [](unsigned blocks, int rounds, unsigned outputs) -> std::unique_ptr<Training> {
      return std::make_unique<Bandwidth>(blocks, rounds, outputs);
    }};

} // namespace colocation

#endif
