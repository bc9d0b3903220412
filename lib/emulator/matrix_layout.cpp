#include "matrix.h"

#include <utility>

namespace tally::emulator {

Element elementNamed(std::string_view modifier) {
  static constexpr std::pair<std::string_view, Element> names[] = {
      {"f16", Element::F16},   {"bf16", Element::BF16}, {"tf32", Element::TF32},
      {"f32", Element::F32},   {"f64", Element::F64},   {"e4m3", Element::E4M3},
      {"e5m2", Element::E5M2}, {"s4", Element::S4},     {"u4", Element::U4},
      {"s8", Element::S8},     {"u8", Element::U8},     {"s32", Element::S32}};
  for (const auto &[name, element] : names)
    if (name == modifier)
      return element;
  return Element::None;
}

std::uint32_t bitsOf(Element element) {
  switch (element) {
  case Element::None:
    return 0;
  case Element::S4:
  case Element::U4:
    return 4;
  case Element::E4M3:
  case Element::E5M2:
  case Element::S8:
  case Element::U8:
    return 8;
  case Element::F16:
  case Element::BF16:
    return 16;
  case Element::TF32:
  case Element::F32:
  case Element::S32:
    return 32;
  case Element::F64:
    return 64;
  }
  return 0;
}

namespace {

void shape(Fragment &fragment, Element element, std::uint32_t rows, std::uint32_t columns) {
  fragment.element = element;
  fragment.rows = rows;
  fragment.columns = columns;
  fragment.perRegister = element == Element::F64 ? 1 : 32 / bitsOf(element);
  fragment.place.clear();
}

/// Calls at(lane, i) for each of a lane's `count` elements, and stores the results.
template <class F> void fill(Fragment &fragment, std::uint32_t count, F at) {
  for (std::uint32_t i = 0; i < count; ++i)
    for (std::uint32_t lane = 0; lane < warpSize; ++lane) {
      auto [row, column] = at(lane, i);
      fragment.place.push_back(static_cast<std::uint16_t>(row * fragment.columns + column));
    }
}

using Place = std::pair<std::uint32_t, std::uint32_t>;

/// mma.m8n8k4 on f16: lanes 0-3 with 16-19, 4-7 with 20-23, … multiply separate matrices.
bool layOutQuads(MatrixRole role, Element element, bool transposed, Fragment &fragment) {
  bool isAccumulator = role == MatrixRole::Accumulator;
  shape(fragment, element, role == MatrixRole::B ? 4 : 8, role == MatrixRole::A ? 4 : 8);
  std::uint32_t rows = fragment.rows;
  fill(fragment, isAccumulator ? 8 : 4, [&](std::uint32_t lane, std::uint32_t i) -> Place {
    std::uint32_t batch = lane % 16 / 4, high = lane < 16 ? 0 : 4, row, column;
    if (isAccumulator && element == Element::F32) {
      row = (lane & 1) + (i & 2) + high;
      column = (i & 4) + (lane & 2) + (i & 1);
    } else if (isAccumulator) {
      row = lane % 4 + high;
      column = i;
    } else if (role == MatrixRole::A) {
      row = transposed ? i + high : lane % 4 + high;
      column = transposed ? lane % 4 : i;
    } else {
      row = transposed ? lane % 4 : i;
      column = transposed ? i + high : lane % 4 + high;
    }
    return {batch * rows + row, column};
  });
  return true;
}

} // namespace

// PTX ISA 9.7.14.5 has a figure for every shape and type; one rule describes them all. A lane's
// group is lane / 4, and its place in the group lane % 4. A register holds neighbours along k. The
// registers of A go down first (8 rows each), then along k; the registers of B go along k.
bool layOutMma(MatrixRole role, Element element, std::uint32_t m, std::uint32_t n, std::uint32_t k,
               bool transposed, Fragment &fragment) {
  if (m == 8 && k == 4 && element != Element::F64)
    return layOutQuads(role, element, transposed, fragment);
  if (n != 8 || (m != 8 && m != 16) || transposed)
    return false;
  if (role == MatrixRole::Accumulator) {
    shape(fragment, element, m, n);
    fill(fragment, m * n / warpSize, [](std::uint32_t lane, std::uint32_t i) -> Place {
      return {lane / 4 + i / 2 * 8, lane % 4 * 2 + i % 2};
    });
    return true;
  }
  bool isA = role == MatrixRole::A;
  shape(fragment, element, isA ? m : k, isA ? k : n);
  std::uint32_t per = fragment.perRegister, down = isA ? m / 8 : 1;
  std::uint32_t count = (isA ? m : n) * k / warpSize;
  if (count == 0 || k % (4 * per))
    return false;
  fill(fragment, count, [&](std::uint32_t lane, std::uint32_t i) -> Place {
    std::uint32_t inRegister = i % per, which = i / per;
    std::uint32_t along = lane % 4 * per + inRegister + which / down * 4 * per;
    std::uint32_t across = lane / 4 + which % down * 8;
    return isA ? Place{across, along} : Place{along, across};
  });
  return true;
}

// Elements go to the lanes in order. The f16 fragments of A and B have 16 elements per lane for
// every shape, so some elements appear more than once.
bool layOutWmma(MatrixRole role, Element element, std::uint32_t m, std::uint32_t n, std::uint32_t k,
                Fragment &fragment) {
  shape(fragment, element, role == MatrixRole::B ? k : m, role == MatrixRole::A ? k : n);
  std::uint32_t own = fragment.rows * fragment.columns / warpSize;
  if (own == 0)
    return false;
  bool repeats = element == Element::F16 && role != MatrixRole::Accumulator;
  fill(fragment, repeats ? 16 : own,
       [&](std::uint32_t lane, std::uint32_t i) -> Place { return {0, lane * own + i % own}; });
  return true;
}

} // namespace tally::emulator
