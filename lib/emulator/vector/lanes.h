// The lane loops of the handlers.
//
// All files in this folder are compiled once for the plain target and, on x86-64, once for AVX2 and
// FMA, each in its own namespace (TALLY_EMULATOR_ISA); isa.cpp chooses at run time. So no file here
// may define inline functions outside that namespace.
#ifndef TALLY_LIB_EMULATOR_VECTOR_LANES_H
#define TALLY_LIB_EMULATOR_VECTOR_LANES_H

#include "../op.h"
#include "../types.h"
#include "../warp.h"

#include <cstdint>

#ifndef TALLY_EMULATOR_ISA
#define TALLY_EMULATOR_ISA plain
#endif

namespace tally::emulator::TALLY_EMULATOR_ISA {

/// Calls fn(lane) for the lanes in the mask. A full warp runs a loop that the compiler vectorises:
/// rows either coincide or are disjoint, so there is no dependence between lanes.
template <class Fn> [[gnu::always_inline]] inline void forLanes(std::uint32_t mask, Fn fn) {
  if (mask == fullMask) {
#pragma GCC ivdep
    for (std::uint32_t lane = 0; lane < warpSize; ++lane)
      fn(lane);
  } else {
    for (; mask; mask &= mask - 1)
      fn(static_cast<std::uint32_t>(__builtin_ctz(mask)));
  }
}

/// Returns the mask of lanes in `mask` for which test(lane) holds.
template <class Test>
[[gnu::always_inline]] inline std::uint32_t lanesWhere(std::uint32_t mask, Test test) {
  std::uint32_t result = 0;
  for (std::uint32_t lane = 0; lane < warpSize; ++lane)
    result |= static_cast<std::uint32_t>(test(lane)) << lane;
  return result & mask;
}

template <class D, class A, class F> Status unary(Warp &warp, const Op &op, std::uint32_t mask) {
  D *d = warp.row<D>(op.slot[0]);
  const A *a = warp.row<A>(op.slot[1]);
  forLanes(mask, [=](std::uint32_t i) { d[i] = F::apply(a[i]); });
  return Status::Next;
}

template <class D, class A, class B, class F>
Status binary(Warp &warp, const Op &op, std::uint32_t mask) {
  D *d = warp.row<D>(op.slot[0]);
  const A *a = warp.row<A>(op.slot[1]);
  const B *b = warp.row<B>(op.slot[2]);
  forLanes(mask, [=](std::uint32_t i) { d[i] = F::apply(a[i], b[i]); });
  return Status::Next;
}

template <class D, class A, class B, class C, class F>
Status ternary(Warp &warp, const Op &op, std::uint32_t mask) {
  D *d = warp.row<D>(op.slot[0]);
  const A *a = warp.row<A>(op.slot[1]);
  const B *b = warp.row<B>(op.slot[2]);
  const C *c = warp.row<C>(op.slot[3]);
  forLanes(mask, [=](std::uint32_t i) { d[i] = F::apply(a[i], b[i], c[i]); });
  return Status::Next;
}

} // namespace tally::emulator::TALLY_EMULATOR_ISA

#endif
