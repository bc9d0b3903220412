// Arrays on the device, filled with numbers that the host can compute too. So weights of real
// shapes need no file, and a reference on the CPU starts from the same weights.
#ifndef TALLY_BENCHMARKS_WORKLOADS_MEMORY_H
#define TALLY_BENCHMARKS_WORKLOADS_MEMORY_H

#include "../colocation/common.h"

#include <cuda_fp16.h>

#include <cstdint>
#include <vector>

namespace workloads {

using colocation::check;

/// Waits for the stream's work; ends the program if a launch or the work failed.
inline void finish(cudaStream_t stream) {
  check(cudaGetLastError(), "a launch");
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

/// The i-th number of the sequence with that seed.
__host__ __device__ inline std::uint32_t randomBits(std::uint32_t seed, std::uint64_t i) {
  std::uint64_t x = (i + 1) * 0x9e3779b97f4a7c15ull ^ (std::uint64_t{seed} << 32 | seed);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return static_cast<std::uint32_t>(x >> 32);
}

/// In [-1, 1), a multiple of 2^-23: the arithmetic is exact on the host and on the device.
__host__ __device__ inline float randomUniform(std::uint32_t seed, std::uint64_t i) {
  return static_cast<float>(static_cast<std::int32_t>(randomBits(seed, i) >> 8) - (1 << 23)) /
         static_cast<float>(1 << 23);
}

/// The filling of an array: `offset` + `scale` * randomUniform(`seed`, i). The scale is a power of
/// two, so a multiply-add is rounded like a product and a sum.
struct Filling {
  std::uint32_t seed = 0;
  float scale = 0, offset = 0;
  __host__ __device__ float at(std::uint64_t i) const {
    return offset + scale * randomUniform(seed, i);
  }
};

/// The largest power of two below `value`.
float powerBelow(double value);

/// All memory of a model; the destructor frees it. The model's own stream clears and fills it: once
/// a process has had kernels on two streams beside the server's, the server's graphs take longer
/// (docs/guide/troubleshoot.md).
class Memory {
public:
  explicit Memory(cudaStream_t stream) : stream(stream) {}
  Memory(const Memory &) = delete;
  Memory &operator=(const Memory &) = delete;
  ~Memory();

  /// The memory is cleared before later work on the stream.
  void *allocate(std::size_t bytes);
  template <class T> T *array(std::size_t count) {
    return static_cast<T *>(allocate(count * sizeof(T)));
  }
  /// The array is full when the function returns.
  __half *halves(std::size_t count, const Filling &filling);
  float *floats(std::size_t count, const Filling &filling);
  /// Tensors in one array: the i-th from `starts`[i] to `starts`[i + 1], filled by `fillings`[i].
  float *floats(const std::vector<std::size_t> &starts, const std::vector<Filling> &fillings);
  template <class T> T *upload(const std::vector<T> &values) {
    T *to = array<T>(values.size());
    check(cudaMemcpyAsync(to, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice,
                          stream),
          "cudaMemcpyAsync");
    finish(stream);
    return to;
  }
  std::size_t bytes() const { return total; }

private:
  cudaStream_t stream;
  std::vector<void *> pieces;
  std::size_t total = 0;
};

/// Fills an array, without waiting.
void fill(cudaStream_t stream, __half *to, std::size_t count, const Filling &filling);
void fill(cudaStream_t stream, float *to, std::size_t count, const Filling &filling);

/// Copies the present values from the device.
template <class T> std::vector<T> download(const T *from, std::size_t count) {
  std::vector<T> values(count);
  check(cudaMemcpy(values.data(), from, count * sizeof(T), cudaMemcpyDeviceToHost), "cudaMemcpy");
  return values;
}
std::vector<float> downloadFloats(const __half *from, std::size_t count);

/// The values that halves() and floats() write to the device.
std::vector<double> hostHalves(std::size_t count, const Filling &filling);
std::vector<double> hostFloats(std::size_t count, const Filling &filling);

} // namespace workloads

#endif
