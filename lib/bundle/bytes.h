// Little-endian numbers in untrusted bytes.
#ifndef TALLY_LIB_BUNDLE_BYTES_H
#define TALLY_LIB_BUNDLE_BYTES_H

#include "tally/support/result.h"

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tally::bundle {

/// Returns the little-endian number of `size` bytes at `offset`. The caller has checked that it
/// lies inside `bytes`.
inline std::uint64_t numberAt(std::string_view bytes, std::uint64_t offset, std::size_t size) {
  assert(offset <= bytes.size() && size <= bytes.size() - offset);
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < size; ++i)
    value |= std::uint64_t{static_cast<unsigned char>(bytes[offset + i])} << (8 * i);
  return value;
}

/// Whether [offset, offset + size) lies inside `bytes`.
inline bool inside(std::string_view bytes, std::uint64_t offset, std::uint64_t size) {
  return offset <= bytes.size() && size <= bytes.size() - offset;
}

inline Error damaged(std::string_view what, std::uint64_t offset, std::string_view why) {
  return {"damaged " + std::string(what) + ": at byte " + std::to_string(offset) + ": " +
          std::string(why)};
}

} // namespace tally::bundle

#endif
