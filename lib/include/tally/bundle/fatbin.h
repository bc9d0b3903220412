// CUDA's fatbins: containers of PTX and machine code, as they lie in `.nv_fatbin` and
// `__nv_relfatbin` and as the registration calls get them. Layouts were read off nvcc and
// ptxas 13.0 (docs/design/file-formats.md). The bytes are untrusted: all reads are bounds-checked,
// a size that lies is found before anything is allocated for it, and an error names the offset of
// the byte that is wrong. No LLVM. All functions are thread-safe.
#ifndef TALLY_BUNDLE_FATBIN_H
#define TALLY_BUNDLE_FATBIN_H

#include "tally/support/result.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tally::bundle {

inline constexpr std::uint32_t fatbinMagic = 0xba55ed50;
/// Of the wrapper in `.nvFatBinSegment`, which `__cudaRegisterFatBinary` gets: u32 magic, u32
/// version, u64 pointer to the container, u64 0 or (version 2) pointer to a NULL-terminated array
/// of pointers to prelinked containers.
inline constexpr std::uint32_t fatbinWrapperMagic = 0x466243b1;
inline constexpr std::size_t fatbinHeaderBytes = 16;
inline constexpr std::size_t fatbinEntryHeaderBytes = 64; ///< without extras
/// What decompress() makes at most, unless told otherwise.
inline constexpr std::size_t fatbinPayloadLimit = std::size_t{1} << 30;

/// What an entry holds; other numbers are kept as they are.
enum class FatbinKind : std::uint16_t { Ptx = 1, Elf = 2, Nvvm = 8 };

/// Bits of an entry's flags.
inline constexpr std::uint64_t fatbinDebug = 0x2, fatbinLz4 = 0x2000, fatbinZstd = 0x8000,
                               fatbinScrambled = 0x10000, fatbinArchSpecific = 0x100000,
                               fatbinFamily = 0x200000, fatbinCompatibility = 0x1000000;

enum class Compression : std::uint8_t { None, Lz4, Zstd };

constexpr std::string_view name(Compression compression) {
  constexpr std::string_view names[] = {"none", "lz4", "zstd"};
  return names[static_cast<std::size_t>(compression)];
}

/// One entry. Views point into the bytes that were read.
struct FatbinEntry {
  std::size_t offset = 0;   ///< of the entry in the bytes that were read
  std::string_view header;  ///< with extras (ident, options), as it came
  std::string_view payload; ///< as stored, padding included
  FatbinKind kind{};
  std::uint16_t major = 0, minor = 0; ///< of PTX, its version
  std::uint32_t arch = 0;             ///< 90 for sm_90 and for compute_90a
  std::uint64_t flags = 0;
  std::uint32_t compressedBytes = 0;   ///< without padding; 0 if stored raw
  std::uint64_t uncompressedBytes = 0; ///< 0 if stored raw
  std::string_view ident;              ///< the source's name; often empty
  /// Of PTX and NVVM ptxas's options, " -maxrregcount=32"; of machine code for sm_100 and above a
  /// copy of its section .nv.compat.
  std::string_view options;

  Compression compression() const {
    return flags & fatbinZstd  ? Compression::Zstd
           : flags & fatbinLz4 ? Compression::Lz4
                               : Compression::None;
  }
  /// "90", "90a", "100f": what stands behind sm_ or compute_.
  std::string archName() const;
};

/// A container. Views point into the bytes that were read.
struct FatbinContainer {
  std::size_t offset = 0; ///< in the bytes that were read
  std::string_view bytes; ///< header and entries: what a bundle's moduleHash is of
  std::vector<FatbinEntry> entries;
};

/// The container at `offset` of `bytes`; what is behind it is not looked at.
Result<FatbinContainer> readFatbin(std::string_view bytes, std::size_t offset = 0);

/// All containers of a section, or of a file: one behind the other, zeros between them up to the
/// next multiple of 8 and beyond.
Result<std::vector<FatbinContainer>> readFatbins(std::string_view bytes);

/// The bytes of a container in memory, whose header is trusted: nullopt if no container is there.
std::optional<std::string_view> fatbinAt(const void *container);

/// The payload of an entry as it was before compression, without the padding behind it; PTX
/// without its final NUL. (Of a raw entry that is not PTX the padding cannot be told from the
/// payload; at most 7 zero bytes stay.) An Error for what is scrambled, was compressed in a way
/// that this build has no library for, or would be larger than `limit`.
Result<std::string> decompress(const FatbinEntry &entry, std::size_t limit = fatbinPayloadLimit);

} // namespace tally::bundle

#endif
