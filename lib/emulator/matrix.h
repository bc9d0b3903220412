// Matrix fragments: the mapping of matrix elements to the registers of a warp, and the instructions
// that multiply matrices. PTX ISA 9.7.14.
#ifndef TALLY_LIB_EMULATOR_MATRIX_H
#define TALLY_LIB_EMULATOR_MATRIX_H

#include "op.h"

#include <cstdint>
#include <string_view>
#include <vector>

namespace tally::emulator {

/// The type of a fragment's elements.
enum class Element : std::uint8_t {
  None,
  F16,
  BF16,
  TF32,
  F32,
  F64,
  E4M3,
  E5M2,
  S4,
  U4,
  S8,
  U8,
  S32
};

/// Returns the element that a modifier such as "bf16" names; None for any other modifier.
Element elementNamed(std::string_view modifier);
/// Returns the bits of an element in a register (of tf32 all 32).
std::uint32_t bitsOf(Element element);
constexpr bool isIntegral(Element element) { return element >= Element::S4; }

/// The distribution of a `rows` × `columns` matrix, row-major here, over the registers of a warp.
struct Fragment {
  Element element = Element::None;
  std::uint32_t rows = 0, columns = 0;
  std::uint32_t perRegister = 0; ///< elements in a register
  std::vector<Slot> slots;       ///< the registers' rows
  /// Index in the matrix of each element of the lanes: the first element of each lane, lane by
  /// lane, then the second of each, …, in the order of the registers.
  std::vector<std::uint16_t> place;

  std::uint32_t elements() const { return static_cast<std::uint32_t>(place.size()) / warpSize; }
};

/// Limit on elements of one matrix, all batches together: the number in A of m16n8k64.
inline constexpr std::uint32_t mostMatrixElements = 1024;

/// d = a × b + c on one warp, `batches` times: m8n8k4 of f16 is four products at once, whose
/// matrices are stacked vertically.
struct MatrixProduct {
  std::uint32_t m = 0, n = 0, k = 0, batches = 1;
  bool clamps = false; ///< .satfinite on integers
  Fragment a, b, c, d;
};

/// wmma.load and wmma.store: the fragment in memory.
struct MatrixAccess {
  Fragment fragment;
  bool columnMajor = false;
};

/// The operand's role, for the layout.
enum class MatrixRole : std::uint8_t { A, B, Accumulator };

/// Lays out the fragment of mma with this shape, without its slots. For the f16 m8n8k4,
/// `transposed` means a column-major A or a row-major B. Returns false when there is no such form.
bool layOutMma(MatrixRole role, Element element, std::uint32_t m, std::uint32_t n, std::uint32_t k,
               bool transposed, Fragment &fragment);
/// Lays out the fragment of wmma with this shape. The ISA leaves its layout open.
bool layOutWmma(MatrixRole role, Element element, std::uint32_t m, std::uint32_t n, std::uint32_t k,
                Fragment &fragment);

/// Op::extra is an index into Program::products.
Status multiplyMatrices(Warp &warp, const Op &op, std::uint32_t mask);
/// Op::extra is an index into Program::matrixAccesses; slot 4 is the address, slot 5 a row for
/// addresses, slot 6 the stride in elements.
Status loadMatrix(Warp &warp, const Op &op, std::uint32_t mask);
Status storeMatrix(Warp &warp, const Op &op, std::uint32_t mask);
/// ldmatrix, stmatrix: registers in slots 0 to 3 (`extra` of them), the address in slot 4, flags
/// bit 0 for .trans. movmatrix: slot 0 from slot 1.
Status loadTiles(Warp &warp, const Op &op, std::uint32_t mask);
Status storeTiles(Warp &warp, const Op &op, std::uint32_t mask);
Status transposeTile(Warp &warp, const Op &op, std::uint32_t mask);

/// Faults unless the lanes are a whole warp, which all these instructions need.
bool isWholeWarp(Warp &warp, const Op &op, std::uint32_t mask);

} // namespace tally::emulator

#endif
