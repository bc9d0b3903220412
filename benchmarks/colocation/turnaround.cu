// Time that best-effort blocks stay on the GPU after a request came: from the host's call of the
// request's first launch to the end of the last training block that ran then, both on the GPU's
// clock (%globaltimer). The program does not use tally; turnaround_plain is the same program
// without tally.
//
//   turnaround [--streams=N] [--samples=N] [BLOCK_US...]     default: 2 streams, 300, 2 10 50 100
//   200 500
//
// With more than two streams, every stream holds queued training kernels. Prints for each block
// length the blocks' own P50 and P99 time and, over the samples, the P50, P99 and maximum of the
// turnaround, of the time until the request's first block started, and of the host time of the
// request's launch.
#include "loads.cuh"

#include <algorithm>
#include <cstring>
#include <string>

namespace {

using namespace colocation;

struct Span {
  unsigned long long start, end; ///< nanoseconds of %globaltimer
};

__device__ unsigned long long globalTime() {
  unsigned long long now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

__global__ void timedStep(unsigned *runs, Span *spans, int rounds) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned long long start = globalTime();
  unsigned known = runs[i];
  float x = static_cast<float>(known);
  for (int r = 0; r < rounds; ++r)
    x = x * 0.9999f + 0.5f;
  runs[i] = x < 0 ? 0 : known + 1;
  __syncthreads();
  if (threadIdx.x == 0)
    spans[blockIdx.x] = {start, globalTime()};
}

/// Keeps the request's stream busy until all blocks that have to leave have left.
__global__ void request(Span *span, unsigned long long nanoseconds) {
  unsigned long long start = globalTime();
  while (globalTime() - start < nanoseconds) {
  }
  if (blockIdx.x == 0 && threadIdx.x == 0)
    *span = {start, globalTime()};
}

__global__ void tellTime(volatile unsigned long long *word, unsigned long long nanoseconds) {
  unsigned long long start = globalTime(), now = start;
  while ((now = globalTime()) - start < nanoseconds)
    *word = now;
}

unsigned long long hostNanoseconds() {
  return static_cast<unsigned long long>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch())
          .count());
}

/// Difference to add to the host's clock to get the GPU's clock. It is short by the time until the
/// host sees a store of the GPU, about a microsecond, so turnarounds come out too long.
long long clockDifference(cudaStream_t stream) {
  unsigned long long *word = nullptr;
  check(cudaHostAlloc(&word, sizeof(*word), cudaHostAllocMapped), "cudaHostAlloc");
  *word = 0;
  tellTime<<<1, 1, 0, stream>>>(word, 3000000);
  check(cudaGetLastError(), "launch");
  auto &seen = *const_cast<volatile unsigned long long *>(word);
  long long best = -(1LL << 62);
  for (unsigned long long last = 0; cudaStreamQuery(stream) == cudaErrorNotReady;)
    for (int round = 0; round < 1000; ++round)
      if (unsigned long long now = seen; now != last) {
        best = std::max(best, static_cast<long long>(now - hostNanoseconds()));
        last = now;
      }
  // Clears the error that the query left.
  static_cast<void>(cudaGetLastError());
  check(cudaFreeHost(word), "cudaFreeHost");
  return best;
}

struct Options {
  unsigned streams = 2, samples = 300;
  std::vector<double> blockMicroseconds;
};

class Measurement {
public:
  Measurement(const Options &options, double blockMicroseconds)
      : options(options), blockMicroseconds(blockMicroseconds) {
    rounds = trainingRounds(blockMicroseconds);
    // About three milliseconds a kernel, but at least ten waves.
    unsigned waves = std::max(10u, static_cast<unsigned>(3000 / blockMicroseconds));
    blocks = waves * 132 * (2048 / threads);
    high = makeStream(priorities().high);
    for (unsigned i = 0; i < options.streams; ++i) {
      low.push_back(makeStream(priorities().low));
      runs.push_back(nullptr);
      check(cudaMalloc(&runs.back(), std::size_t{blocks} * threads * sizeof(unsigned)),
            "cudaMalloc");
      spans.push_back(nullptr);
      check(cudaMalloc(&spans.back(), blocks * sizeof(Span)), "cudaMalloc");
    }
    check(cudaMallocHost(&found, blocks * sizeof(Span)), "cudaMallocHost");
    check(cudaMallocHost(&requestSpan, sizeof(Span)), "cudaMallocHost");
    difference = clockDifference(high);
  }

  void run() {
    for (unsigned i = 0; i < options.samples + 5; ++i)
      sample(i, i >= 5);
    print();
  }

private:
  void sample(unsigned index, bool counts) {
    for (std::size_t s = 0; s < low.size(); ++s) {
      check(cudaMemsetAsync(spans[s], 0, blocks * sizeof(Span), low[s]), "cudaMemsetAsync");
      check(cudaStreamSynchronize(low[s]), "cudaStreamSynchronize");
    }
    for (std::size_t s = 0; s < low.size(); ++s)
      timedStep<<<blocks, threads, 0, low[s]>>>(runs[s], spans[s], rounds);
    check(cudaGetLastError(), "launch");
    // The request falls into the first kernel, at another place each time.
    auto until = Clock::now() + std::chrono::microseconds(400 + index * 37 % 1500);
    while (Clock::now() < until) {
    }
    unsigned long long called = hostNanoseconds();
    unsigned long long asked = called + static_cast<unsigned long long>(difference);
    request<<<132, threads, 0, high>>>(requestSpan, holdNanoseconds());
    unsigned long long launched = hostNanoseconds();
    check(cudaStreamSynchronize(high), "cudaStreamSynchronize");
    unsigned long long last = 0;
    for (std::size_t s = 0; s < low.size(); ++s) {
      check(cudaStreamSynchronize(low[s]), "cudaStreamSynchronize");
      check(cudaMemcpy(found, spans[s], blocks * sizeof(Span), cudaMemcpyDeviceToHost),
            "cudaMemcpy");
      for (unsigned b = 0; b < blocks; ++b) {
        if (counts && b % 16 == 0)
          blockTimes.push_back(static_cast<double>(found[b].end - found[b].start) / 1000);
        if (found[b].end < requestSpan->end)
          last = std::max(last, found[b].end);
      }
    }
    if (!counts)
      return;
    turnarounds.push_back((static_cast<double>(last) - static_cast<double>(asked)) / 1000);
    starts.push_back((static_cast<double>(requestSpan->start) - static_cast<double>(asked)) / 1000);
    launches.push_back(static_cast<double>(launched - called) / 1000);
  }
  unsigned long long holdNanoseconds() const {
    return static_cast<unsigned long long>(blockMicroseconds * 2000) + 200000;
  }
  static double percentile(std::vector<double> &values, double fraction) {
    auto index = static_cast<std::ptrdiff_t>(static_cast<double>(values.size() - 1) * fraction);
    std::nth_element(values.begin(), values.begin() + index, values.end());
    return values[static_cast<std::size_t>(index)];
  }
  void print() {
    double blockP99 = percentile(blockTimes, 0.99);
    std::printf("| %g us | %u | %.1f | %.1f | %.1f | %.1f | %.1f | %.1f | %.1f | %.1f | %.1f |\n",
                blockMicroseconds, options.streams, percentile(blockTimes, 0.5), blockP99,
                percentile(turnarounds, 0.5), percentile(turnarounds, 0.99),
                percentile(turnarounds, 0.99) - blockP99, percentile(starts, 0.5),
                percentile(starts, 0.99), percentile(launches, 0.5), percentile(launches, 0.99));
    std::fflush(stdout);
  }

  Options options;
  double blockMicroseconds;
  int rounds = 0;
  unsigned blocks = 0;
  long long difference = 0;
  cudaStream_t high = nullptr;
  std::vector<cudaStream_t> low;
  std::vector<unsigned *> runs;
  std::vector<Span *> spans;
  Span *found = nullptr, *requestSpan = nullptr;
  std::vector<double> blockTimes, turnarounds, starts, launches;
};

Options parse(int argc, char **argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], "--streams=", 10) == 0)
      options.streams = static_cast<unsigned>(std::stoul(argv[i] + 10));
    else if (std::strncmp(argv[i], "--samples=", 10) == 0)
      options.samples = static_cast<unsigned>(std::stoul(argv[i] + 10));
    else
      options.blockMicroseconds.push_back(std::stod(argv[i]));
  }
  if (options.blockMicroseconds.empty())
    options.blockMicroseconds = {2, 10, 50, 100, 200, 500};
  return options;
}

} // namespace

int main(int argc, char **argv) {
  Options options = parse(argc, argv);
  std::printf(
      "| block | streams | block P50 | P99 | turnaround P50 | P99 | P99 less the block's P99 "
      "| request starts P50 | P99 | its launch P50 | P99 "
      "|\n|---|---|---|---|---|---|---|---|---|---|---|\n");
  for (double each : options.blockMicroseconds)
    Measurement(options, each).run();
}
