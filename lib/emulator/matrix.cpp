// mma and wmma.mma, lane's registers → matrices → product → registers.
//
// The ISA leaves the order and the precision of the sums open. Here a product of elements of up to
// 16 bits is exact. Every sum starts with c and adds in order of k, rounded to f32 at each step
// (with f64 operands: one fused step each in f64). An f16 result is rounded once, at the end.
// Integers are summed exactly, and wrapped or clamped at the end.
#include "matrix.h"

#include "half.h"
#include "program.h"
#include "warp.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace tally::emulator {

namespace {

/// Computes value(bits of the lane's element) for every lane.
template <class T, class F>
void eachLane(const std::uint32_t *row, std::uint32_t shift, std::uint32_t wanted, T *values,
              F value) {
#pragma GCC ivdep
  for (std::uint32_t lane = 0; lane < warpSize; ++lane)
    values[lane] = value(row[lane] >> shift & wanted);
}

void decode(Element element, const std::uint32_t *row, std::uint32_t shift, float *values) {
  auto half = [](std::uint32_t bits) { return halfToFloat(static_cast<std::uint16_t>(bits)); };
  auto bfloat = [](std::uint32_t bits) { return std::bit_cast<float>(bits << 16); };
  // The low bits of a tf32 are ignored.
  auto tensor = [](std::uint32_t bits) { return std::bit_cast<float>(bits & 0xffffe000u); };
  auto single = [](std::uint32_t bits) { return std::bit_cast<float>(bits); };
  auto byte = [&](std::uint32_t bits) {
    return fromByteFloat(static_cast<std::uint8_t>(bits),
                         element == Element::E4M3 ? ByteFormat::E4M3 : ByteFormat::E5M2);
  };
  switch (element) {
  case Element::F16:
    return eachLane(row, shift, 0xffffu, values, half);
  case Element::BF16:
    return eachLane(row, shift, 0xffffu, values, bfloat);
  case Element::TF32:
    return eachLane(row, shift, ~0u, values, tensor);
  case Element::E4M3:
  case Element::E5M2:
    return eachLane(row, shift, 0xffu, values, byte);
  default:
    return eachLane(row, shift, ~0u, values, single);
  }
}

void decode(Element element, const std::uint32_t *row, std::uint32_t shift, std::int32_t *values) {
  std::uint32_t unused = 32 - bitsOf(element);
  if (element == Element::S4 || element == Element::S8)
    return eachLane(row, shift, ~0u, values, [=](std::uint32_t bits) {
      return static_cast<std::int32_t>(bits << unused) >> unused;
    });
  eachLane(row, shift, ~0u >> unused, values,
           [](std::uint32_t bits) { return static_cast<std::int32_t>(bits); });
}

/// Reads the matrix from the fragment's registers.
template <class T> void gather(Warp &warp, const Fragment &fragment, T *matrix) {
  std::uint32_t count = fragment.elements(), per = fragment.perRegister;
  for (std::uint32_t i = 0; i < count; ++i) {
    Slot slot = fragment.slots[i / per];
    const std::uint16_t *place = fragment.place.data() + std::size_t{i} * warpSize;
    const T *values;
    alignas(64) T decoded[warpSize];
    if constexpr (std::is_same_v<T, double>) {
      values = warp.row<double>(slot);
    } else {
      decode(fragment.element, warp.row<std::uint32_t>(slot), i % per * bitsOf(fragment.element),
             decoded);
      values = decoded;
    }
    for (std::uint32_t lane = 0; lane < warpSize; ++lane)
      matrix[place[lane]] = values[lane];
  }
}

std::uint32_t encoded(Element element, float value) {
  if (element == Element::F16)
    return toHalf(double{value}, halfFormat, Rounding::Nearest);
  return std::isnan(value) ? 0x7fffffffu : std::bit_cast<std::uint32_t>(value);
}
std::uint32_t encoded(Element, std::int32_t value) { return static_cast<std::uint32_t>(value); }

template <class T> void scatter(Warp &warp, const Fragment &fragment, const T *matrix) {
  std::uint32_t count = fragment.elements(), per = fragment.perRegister;
  for (std::uint32_t i = 0; i < count; ++i) {
    Slot slot = fragment.slots[i / per];
    const std::uint16_t *place = fragment.place.data() + std::size_t{i} * warpSize;
    if constexpr (std::is_same_v<T, double>) {
      auto *row = warp.row<double>(slot);
      for (std::uint32_t lane = 0; lane < warpSize; ++lane)
        row[lane] = matrix[place[lane]];
    } else {
      auto *row = warp.row<std::uint32_t>(slot);
      std::uint32_t shift = i % per * bitsOf(fragment.element);
      for (std::uint32_t lane = 0; lane < warpSize; ++lane) {
        std::uint32_t bits = encoded(fragment.element, matrix[place[lane]]) << shift;
        row[lane] = shift ? row[lane] | bits : bits;
      }
    }
  }
}

template <class T> void accumulate(const MatrixProduct &product, const T *a, const T *b, T *sum) {
  const std::uint32_t m = product.m, n = product.n, k = product.k;
  for (std::uint32_t i = 0; i < m; ++i)
    for (std::uint32_t step = 0; step < k; ++step) {
      T factor = a[std::size_t{i} * k + step];
      const T *from = b + std::size_t{step} * n;
      T *to = sum + std::size_t{i} * n;
      for (std::uint32_t j = 0; j < n; ++j)
        if constexpr (std::is_same_v<T, double>)
          to[j] = std::fma(factor, from[j], to[j]);
        else
          to[j] += factor * from[j];
    }
}

void accumulateExactly(const MatrixProduct &product, const std::int32_t *a, const std::int32_t *b,
                       std::int32_t *sum) {
  for (std::uint32_t i = 0; i < product.m; ++i)
    for (std::uint32_t j = 0; j < product.n; ++j) {
      std::int32_t &to = sum[std::size_t{i} * product.n + j];
      std::int64_t total = to;
      for (std::uint32_t step = 0; step < product.k; ++step)
        total += std::int64_t{a[std::size_t{i} * product.k + step]} *
                 b[std::size_t{step} * product.n + j];
      if (product.clamps)
        total = std::clamp<std::int64_t>(total, std::numeric_limits<std::int32_t>::min(),
                                         std::numeric_limits<std::int32_t>::max());
      to = static_cast<std::int32_t>(total);
    }
}

template <class T> void multiply(Warp &warp, const MatrixProduct &product) {
  alignas(64) T a[mostMatrixElements], b[mostMatrixElements], sum[mostMatrixElements];
  gather(warp, product.a, a);
  gather(warp, product.b, b);
  gather(warp, product.c, sum);
  for (std::uint32_t batch = 0; batch < product.batches; ++batch) {
    const T *left = a + std::size_t{batch} * product.m * product.k;
    const T *right = b + std::size_t{batch} * product.k * product.n;
    T *to = sum + std::size_t{batch} * product.m * product.n;
    if constexpr (std::is_same_v<T, std::int32_t>)
      accumulateExactly(product, left, right, to);
    else
      accumulate(product, left, right, to);
  }
  scatter(warp, product.d, sum);
}

} // namespace

bool isWholeWarp(Warp &warp, const Op &op, std::uint32_t mask) {
  if (mask == fullMask)
    return true;
  raise(warp, op, static_cast<std::uint32_t>(std::countr_zero(mask)), FaultKind::BarrierMisuse,
        "barrier misuse: a matrix operation without all 32 threads of the warp");
  return false;
}

Status multiplyMatrices(Warp &warp, const Op &op, std::uint32_t mask) {
  if (!isWholeWarp(warp, op, mask))
    return Status::Fault;
  const MatrixProduct &product = warp.block->program->products[op.extra];
  if (product.a.element == Element::F64)
    multiply<double>(warp, product);
  else if (isIntegral(product.a.element))
    multiply<std::int32_t>(warp, product);
  else
    multiply<float>(warp, product);
  return Status::Next;
}

} // namespace tally::emulator
