// Monte Carlo with long blocks: prices of Asian options. A block has one option. Its threads follow
// paths of many steps each, which takes some milliseconds in all.
#include "models.h"

#include "../../examples/inference_server/kernels/sums.cuh"

#include <cmath>

namespace workloads {

namespace {

constexpr int pathThreads = 256;

struct Market {
  int options, steps, pathsPerThread;
  float drift, volatility; // of a step's logarithm
};

/// Almost normally distributed: the sum of twelve uniform numbers of 16 bits, from six random
/// words.
__host__ __device__ inline float gaussian(std::uint32_t &state) {
  int sum = 0;
  for (int i = 0; i < 6; ++i) {
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    sum += static_cast<int>(state >> 16) + static_cast<int>(state & 0xffff);
  }
  return static_cast<float>(sum - 6 * 65535) * (1.0f / 65536.0f);
}

/// The mean price along one path, which starts at 1.
__host__ __device__ inline float followPath(const Market &market, std::uint32_t state) {
  float logarithm = 0, total = 0;
  for (int i = 0; i < market.steps; ++i) {
    logarithm += market.drift + market.volatility * gaussian(state);
    total += expf(logarithm);
  }
  return total / static_cast<float>(market.steps);
}

__host__ __device__ inline std::uint32_t pathSeed(unsigned round, unsigned option, unsigned path) {
  return randomBits(round + 1, std::uint64_t{option} << 32 | path) | 1;
}

/// prices[option] += the mean payoff of the option's paths of this round. Grid: options. Block:
/// 256.
__global__ void __launch_bounds__(pathThreads)
    price(const float *strikes, float *prices, Market market, const unsigned *round) {
  __shared__ float scratch[pathThreads / 32];
  float strike = strikes[blockIdx.x], payoffs = 0;
  for (int i = 0; i < market.pathsPerThread; ++i) {
    unsigned path = i * pathThreads + threadIdx.x;
    payoffs += fmaxf(followPath(market, pathSeed(*round, blockIdx.x, path)) - strike, 0.0f);
  }
  payoffs = reduction::blockSum<pathThreads / 32>(payoffs, scratch);
  if (threadIdx.x == 0)
    prices[blockIdx.x] += payoffs / static_cast<float>(market.pathsPerThread * pathThreads);
}

/// *total = the sum of `prices`; ++*round. One block of 256.
__global__ void finishRound(const float *prices, float *total, unsigned *round, int options) {
  __shared__ float scratch[pathThreads / 32];
  float sum = 0;
  for (int i = threadIdx.x; i < options; i += pathThreads)
    sum += prices[i];
  sum = reduction::blockSum<pathThreads / 32>(sum, scratch);
  if (threadIdx.x == 0) {
    *total = sum;
    ++*round;
  }
}

class MonteCarlo : public Training {
public:
  MonteCarlo(const Market &market, cudaStream_t stream) : market(market), memory(stream) {
    strikes = memory.floats(market.options, strikeFilling);
    prices = memory.array<float>(market.options);
    total = memory.array<float>(1);
    round = memory.array<unsigned>(1);
  }
  void reset(cudaStream_t stream) override {
    workloads::check(cudaMemsetAsync(prices, 0, market.options * sizeof(float), stream), "reset");
    workloads::check(cudaMemsetAsync(round, 0, sizeof(unsigned), stream), "reset");
  }
  void enqueue(cudaStream_t stream) override {
    price<<<market.options, pathThreads, 0, stream>>>(strikes, prices, market, round);
    finishRound<<<1, pathThreads, 0, stream>>>(prices, total, round, market.options);
  }
  const float *figure() const override { return total; }

  Checked check(cudaStream_t stream) override {
    constexpr int rounds = 2;
    reset(stream);
    for (int i = 0; i < rounds; ++i)
      enqueue(stream);
    finish(stream);
    std::vector<float> found = download(prices, market.options);
    std::vector<double> strikeValues = hostFloats(market.options, strikeFilling);
    Checked checked(1e-3);
    checked.add(std::fabs(download(total, 1)[0] - sumOf(found)) / sumOf(found));
    for (int option = 0; option < market.options; ++option) {
      double expected = 0;
      for (int r = 0; r < rounds; ++r)
        for (int path = 0; path < market.pathsPerThread * pathThreads; ++path)
          expected +=
              std::fmax(followPath(market, pathSeed(r, option, path)) - strikeValues[option],
                        0.0f) /
              (market.pathsPerThread * pathThreads);
      checked.add(std::fabs(found[option] - expected) / expected);
    }
    return checked;
  }

private:
  static constexpr Filling strikeFilling{77, 0.0625f, 1.0f};
  static double sumOf(const std::vector<float> &values) {
    double sum = 0;
    for (float each : values)
      sum += each;
    return sum;
  }

  Market market;
  Memory memory;
  float *strikes = nullptr, *prices = nullptr, *total = nullptr;
  unsigned *round = nullptr;
};

} // namespace

std::unique_ptr<Training> makeMonteCarlo(Size size, cudaStream_t stream) {
  if (size == Size::small)
    return std::make_unique<MonteCarlo>(Market{6, 16, 1, 0.0f, 0.0625f}, stream);
  // 12 waves of 132 SMs with 8 blocks each.
  return std::make_unique<MonteCarlo>(Market{12672, 365, 16, 0.0f, 0.0078125f}, stream);
}

} // namespace workloads
