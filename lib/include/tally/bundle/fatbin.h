// CUDA's fatbins: containers of PTX and machine code, as stored in `.nv_fatbin` and
// `__nv_relfatbin` and passed to the registration calls. The layouts were read off nvcc and ptxas
// 13.0 (docs/design/file-formats.md). The bytes are untrusted: all reads are bounds-checked, a
// false size is found before anything is allocated for it, and an error names the offset of the
// wrong byte. No LLVM. All functions are thread-safe.
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
/// Magic of the wrapper in `.nvFatBinSegment`, which `__cudaRegisterFatBinary` gets: u32 magic, u32
/// version, u64 pointer to the container, u64 0 or (version 2) pointer to a NULL-terminated array
/// of pointers to prelinked containers.
inline constexpr std::uint32_t fatbinWrapperMagic = 0x466243b1;
inline constexpr std::size_t fatbinHeaderBytes = 16;
inline constexpr std::size_t fatbinEntryHeaderBytes = 64; ///< without extras
/// The most bytes that decompress() makes by default.
inline constexpr std::size_t fatbinPayloadLimit = std::size_t{1} << 30;

/// Contents of an entry; other numbers are kept as they are.
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
  std::size_t offset = 0;   ///< offset of the entry in the bytes read
  std::string_view header;  ///< with extras (ident, options), as it came
  std::string_view payload; ///< as stored, padding included
  FatbinKind kind{};
  std::uint16_t major = 0, minor = 0; ///< for PTX: its version
  std::uint32_t arch = 0;             ///< 90 for sm_90 and for compute_90a
  std::uint64_t flags = 0;
  std::uint32_t compressedBytes = 0;   ///< without padding; 0 if stored raw
  std::uint64_t uncompressedBytes = 0; ///< 0 if stored raw
  std::string_view ident;              ///< the source's name; often empty
  /// For PTX and NVVM: ptxas's options, " -maxrregcount=32". For machine code for sm_100 and above:
  /// a copy of its section .nv.compat.
  std::string_view options;

  Compression compression() const {
    return flags & fatbinZstd  ? Compression::Zstd
           : flags & fatbinLz4 ? Compression::Lz4
                               : Compression::None;
  }
  /// Returns the architecture as it follows sm_ or compute_: "90", "90a", "100f".
  std::string archName() const;
};

/// A container. Views point into the bytes that were read.
struct FatbinContainer {
  std::size_t offset = 0; ///< in the bytes read
  std::string_view bytes; ///< header and entries: the bytes that a bundle's moduleHash covers
  std::vector<FatbinEntry> entries;
};

/// Reads the container at `offset` of `bytes`; ignores the bytes behind it.
Result<FatbinContainer> readFatbin(std::string_view bytes, std::size_t offset = 0);

/// Reads all containers of a section or a file. They lie back to back, with zeros between them up
/// to the next multiple of 8 and beyond.
Result<std::vector<FatbinContainer>> readFatbins(std::string_view bytes);

/// Returns the bytes of a container in memory, whose header is trusted; nullopt if no container is
/// there.
std::optional<std::string_view> fatbinAt(const void *container);

/// Returns an entry's payload uncompressed and without the padding behind it; PTX without its final
/// NUL. (The padding of a raw entry that is not PTX cannot be told from the payload; at most 7 zero
/// bytes stay.) An Error for a payload that is scrambled, was compressed in a way that this build
/// has no library for, or would exceed `limit`.
Result<std::string> decompress(const FatbinEntry &entry, std::size_t limit = fatbinPayloadLimit);

} // namespace tally::bundle

#endif
