// Best-effort work: kernels whose blocks take a given time, launched step by step. Plain CUDA.
#ifndef TALLY_BENCHMARKS_COLOCATION_TRAINING_CUH
#define TALLY_BENCHMARKS_COLOCATION_TRAINING_CUH

#include "common.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <thread>
#include <vector>

namespace colocation {

constexpr unsigned threads = 256;

/// Device memory, set to 0.
template <class Element> class Buffer {
public:
  explicit Buffer(std::size_t count) : count(count) {
    check(cudaMalloc(&memory, count * sizeof(Element)), "cudaMalloc");
    check(cudaMemset(memory, 0, count * sizeof(Element)), "cudaMemset");
  }
  Buffer(Buffer &&other) noexcept
      : memory(std::exchange(other.memory, nullptr)), count(other.count) {}
  Buffer(const Buffer &) = delete;
  Buffer &operator=(const Buffer &) = delete;
  Buffer &operator=(Buffer &&) = delete;
  ~Buffer() { static_cast<void>(cudaFree(memory)); }

  Element *data() const { return memory; }
  std::size_t size() const { return count; }
  std::vector<Element> read() const {
    std::vector<Element> found(count);
    check(cudaMemcpy(found.data(), memory, count * sizeof(Element), cudaMemcpyDeviceToHost),
          "cudaMemcpy");
    return found;
  }

private:
  Element *memory = nullptr;
  std::size_t count;
};

/// Kernels of one kind, and their results. Each launch adds its results to one of several outputs,
/// so a block that is left out or runs twice shows.
class Training {
public:
  virtual ~Training() = default;
  /// Launches a kernel whose long loop takes `rounds` turns, at most as many as the constructor
  /// allows.
  virtual void launch(unsigned output, int rounds, cudaStream_t stream) = 0;
  /// Number of the output's results that differ from those of `launches` kernels of `rounds` turns.
  virtual std::size_t wrongResults(unsigned output, int rounds, unsigned launches) = 0;
};

struct TrainingKind {
  const char *name;
  const void *kernel;
  int few, many; ///< turns of the long loop that take a block tens and hundreds of microseconds
  std::unique_ptr<Training> (*make)(unsigned blocks, int rounds, unsigned outputs);
};

/// Every thread counts its runs.
static __global__ void step(unsigned *runs, int rounds) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned known = runs[i];
  float x = static_cast<float>(known);
  for (int r = 0; r < rounds; ++r)
    x = x * 0.9999f + 0.5f;
  // x is never negative, but the compiler does not know that.
  runs[i] = x < 0 ? 0 : known + 1;
}

/// A loop of dependent additions.
class Compute final : public Training {
public:
  Compute(unsigned blocks, unsigned outputs) : blocks(blocks) {
    for (unsigned i = 0; i < outputs; ++i)
      runs.emplace_back(std::size_t{blocks} * threads);
  }
  void launch(unsigned output, int rounds, cudaStream_t stream) override {
    step<<<blocks, threads, 0, stream>>>(runs[output].data(), rounds);
  }
  std::size_t wrongResults(unsigned output, int, unsigned launches) override {
    std::size_t wrong = 0;
    for (unsigned count : runs[output].read())
      wrong += count != launches;
    return wrong;
  }

private:
  unsigned blocks;
  std::vector<Buffer<unsigned>> runs;
};

static const TrainingKind computeKind = {
    "compute", reinterpret_cast<const void *>(step), 2000, 22000,
    [](unsigned blocks, int, unsigned outputs) -> std::unique_ptr<Training> {
      return std::make_unique<Compute>(blocks, outputs);
    }};

/// Number of the kernel's blocks that run at a time.
inline unsigned residentBlocks(const void *kernel) {
  int perSm = 0;
  cudaDeviceProp device{};
  check(cudaGetDeviceProperties(&device, 0), "cudaGetDeviceProperties");
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&perSm, kernel, threads, 0),
        "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
  return static_cast<unsigned>(perSm * device.multiProcessorCount);
}

/// Turns of the loop for which a block takes `microseconds` on a full GPU.
inline int trainingRounds(double microseconds, const TrainingKind &kind = computeKind) {
  constexpr unsigned waves = 4;
  std::unique_ptr<Training> training = kind.make(waves * residentBlocks(kind.kernel), kind.many, 1);
  auto time = [&](int rounds) {
    double best = 1e30;
    for (int repetition = 0; repetition < 20; ++repetition) {
      check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
      auto start = Clock::now();
      training->launch(0, rounds, nullptr);
      check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
      best = std::min(best, Microseconds(Clock::now() - start).count());
    }
    return best;
  };
  // The slope excludes the fixed cost of a launch.
  double perRound = (time(kind.many) - time(kind.few)) / (kind.many - kind.few) / waves;
  return std::max(1, static_cast<int>(std::lround(microseconds / perRound)));
}

struct TrainerOptions {
  unsigned blocks = 67584;
  int rounds = 1000;
  unsigned kernelsPerStep = 16; ///< launched one behind the other, followed by a synchronisation
  unsigned streams = 1;         ///< steps go round them
  const TrainingKind *kind = &computeKind;
};

/// Trains on streams of the lowest priority, from a thread of its own.
class Trainer {
public:
  explicit Trainer(const TrainerOptions &options)
      : options(options),
        training(options.kind->make(options.blocks, options.rounds, options.streams)) {
    for (unsigned i = 0; i < options.streams; ++i)
      streams.push_back(makeStream(priorities().low));
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }

  void start() {
    stopping = false;
    ends.clear();
    thread = std::thread([this] {
      while (!stopping)
        train();
    });
  }
  void stop() {
    stopping = true;
    thread.join();
  }
  double kernelsPerSecond(Clock::time_point begin, Clock::time_point end) const {
    return colocation::kernelsPerSecond(ends, options.kernelsPerStep * options.streams, begin, end);
  }
  /// Number of results that differ from those of each block having run once in each kernel.
  std::size_t wrongResults() const {
    std::size_t wrong = 0;
    for (unsigned i = 0; i < options.streams; ++i)
      wrong += training->wrongResults(i, options.rounds, launched);
    return wrong;
  }

private:
  void train() {
    for (unsigned i = 0; i < options.kernelsPerStep; ++i)
      for (unsigned s = 0; s < options.streams; ++s)
        training->launch(s, options.rounds, streams[s]);
    check(cudaGetLastError(), "launch");
    for (cudaStream_t each : streams)
      check(cudaStreamSynchronize(each), "cudaStreamSynchronize");
    launched += options.kernelsPerStep;
    ends.push_back(Clock::now());
  }

  TrainerOptions options;
  std::unique_ptr<Training> training;
  std::vector<cudaStream_t> streams;
  unsigned launched = 0;
  std::atomic<bool> stopping{false};
  std::vector<Clock::time_point> ends; // of steps
  std::thread thread;
};

} // namespace colocation

#endif
