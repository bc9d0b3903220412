// Requests beside matrix products of cuBLAS, whose kernels have no variants. The program does not
// use tally: gemm_plain shows the effect of CUDA's stream priorities, gemm the effect of tally.
// gemm.py runs both and prints the table.
//
//   gemm [--KEY=VALUE...]
//
// Prints lines as colocation does, with `kernel_us`, the time of a product alone.
#include "phases.cuh"

#include <cublas_v2.h>
#include <cuda_fp16.h>

namespace {

using namespace colocation;

Options defaults() {
  return {{
      {"phases", "alone,both"}, // alone, flushed, train, both
      {"layers", "60"},         // kernels of a request
      {"layer-rounds", "1000"},
      {"graph", "0"},        // 1: a request is one graph
      {"requests", "400"},   // of a phase
      {"period-us", "3333"}, // between two arrivals, on average
      {"n", "4096"},         // of the n x n matrices
      {"step", "16"},        // products between two synchronisations; even
      {"seconds", "0.5"},    // of the phase `train`
      {"seed", "1"},
  }};
}

void check(cublasStatus_t status, const char *what) {
  if (status == CUBLAS_STATUS_SUCCESS)
    return;
  std::fprintf(stderr, "gemm: %s: status %d\n", what, static_cast<int>(status));
  std::exit(1);
}

/// Multiplies a matrix by a permutation matrix that moves its columns by one place, again and
/// again, on a stream of the lowest priority. The arithmetic is exact, so a product that is left
/// out or made twice shows.
class Products {
public:
  Products(unsigned n, unsigned step) : n(n), step(step) {
    stream = makeStream(priorities().low);
    check(cublasCreate(&handle), "cublasCreate");
    check(cublasSetStream(handle, stream), "cublasSetStream");
    std::vector<__half> shift(count(), __float2half(0)), first(count());
    for (unsigned column = 0; column < n; ++column) {
      shift[std::size_t{column} * n + (column + 1) % n] = __float2half(1);
      for (unsigned row = 0; row < n; ++row)
        first[std::size_t{column} * n + row] =
            __float2half(static_cast<float>(valueAt(column, row)));
    }
    move = upload(shift);
    for (__half *&each : buffers)
      each = upload(first);
    // Excludes the setup of the first call from the measurement.
    multiply();
    multiply();
    colocation::check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  }

  double kernelMicroseconds() {
    constexpr unsigned repetitions = 20;
    auto begin = Clock::now();
    for (unsigned i = 0; i < repetitions; ++i)
      multiply();
    colocation::check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    return Microseconds(Clock::now() - begin).count() / repetitions;
  }
  void start() {
    stopping = false;
    ends.clear();
    thread = std::thread([this] {
      while (!stopping) {
        for (unsigned i = 0; i < step; ++i)
          multiply();
        colocation::check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
        ends.push_back(Clock::now());
      }
    });
  }
  void stop() {
    stopping = true;
    thread.join();
  }
  double kernelsPerSecond(Clock::time_point begin, Clock::time_point end) const {
    return colocation::kernelsPerSecond(ends, step, begin, end);
  }
  /// Number of elements that differ from the result of as many products.
  std::size_t wrong() const {
    std::vector<__half> found(count());
    colocation::check(cudaMemcpy(found.data(), buffers[made % 2], count() * sizeof(__half),
                                 cudaMemcpyDeviceToHost),
                      "cudaMemcpy");
    std::size_t differ = 0;
    for (unsigned column = 0; column < n; ++column)
      for (unsigned row = 0; row < n; ++row)
        differ += static_cast<int>(__half2float(found[std::size_t{column} * n + row])) !=
                  valueAt((column + made) % n, row);
    return differ;
  }

private:
  std::size_t count() const { return std::size_t{n} * n; }
  static int valueAt(std::uint64_t column, unsigned row) {
    return static_cast<int>((column * 7 + row * 3) % 509); // exact in half precision
  }
  __half *upload(const std::vector<__half> &matrix) const {
    __half *memory = nullptr;
    std::size_t bytes = matrix.size() * sizeof(__half);
    colocation::check(cudaMalloc(&memory, bytes), "cudaMalloc");
    colocation::check(cudaMemcpy(memory, matrix.data(), bytes, cudaMemcpyHostToDevice),
                      "cudaMemcpy");
    return memory;
  }
  void multiply() {
    const float one = 1, zero = 0;
    auto size = static_cast<int>(n);
    check(cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, size, size, size, &one, buffers[made % 2],
                       CUDA_R_16F, size, move, CUDA_R_16F, size, &zero, buffers[(made + 1) % 2],
                       CUDA_R_16F, size, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
          "cublasGemmEx");
    ++made;
  }

  unsigned n, step;
  cudaStream_t stream = nullptr;
  cublasHandle_t handle = nullptr;
  __half *move = nullptr, *buffers[2] = {nullptr, nullptr};
  std::uint64_t made = 0;
  std::atomic<bool> stopping{false};
  std::vector<Clock::time_point> ends; // of steps
  std::thread thread;
};

} // namespace

int main(int argc, char **argv) {
  Options options = parse(argc, argv, defaults());
  auto serverOptions = [&](bool flush) -> ServerOptions {
    return {options.count("layers"), static_cast<int>(options.number("layer-rounds")),
            options.count("graph") != 0, flush};
  };
  Server server(serverOptions(false)), flushing(serverOptions(true));
  Products products(options.count("n"), options.count("step"));
  std::string more = ", \"kernel_us\": " + std::to_string(products.kernelMicroseconds());
  for (const std::string &phase : options.list("phases"))
    runPhase(phase, options, server, flushing, products, more);
  if (std::size_t wrong = products.wrong()) {
    std::fprintf(stderr, "gemm: %zu elements are wrong\n", wrong);
    return 1;
  }
}
