// Operands of products: the address of the piece of 8 halves with given indices. If an operand is
// not turned, its pieces run along k; if it is turned, they run along m or n. Each operand has
// fewer than 2^31 halves.
//
//   line(i)            precomputed values of the index i along m or n; if turned, of 8 from i on
//   step(k)            precomputed values of the index k
//   piece(line, step)  the address; `inside` becomes false if the piece stands for zeros
//   choose(index)      selects the product of this index in a batch
#ifndef TALLY_BENCHMARKS_WORKLOADS_KERNELS_OPERANDS_CUH
#define TALLY_BENCHMARKS_WORKLOADS_KERNELS_OPERANDS_CUH

#include <cuda_fp16.h>

#include <type_traits>

namespace workloads::product {

/// A matrix in memory: `extent` (m or n) lines of k halves, or k lines of `extent` halves if it is
/// turned; lines are `stride` halves apart. Product i of a batch begins (i / perOuter) * outer + (i
/// % perOuter) * inner halves further on.
template <bool isTurned> struct Matrix {
  static constexpr bool turned = isTurned;
  const __half *data = nullptr;
  int extent = 0, stride = 0;
  long long outer = 0, inner = 0;
  int perOuter = 1;

  struct Line {
    int offset;
    bool inside;
  };
  using Step = const __half *;
  __device__ __forceinline__ void choose(int index) {
    data += index / perOuter * outer + index % perOuter * inner;
  }
  __device__ __forceinline__ Line line(int i) const {
    return {turned ? i : i * stride, i < extent};
  }
  __device__ __forceinline__ Step step(int k) const {
    return data + k * static_cast<long long>(turned ? stride : 1);
  }
  __device__ __forceinline__ const __half *piece(const Line &line, Step step, bool &inside) const {
    inside = inside && line.inside;
    return step + line.offset;
  }
};
using Plain = Matrix<false>;
using Turned = Matrix<true>;

/// Division of numbers below 2^31 by a number that the host knows.
struct Divisor {
  unsigned value = 1, multiplier = 0, shift = 0;
  Divisor() = default;
  explicit Divisor(unsigned by) : value(by) {
    while ((1ull << shift) < by)
      ++shift;
    multiplier = static_cast<unsigned>(((1ull << 32) * ((1ull << shift) - by)) / by + 1);
  }
  __device__ __forceinline__ unsigned quotient(unsigned x) const {
    return (__umulhi(x, multiplier) + x) >> shift;
  }
};

/// A row outside of every image, even after an addition: threads keep many places, and a flag for
/// each would take registers.
constexpr int outside = 1 << 29;

/// A convolution: images [count][height][width][channels], filters [filters][taps][taps][channels],
/// results [count][rows][columns][filters]. Channels and filters are multiples of 8.
struct Convolution {
  int count, height, width, channels, filters, taps, stride, margin, rows, columns;

  Convolution(int count, int height, int width, int channels, int filters, int taps, int stride)
      : count(count), height(height), width(width), channels(channels), filters(filters),
        taps(taps), stride(stride), margin(taps / 2),
        rows((height + 2 * margin - taps) / stride + 1),
        columns((width + 2 * margin - taps) / stride + 1) {}
  int pixels() const { return count * height * width; }
  int results() const { return count * rows * columns; }
  int filterSize() const { return taps * taps * channels; }
};

/// The pixels under each result's filter, as a matrix of results by (tap, tap, channel): the left
/// operand of a convolution; turned, the right operand of the gradient of its filters.
template <bool isTurned> struct Patches {
  static constexpr bool turned = isTurned;
  const __half *images;
  int resultCount, size, height, width, channels, stride, margin, taps;
  Divisor perImage, perRow, perTap, tapsWide;

  Patches(const __half *images, const Convolution &c)
      : images(images), resultCount(c.results()), size(c.filterSize()), height(c.height),
        width(c.width), channels(c.channels), stride(c.stride), margin(c.margin), taps(c.taps),
        perImage(c.rows * c.columns), perRow(c.columns), perTap(c.channels), tapsWide(c.taps) {}

  struct Corner {
    int image; ///< its first half
    int row, column;
  };
  struct Tap {
    int row, column, channel;
  };
  __device__ __forceinline__ Corner corner(int result) const {
    unsigned image = perImage.quotient(result), place = result - image * perImage.value;
    unsigned row = perRow.quotient(place), column = place - row * perRow.value;
    return {static_cast<int>(image) * height * width * channels,
            result < resultCount ? static_cast<int>(row) * stride - margin : outside,
            static_cast<int>(column) * stride - margin};
  }
  __device__ __forceinline__ Tap tap(int k) const {
    unsigned which = perTap.quotient(k), row = tapsWide.quotient(which);
    return {k < size ? static_cast<int>(row) : outside, static_cast<int>(which - row * taps),
            static_cast<int>(k - which * channels)};
  }
  __device__ __forceinline__ const __half *at(const Corner &corner, const Tap &tap,
                                              bool &inside) const {
    int row = corner.row + tap.row, column = corner.column + tap.column;
    inside = inside && static_cast<unsigned>(row) < height && static_cast<unsigned>(column) < width;
    return images + (inside ? corner.image + (row * width + column) * channels + tap.channel : 0);
  }
  __device__ __forceinline__ void choose(int) const {}

  using Line = std::conditional_t<turned, Tap, Corner>;
  using Step = std::conditional_t<turned, Corner, Tap>;
  __device__ __forceinline__ Line line(int i) const {
    if constexpr (turned)
      return tap(i);
    else
      return corner(i);
  }
  __device__ __forceinline__ Step step(int k) const {
    if constexpr (turned)
      return corner(k);
    else
      return tap(k);
  }
  __device__ __forceinline__ const __half *piece(const Line &line, const Step &step,
                                                 bool &inside) const {
    if constexpr (turned)
      return at(step, line, inside);
    else
      return at(line, step, inside);
  }
};

/// The results whose gradients reach each pixel, as a matrix of pixels by (tap, tap, filter): the
/// left operand of the gradient of a convolution's images.
struct GradientPatches {
  static constexpr bool turned = false;
  const __half *gradients;
  int pixelCount, size, rows, columns, filters, stride, margin, taps;
  Divisor perImage, perRow, perTap, tapsWide;

  GradientPatches(const __half *gradients, const Convolution &c)
      : gradients(gradients), pixelCount(c.pixels()), size(c.taps * c.taps * c.filters),
        rows(c.rows), columns(c.columns), filters(c.filters), stride(c.stride), margin(c.margin),
        taps(c.taps), perImage(c.height * c.width), perRow(c.width), perTap(c.filters),
        tapsWide(c.taps) {}

  struct Line {
    int image; ///< its first half
    int row, column;
  };
  struct Step {
    int row, column, filter;
  };
  __device__ __forceinline__ void choose(int) const {}
  __device__ __forceinline__ Line line(int pixel) const {
    unsigned image = perImage.quotient(pixel), place = pixel - image * perImage.value;
    unsigned row = perRow.quotient(place), column = place - row * perRow.value;
    return {static_cast<int>(image) * rows * columns * filters,
            pixel < pixelCount ? static_cast<int>(row) + margin : outside,
            static_cast<int>(column) + margin};
  }
  __device__ __forceinline__ Step step(int k) const {
    unsigned which = perTap.quotient(k), row = tapsWide.quotient(which);
    return {static_cast<int>(row), static_cast<int>(which - row * taps),
            static_cast<int>(k - which * filters)};
  }
  __device__ __forceinline__ const __half *piece(const Line &line, const Step &step,
                                                 bool &inside) const {
    // stride is 1 or 2.
    int row = line.row - step.row, column = line.column - step.column;
    inside = inside && ((row | column) & (stride - 1)) == 0;
    row >>= stride - 1;
    column >>= stride - 1;
    inside = inside && static_cast<unsigned>(row) < rows && static_cast<unsigned>(column) < columns;
    return gradients + (inside ? line.image + (row * columns + column) * filters + step.filter : 0);
  }
};

/// Filters as a matrix of (tap, tap, filter) by channel, in the order of GradientPatches.
struct TurnedFilters {
  static constexpr bool turned = true;
  const __half *filters;
  int channels, filterSize, size;
  Divisor perTap;

  TurnedFilters(const __half *filters, const Convolution &c)
      : filters(filters), channels(c.channels), filterSize(c.filterSize()),
        size(c.taps * c.taps * c.filters), perTap(c.filters) {}

  struct Line {
    int channel;
    bool inside;
  };
  struct Step {
    long long offset;
    bool inside;
  };
  __device__ __forceinline__ void choose(int) const {}
  __device__ __forceinline__ Line line(int channel) const { return {channel, channel < channels}; }
  __device__ __forceinline__ Step step(int k) const {
    unsigned which = perTap.quotient(k), filter = k - which * perTap.value;
    return {static_cast<long long>(filter) * filterSize + which * channels, k < size};
  }
  __device__ __forceinline__ const __half *piece(const Line &line, const Step &step,
                                                 bool &inside) const {
    inside = inside && line.inside && step.inside;
    return inside ? filters + step.offset + line.channel : filters;
  }
};

} // namespace workloads::product

#endif
