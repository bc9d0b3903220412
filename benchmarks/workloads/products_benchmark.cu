// The matrix products of the models at their sizes, beside cuBLAS's if its library is found.
//
//   products_benchmark            times
//   products_benchmark --check    small products of every kind of operand, against the CPU; for
//   tests
//
// Each time is of a graph of 20 products, the median of 9 replays, over 20; the two libraries take
// turns. cuBLAS: f16 operands and results, sums in f32, as here. The program loads cuBLAS at run
// time (CUBLAS=FILE, or the loader's libcublas.so.13, .12).
#include "products.cuh"
#include "reference.h"

#include <cstring>
#include <dlfcn.h>
#include <string>

namespace {

using namespace workloads;
using colocation::Clock;

struct Case {
  const char *name;
  int m, n, k;
  bool turnedA, turnedB;
};

/// The operands' lines have no padding.
template <class A, class B>
void launch(const Products &products, cudaStream_t stream, const Case &c, const A &a, const B &b,
            const Result &result) {
  products.run(stream, a, b, result, c.m, c.n, c.k);
}

void launch(const Products &products, cudaStream_t stream, const Case &c, const __half *a,
            const __half *b, const Result &result) {
  if (c.turnedA)
    launch(products, stream, c, turned(a, c.m, c.m), turned(b, c.n, c.n), result);
  else if (c.turnedB)
    launch(products, stream, c, plain(a, c.m, c.k), turned(b, c.n, c.n), result);
  else
    launch(products, stream, c, plain(a, c.m, c.k), plain(b, c.n, c.k), result);
}

/// cublasGemmEx of the library, without its header; null if the library is missing.
class Cublas {
public:
  explicit Cublas(cudaStream_t stream) {
    const char *named = std::getenv("CUBLAS");
    void *library = nullptr;
    for (const char *name : {named ? named : "libcublas.so.13", "libcublas.so.12"})
      library = library ? library : dlopen(name, RTLD_NOW);
    if (!library)
      return;
    auto create = reinterpret_cast<int (*)(void **)>(dlsym(library, "cublasCreate_v2"));
    auto setStream =
        reinterpret_cast<int (*)(void *, cudaStream_t)>(dlsym(library, "cublasSetStream_v2"));
    gemm = reinterpret_cast<Gemm>(dlsym(library, "cublasGemmEx"));
    if (!create || !setStream || !gemm || create(&handle) != 0 || setStream(handle, stream) != 0) {
      std::fprintf(stderr, "products_benchmark: cuBLAS is there and does not start\n");
      std::exit(1);
    }
  }
  bool isThere() const { return gemm != nullptr; }
  /// Row-major: the function computes the transpose of the result, with the operands in the other
  /// order.
  void multiply(const Case &c, const __half *a, const __half *b, __half *result) const {
    constexpr int asIs = 0, transposed = 1, half = 2, sumsInFloat = 68, byHeuristic = -1;
    const float one = 1, zero = 0;
    bool plainB = !c.turnedA && !c.turnedB;
    int status = gemm(handle, plainB ? transposed : asIs, c.turnedA ? transposed : asIs, c.n, c.m,
                      c.k, &one, b, half, plainB ? c.k : c.n, a, half, c.turnedA ? c.m : c.k, &zero,
                      result, half, c.n, sumsInFloat, byHeuristic);
    if (status != 0) {
      std::fprintf(stderr, "products_benchmark: cublasGemmEx: status %d\n", status);
      std::exit(1);
    }
  }

private:
  using Gemm = int (*)(void *, int, int, int, int, int, const void *, const void *, int, int,
                       const void *, int, int, const void *, void *, int, int, int, int);
  Gemm gemm = nullptr;
  void *handle = nullptr;
};

constexpr int perGraph = 20, replays = 9;

template <class Function> cudaGraphExec_t graphOf(cudaStream_t stream, Function function) {
  cudaGraph_t recorded = nullptr;
  cudaGraphExec_t graph = nullptr;
  function(); // the first call sets the library up outside of the capture
  finish(stream);
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "begin capture");
  for (int i = 0; i < perGraph; ++i)
    function();
  check(cudaStreamEndCapture(stream, &recorded), "end capture");
  check(cudaGraphInstantiate(&graph, recorded, 0), "cudaGraphInstantiate");
  return graph;
}

double replay(cudaStream_t stream, cudaGraphExec_t graph) {
  cudaEvent_t begin, end;
  float milliseconds = 0;
  check(cudaEventCreate(&begin), "cudaEventCreate");
  check(cudaEventCreate(&end), "cudaEventCreate");
  check(cudaEventRecord(begin, stream), "cudaEventRecord");
  check(cudaGraphLaunch(graph, stream), "cudaGraphLaunch");
  check(cudaEventRecord(end, stream), "cudaEventRecord");
  finish(stream);
  check(cudaEventElapsedTime(&milliseconds, begin, end), "cudaEventElapsedTime");
  check(cudaEventDestroy(begin), "cudaEventDestroy");
  check(cudaEventDestroy(end), "cudaEventDestroy");
  return milliseconds * 1000.0 / perGraph;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

void time(cudaStream_t stream, const Cublas &cublas, const Case &c) {
  Memory memory(stream);
  Products products(memory, Size::real);
  const __half *a = memory.halves(std::size_t(c.m) * c.k, {1, 1});
  const __half *b = memory.halves(std::size_t(c.n) * c.k, {2, 1});
  auto *ours = memory.array<__half>(std::size_t(c.m) * c.n);
  auto *theirs = memory.array<__half>(std::size_t(c.m) * c.n);
  Result result;
  result.out = ours;
  result.stride = c.n;
  cudaGraphExec_t own = graphOf(stream, [&] { launch(products, stream, c, a, b, result); });
  cudaGraphExec_t other =
      cublas.isThere() ? graphOf(stream, [&] { cublas.multiply(c, a, b, theirs); }) : nullptr;
  std::vector<double> ownTimes, otherTimes;
  for (int i = 0; i < replays; ++i) {
    ownTimes.push_back(replay(stream, own));
    if (other)
      otherTimes.push_back(replay(stream, other));
  }
  double operations = 2.0 * c.m * c.n * c.k, mine = median(ownTimes);
  std::printf("%-34s %6d %6d %6d %9.2f %8.1f", c.name, c.m, c.n, c.k, mine,
              operations / mine / 1e6);
  if (other) {
    std::size_t count = std::min<std::size_t>(std::size_t(c.m) * c.n, 1 << 20);
    std::vector<float> found = downloadFloats(ours, count),
                       expected = downloadFloats(theirs, count);
    double difference =
        reference::relativeError({found.begin(), found.end()}, {expected.begin(), expected.end()});
    std::printf(" %9.2f %8.1f %8.2f%s", median(otherTimes), operations / median(otherTimes) / 1e6,
                median(otherTimes) / mine, difference < 0.01 ? "" : "  THE RESULTS DIFFER");
  }
  std::printf("\n");
  std::fflush(stdout);
}

/// A hash to compare runs: FNV-1a over the words.
unsigned bitsOf(const std::vector<float> &values) {
  unsigned hash = 2166136261u;
  for (float value : values) {
    unsigned bits;
    std::memcpy(&bits, &value, sizeof bits);
    hash = (hash ^ bits) * 16777619u;
  }
  return hash;
}

/// Whether a product equals that of the CPU, with every option of a result, or with `bare` none.
bool isRight(cudaStream_t stream, const Case &c, bool bare) {
  Memory memory(stream);
  Products products(memory, Size::small);
  Filling fillingA{3, 1}, fillingB{4, 1}, fillingBias{5, 1}, fillingResidual{6, 1};
  const std::size_t count = std::size_t(c.m) * c.n;
  Result result;
  result.out = memory.array<__half>(count);
  result.sums = memory.array<float>(count);
  result.stride = c.n;
  result.scale = 0.5f;
  if (!bare) {
    result.before = memory.array<__half>(count);
    result.bias = memory.halves(c.n, fillingBias);
    result.residual = memory.halves(count, fillingResidual);
    result.activation = Activation::relu;
  }
  const __half *a = memory.halves(std::size_t(c.m) * c.k, fillingA);
  const __half *b = memory.halves(std::size_t(c.n) * c.k, fillingB);
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  // The second run finds the split's memory as the first run left it, and overwritten results. It
  // is interrupted at other places, and has to find the same bits.
  std::vector<float> found[2];
  for (auto &each : found) {
    check(cudaMemsetAsync(result.out, 0xff, count * sizeof(__half), stream), "cudaMemsetAsync");
    if (result.before)
      check(cudaMemsetAsync(result.before, 0xff, count * sizeof(__half), stream),
            "cudaMemsetAsync");
    check(cudaMemsetAsync(result.sums, 0xff, count * sizeof(float), stream), "cudaMemsetAsync");
    launch(products, stream, c, a, b, result);
    finish(stream);
    each = download(result.sums, count);
  }
  reference::Values left = hostHalves(std::size_t(c.m) * c.k, fillingA), expected(count);
  reference::Values right = hostHalves(std::size_t(c.n) * c.k, fillingB);
  reference::Values bias = hostHalves(c.n, fillingBias),
                    residual = hostHalves(count, fillingResidual);
  for (int i = 0; i < c.m; ++i)
    for (int j = 0; j < c.n; ++j) {
      double sum = 0;
      for (int k = 0; k < c.k; ++k)
        sum += left[c.turnedA ? k * c.m + i : i * c.k + k] *
               right[c.turnedA || c.turnedB ? k * c.n + j : j * c.k + k];
      expected[i * c.n + j] = sum * 0.5 + (bare ? 0 : bias[j] + residual[i * c.n + j]);
    }
  auto against = [&](const std::vector<float> &values) {
    return reference::relativeError({values.begin(), values.end()}, expected);
  };
  Checked sums(1e-5), halves(4e-3); // over the root of the mean square: a few units of a half's
  sums.add(against(found[1]));
  if (!bare) {
    halves.add(against(downloadFloats(result.before, count)));
    for (double &each : expected)
      each = std::fmax(each, 0);
  }
  halves.add(against(downloadFloats(result.out, count)));
  bool sameBits = std::memcmp(found[0].data(), found[1].data(), count * sizeof(float)) == 0;
  bool allRight = sums.right() && halves.right() && sameBits;
  std::printf("%s  %s%s %d x %d x %d: errors %.2g, in halves %.2g, bits %s %08x\n",
              allRight ? "right" : "WRONG", c.name, bare ? ", bare" : "", c.m, c.n, c.k,
              sums.largest(), halves.largest(), sameBits ? "twice" : "OTHER the second time,",
              bitsOf(found[1]));
  return allRight;
}

int checkAll(cudaStream_t stream) {
  bool right = true;
  for (auto [turnedA, turnedB] : {std::pair(false, false), {false, true}, {true, true}})
    for (auto [m, n, k] : {std::array{8, 8, 8},
                           {24, 40, 72},
                           {72, 64, 256},
                           {64, 64, 520},
                           {136, 264, 40},
                           {128, 128, 96},
                           {8, 200, 600},
                           {248, 184, 328},
                           {184, 192, 104},
                           {232, 120, 328}})
      for (bool bare : {false, true})
        right &= isRight(stream,
                         {turnedA   ? "turned, turned"
                          : turnedB ? "plain, turned"
                                    : "plain, plain",
                          m, n, k, turnedA, turnedB},
                         bare);
  return right ? 0 : 1;
}

constexpr Case cases[] = {
    {"BERT: queries, keys, values", 128, 2304, 768, false, false},
    {"BERT: out", 128, 768, 768, false, false},
    {"BERT: up", 128, 3072, 768, false, false},
    {"BERT: down", 128, 768, 3072, false, false},
    {"ResNet-50: 1x1, 56 x 56", 3136, 256, 64, false, false},
    {"ResNet-50: 1x1, 14 x 14", 196, 256, 1024, false, false},
    {"ResNet-50: 1x1, 7 x 7", 49, 2048, 512, false, false},
    {"GPT-2 training: queries, keys", 4096, 2304, 768, false, false},
    {"GPT-2 training: up", 4096, 3072, 768, false, false},
    {"GPT-2 training: down", 4096, 768, 3072, false, false},
    {"GPT-2 training: logits", 4096, 50304, 768, false, false},
    {"GPT-2 training: up, input", 4096, 768, 3072, false, true},
    {"GPT-2 training: logits, input", 4096, 768, 50304, false, true},
    {"GPT-2 training: up, weights", 3072, 768, 4096, true, true},
    {"GPT-2 training: logits, weights", 50304, 768, 4096, true, true},
    {"ResNet-50 training: 1x1, 56 x 56", 200704, 256, 64, false, false},
    {"ResNet-50 training: 1x1, 14 x 14", 12544, 256, 1024, false, false},
    {"DLRM: first of the top", 4096, 512, 416, false, false},
    {"large", 8192, 8192, 8192, false, false},
};

} // namespace

int main(int argc, char **argv) {
  cudaStream_t stream = colocation::makeStream(0);
  if (argc > 1 && std::strcmp(argv[1], "--check") == 0)
    return checkAll(stream);
  Cublas cublas(stream);
  std::printf("%-34s %6s %6s %6s %9s %8s", "", "m", "n", "k", "us", "TFLOP/s");
  std::printf(cublas.isThere() ? " %9s %8s %8s\n" : "   (no cuBLAS here)\n", "cuBLAS us", "TFLOP/s",
              "rate of it");
  for (const Case &c : cases)
    time(stream, cublas, c);
}
