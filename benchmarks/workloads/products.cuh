// Launches products: chooses the tile, and into how many parts k is split.
#ifndef TALLY_BENCHMARKS_WORKLOADS_PRODUCTS_CUH
#define TALLY_BENCHMARKS_WORKLOADS_PRODUCTS_CUH

#include "kernels/operands.cuh"
#include "kernels/product.cuh"
#include "workload.h"

#include <algorithm>
#include <set>

namespace workloads {

using product::Activation;
using product::Plain;
using product::Result;
using product::Turned;

/// Of one stream: products on it take turns with the memory that splits of k need.
class Products {
public:
  /// Not the device's number of SMs, which under MPS is what its limit leaves: the splits, and with
  /// them the bits of results, are the same everywhere. Few for Size::small, so that all ways are
  /// gone.
  Products(Memory &memory, Size size) : sms(size == Size::small ? 2 : 132) {
    sums = memory.array<float4>(static_cast<std::size_t>(sms) * blocksPerSm * 64 * 64 / 4);
    arrived = memory.array<unsigned>(static_cast<std::size_t>(sms) * blocksPerSm);
  }

  template <class A, class B>
  void run(cudaStream_t stream, const A &a, const B &b, const Result &result, int m, int n, int k,
           int batch = 1) const {
    if (tiles<Large>(m, n) * batch >= sms)
      launch<Large>(stream, a, b, result, m, n, k, batch, 1);
    else
      launch<Small>(stream, a, b, result, m, n, k, batch, splitsOf(m, n, k, batch));
  }

private:
  using Large = product::Tile<128, 256, 64, 2, 4, 4, 1>;
  using Small = product::Tile<64, 64, 64, 2, 2, 4, 3>;
  static constexpr int blocksPerSm = 2, leastSlabs = 2, group = 8;

  template <class Shape> static long long tiles(int m, int n) {
    return static_cast<long long>((m + Shape::tileM - 1) / Shape::tileM) *
           ((n + Shape::tileN - 1) / Shape::tileN);
  }
  /// As many as the SMs have room for, each with some slabs: the last block adds all of them up.
  int splitsOf(int m, int n, int k, int batch) const {
    long long blocks = tiles<Small>(m, n);
    if (batch > 1)
      return 1;
    long long most = std::min<long long>(sms * (blocks * 2 > sms ? blocksPerSm : 1) / blocks,
                                         k / Small::slab / leastSlabs);
    return static_cast<int>(std::max<long long>(most, 1));
  }
  template <class Shape, class A, class B>
  void launch(cudaStream_t stream, const A &a, const B &b, const Result &result, int m, int n,
              int k, int batch, int splits) const {
    constexpr std::size_t bytes = product::sharedBytes<Shape>;
    auto kernel = product::multiply<Shape, A, B>;
    // Remembered here and in no static variable: which kernel this is differs by translation unit.
    if (bytes > 48 * 1024 && allowed.insert(reinterpret_cast<const void *>(kernel)).second)
      check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(bytes)),
            "cudaFuncSetAttribute");
    dim3 grid((m + Shape::tileM - 1) / Shape::tileM, (n + Shape::tileN - 1) / Shape::tileN,
              batch * splits);
    kernel<<<grid, Shape::threads, bytes, stream>>>(a, b, result, {splits, sums, arrived}, group, m,
                                                    n, k);
  }

  int sms;
  float4 *sums = nullptr;
  unsigned *arrived = nullptr;
  mutable std::set<const void *> allowed; // to use more shared memory than any kernel may
};

/// A matrix of `extent` lines that follow each other.
inline Plain plain(const __half *data, int extent, int stride) { return {data, extent, stride}; }
inline Turned turned(const __half *data, int extent, int stride) { return {data, extent, stride}; }

} // namespace workloads

#endif
