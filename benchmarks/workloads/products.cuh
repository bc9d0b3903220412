// Launches products: chooses the tile, and the number of splits of k.
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

/// The products of one stream, which take turns with the memory for splits of k.
class Products {
public:
  /// `sms` is a constant instead of the device's number of SMs, which under MPS is the client's
  /// limit. So the splits, and with them the bits of results, are the same everywhere. Size::small
  /// has few SMs, so that tests reach every case.
  Products(Memory &memory, Size size)
      : sms(size == Size::small ? 2 : 132), mostUnsplit(size == Size::small ? 256 : 1024) {
    sums = memory.array<float4>(static_cast<std::size_t>(sms) * blocksPerSm * 64 * 64 / 4);
    arrived = memory.array<unsigned>(static_cast<std::size_t>(sms) * blocksPerSm);
  }

  template <class A, class B>
  void run(cudaStream_t stream, const A &a, const B &b, const Result &result, int m, int n, int k,
           int batch = 1) const {
    if (tiles<Medium>(m, n) * batch < sms) {
      if (tiles<Small>(m, n) * batch * 2 <= sms && k <= mostUnsplit)
        launch<Tiny>(stream, a, b, result, m, n, k, batch, 1);
      else
        launch<Small>(stream, a, b, result, m, n, k, batch, splitsOf(m, n, k, batch));
      return;
    }
    double large = time<Large>(m, n, batch, 1.0), wide = time<Wide>(m, n, batch, 0.92);
    double lower = time<Lower>(m, n, batch, 0.85), medium = time<Medium>(m, n, batch, 0.91);
    double least = std::min({large, wide, lower, medium, time<Small>(m, n, batch, 0.68)});
    if (least == large)
      launch<Large>(stream, a, b, result, m, n, k, batch, 1);
    else if (least == wide)
      launch<Wide>(stream, a, b, result, m, n, k, batch, 1);
    else if (least == medium)
      launch<Medium>(stream, a, b, result, m, n, k, batch, 1);
    else if (least == lower)
      launch<Lower>(stream, a, b, result, m, n, k, batch, 1);
    else
      launch<Small>(stream, a, b, result, m, n, k, batch, 1);
  }

private:
  // The reads of shared memory by warps bound large products: the larger a warp's part, the fewer
  // bytes each multiplication takes. These tiles have warps of 64 x 64, 64 x 48, 48 x 48 and 48 x
  // 64; the launcher chooses the tile by how well a result's tiles fill the SMs. Two blocks of
  // Large or Medium fit on an SM: one multiplies while the other waits for its slabs or stores,
  // which takes most of the time if k is short.
  using Large = product::Tile<128, 128, 64, 2, 2, 3, 2>;
  using Wide = product::Tile<128, 192, 64, 2, 4, 4, 1>;
  using Lower = product::Tile<96, 192, 64, 2, 4, 4, 1>;
  using Medium = product::Tile<96, 128, 64, 2, 2, 4, 2>;
  // The latency of memory bounds small products: these have many blocks, and many slabs in flight.
  using Small = product::Tile<64, 64, 64, 2, 2, 4, 3>;
  using Tiny = product::Tile<32, 32, 64, 2, 2, 8, 3>;
  static constexpr int blocksPerSm = 2, leastSlabs = 2, group = 16;

  template <class Shape> static long long tiles(int m, int n) {
    return static_cast<long long>((m + Shape::tileM - 1) / Shape::tileM) *
           ((n + Shape::tileN - 1) / Shape::tileN);
  }
  /// Time of the SM with most tiles, in results of Large. `rate`: speed of this shape's tiles over
  /// Large's, from times on an H200.
  template <class Shape> double time(int m, int n, int batch, double rate) const {
    return static_cast<double>((tiles<Shape>(m, n) * batch + sms - 1) / sms) * Shape::tileM *
           Shape::tileN / rate;
  }
  /// As many splits as fit on the SMs, each with some slabs; the last block adds all of them up.
  int splitsOf(int m, int n, int k, int batch) const {
    long long blocks = tiles<Small>(m, n);
    if (batch > 1 || k <= mostUnsplit)
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
    // The object remembers the kernel, since a static variable would not do: the kernel's address
    // differs by translation unit.
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
  int mostUnsplit; ///< largest k for which a split of k between blocks costs more time than it
                   ///< saves
  float4 *sums = nullptr;
  unsigned *arrived = nullptr;
  mutable std::set<const void *> allowed; // kernels with more shared memory than the default
};

/// A matrix of `extent` successive lines.
inline Plain plain(const __half *data, int extent, int stride) { return {data, extent, stride}; }
inline Turned turned(const __half *data, int extent, int stride) { return {data, extent, stride}; }

} // namespace workloads

#endif
