// Field offsets in the headers of fatbins, and the compression of payloads.
#ifndef TALLY_LIB_BUNDLE_FATBIN_LAYOUT_H
#define TALLY_LIB_BUNDLE_FATBIN_LAYOUT_H

#include "tally/bundle/fatbin.h"

namespace tally::bundle {

/// Offsets in a container's header.
inline constexpr std::size_t versionAt = 4, headerSizeAt = 6, sizeAt = 8;
/// Offsets in an entry's header; the field at constantAt is always 0x0101.
inline constexpr std::size_t kindAt = 0, constantAt = 2, entryHeaderAt = 4, paddedAt = 8,
                             compressedAt = 16, optionsAt = 20, minorAt = 24, majorAt = 26,
                             archAt = 28, identAt = 32, identSizeAt = 36, flagsAt = 40,
                             uncompressedAt = 56;

/// Returns `bytes` compressed. An Error where this build lacks the library.
Result<std::string> compress(std::string_view bytes, Compression compression);

} // namespace tally::bundle

#endif
