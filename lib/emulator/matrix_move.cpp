// ldmatrix, stmatrix, movmatrix, and wmma's loads and stores. PTX ISA 9.7.14.5.15 to 17, 9.7.14.4.
#include "access.h"
#include "matrix.h"

#include <cstring>

namespace tally::emulator {

namespace {

constexpr std::uint32_t tileRows = 8;
constexpr std::uint32_t rowBytes = 16; ///< bytes of a row of an 8×8 tile of 16-bit elements

/// Resolves the rows of the tiles: lanes 0-7 give the row addresses of the first, 8-15 of the
/// second, …
bool tileRowsAt(Warp &warp, const Op &op, AccessKind kind, std::uint64_t *host) {
  std::uint32_t lanes = op.extra * tileRows;
  std::uint32_t mask = lanes == warpSize ? fullMask : (1u << lanes) - 1;
  return resolveAddresses(warp, op, mask, rowBytes, kind, host);
}

// A lane holds two neighbours of row lane / 4, or of that column in a transposed tile.
std::uint64_t elementAt(const std::uint64_t *rows, std::uint32_t lane, std::uint32_t i,
                        bool transposed) {
  std::uint32_t row = lane / 4, column = lane % 4 * 2 + i;
  if (transposed)
    std::swap(row, column);
  return rows[row] + std::size_t{column} * 2;
}

/// Calls access(host address, register's row, lane) for each element of a wmma fragment; `again`
/// tells whether the element has been accessed before.
template <class F> bool forElements(Warp &warp, const Op &op, AccessKind kind, F access) {
  const MatrixAccess &what = warp.block->program->matrixAccesses[op.extra];
  const Fragment &fragment = what.fragment;
  std::uint32_t count = fragment.elements(), bytes = bitsOf(fragment.element) / 8;
  std::uint32_t leading = what.columnMajor ? fragment.rows : fragment.columns;
  auto *address = warp.row<std::uint64_t>(op.slot[5]);
  Op each = op;
  each.slot[4] = op.slot[5];
  each.addressSize = 8;
  for (std::uint32_t i = 0; i < count; ++i) {
    for (std::uint32_t lane = 0; lane < warpSize; ++lane) {
      std::uint64_t base = op.slot[4] == noSlot  ? 0
                           : op.addressSize == 8 ? warp.row<std::uint64_t>(op.slot[4])[lane]
                                                 : warp.row<std::uint32_t>(op.slot[4])[lane];
      std::uint32_t stride =
          op.slot[6] == noSlot ? leading : warp.row<std::uint32_t>(op.slot[6])[lane];
      std::uint32_t place = fragment.place[std::size_t{i} * warpSize + lane];
      std::uint64_t row = place / fragment.columns, column = place % fragment.columns;
      std::uint64_t index = what.columnMajor ? column * stride + row : row * stride + column;
      address[lane] = base + index * bytes;
    }
    std::uint64_t host[warpSize];
    if (!resolveAddresses(warp, each, fullMask, bytes, kind, host))
      return false;
    for (std::uint32_t lane = 0; lane < warpSize; ++lane)
      access(fragment, i, lane, reinterpret_cast<std::byte *>(host[lane]), bytes);
  }
  return true;
}

/// Returns the bytes of lane's element i in its register.
std::byte *registerBytes(Warp &warp, const Fragment &fragment, std::uint32_t i,
                         std::uint32_t lane) {
  std::uint32_t bytes = bitsOf(fragment.element) / 8, per = fragment.perRegister;
  return warp.row<std::byte>(fragment.slots[i / per]) + (std::size_t{lane} * per + i % per) * bytes;
}

} // namespace

Status loadTiles(Warp &warp, const Op &op, std::uint32_t mask) {
  std::uint64_t rows[warpSize];
  if (!isWholeWarp(warp, op, mask) || !tileRowsAt(warp, op, AccessKind::Read, rows))
    return Status::Fault;
  // A destination register may hold the address; all rows are resolved by now.
  for (std::uint32_t n = 0; n < op.extra; ++n) {
    auto *d = warp.row<std::uint16_t>(op.slot[n]);
    for (std::uint32_t lane = 0; lane < warpSize; ++lane)
      for (std::uint32_t i = 0; i < 2; ++i)
        std::memcpy(d + std::size_t{lane} * 2 + i,
                    reinterpret_cast<const void *>(
                        elementAt(rows + std::size_t{n} * tileRows, lane, i, op.flags & 1u)),
                    2);
  }
  return Status::Next;
}

Status storeTiles(Warp &warp, const Op &op, std::uint32_t mask) {
  std::uint64_t rows[warpSize];
  if (!isWholeWarp(warp, op, mask) || !tileRowsAt(warp, op, AccessKind::Write, rows))
    return Status::Fault;
  for (std::uint32_t n = 0; n < op.extra; ++n) {
    const auto *s = warp.row<std::uint16_t>(op.slot[n]);
    for (std::uint32_t lane = 0; lane < warpSize; ++lane)
      for (std::uint32_t i = 0; i < 2; ++i)
        std::memcpy(reinterpret_cast<void *>(
                        elementAt(rows + std::size_t{n} * tileRows, lane, i, op.flags & 1u)),
                    s + std::size_t{lane} * 2 + i, 2);
  }
  return Status::Next;
}

Status transposeTile(Warp &warp, const Op &op, std::uint32_t mask) {
  if (!isWholeWarp(warp, op, mask))
    return Status::Fault;
  std::uint16_t tile[tileRows * tileRows];
  const auto *from = warp.row<std::uint16_t>(op.slot[1]);
  std::memcpy(tile, from, sizeof tile);
  auto *to = warp.row<std::uint16_t>(op.slot[0]);
  for (std::uint32_t row = 0; row < tileRows; ++row)
    for (std::uint32_t column = 0; column < tileRows; ++column)
      to[row * tileRows + column] = tile[column * tileRows + row];
  return Status::Next;
}

Status loadMatrix(Warp &warp, const Op &op, std::uint32_t mask) {
  if (!isWholeWarp(warp, op, mask))
    return Status::Fault;
  bool done = forElements(warp, op, AccessKind::Read,
                          [&](const Fragment &fragment, std::uint32_t i, std::uint32_t lane,
                              const std::byte *host, std::uint32_t bytes) {
                            std::memcpy(registerBytes(warp, fragment, i, lane), host, bytes);
                          });
  return done ? Status::Next : Status::Fault;
}

Status storeMatrix(Warp &warp, const Op &op, std::uint32_t mask) {
  if (!isWholeWarp(warp, op, mask))
    return Status::Fault;
  bool done = forElements(warp, op, AccessKind::Write,
                          [&](const Fragment &fragment, std::uint32_t i, std::uint32_t lane,
                              std::byte *host, std::uint32_t bytes) {
                            std::memcpy(host, registerBytes(warp, fragment, i, lane), bytes);
                          });
  return done ? Status::Next : Status::Fault;
}

} // namespace tally::emulator
