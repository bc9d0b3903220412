// Compresses and decompresses payloads of fatbin entries. The zstd output grows with the data that
// the input really gives, so a wrong size in the header causes no large allocation.
#include "tally/bundle/fatbin.h"

#include "bytes.h"
#include "fatbin_layout.h"

#include <algorithm>
#include <memory>

#ifdef TALLY_HAVE_LZ4
#include <lz4.h>
#include <lz4hc.h>
#endif
#ifdef TALLY_HAVE_ZSTD
#include <zstd.h>
#endif

namespace tally::bundle {

namespace {

Error damagedPayload(const FatbinEntry &entry, std::string_view why) {
  return damaged("fatbin", entry.offset + entry.header.size(), why);
}

[[maybe_unused]] Error noLibrary(const FatbinEntry &entry) {
  return {"the fatbin entry at byte " + std::to_string(entry.offset) + " is compressed with " +
          std::string(name(entry.compression())) +
          ", and this build of Tally has no library for it"};
}

#ifdef TALLY_HAVE_LZ4
Result<std::string> decompressLz4(const FatbinEntry &entry, std::string_view bytes) {
  // LZ4: one byte of a block decodes to at most 255 bytes ("End of block conditions" of its block
  // format).
  constexpr std::uint64_t mostPerByte = 255;
  if (entry.uncompressedBytes > mostPerByte * bytes.size() || bytes.size() > LZ4_MAX_INPUT_SIZE ||
      entry.uncompressedBytes > LZ4_MAX_INPUT_SIZE)
    return damagedPayload(entry, "the LZ4 block cannot give as much as the header says");
  std::string text(entry.uncompressedBytes, '\0');
  int got = LZ4_decompress_safe(bytes.data(), text.data(), static_cast<int>(bytes.size()),
                                static_cast<int>(text.size()));
  if (got < 0 || static_cast<std::uint64_t>(got) != entry.uncompressedBytes)
    return damagedPayload(entry, "the LZ4 block does not give what the header says");
  return text;
}
#endif

#ifdef TALLY_HAVE_ZSTD
/// A decoder allocates the window that a frame asks for, however little the frame then gives.
/// nvcc's frames ask for 8 MiB at most (--compress-mode=size). A larger window lets variants be
/// encoded as copies of kernels far before them.
constexpr int windowLog = 25;

Result<std::string> decompressZstd(const FatbinEntry &entry, std::string_view bytes) {
  constexpr std::size_t piece = std::size_t{1} << 18;
  std::unique_ptr<ZSTD_DStream, std::size_t (*)(ZSTD_DStream *)> stream(ZSTD_createDStream(),
                                                                        &ZSTD_freeDStream);
  if (!stream)
    return Error{"no memory to decompress a fatbin entry"};
  ZSTD_DCtx_setParameter(stream.get(), ZSTD_d_windowLogMax, windowLog);
  ZSTD_inBuffer input{bytes.data(), bytes.size(), 0};
  std::string text;
  for (;;) {
    std::size_t have = text.size();
    // One byte more than expected, to detect surplus output.
    text.resize(have + std::min<std::uint64_t>(piece, entry.uncompressedBytes + 1 - have));
    ZSTD_outBuffer output{text.data() + have, text.size() - have, 0};
    std::size_t status = ZSTD_decompressStream(stream.get(), &output, &input);
    text.resize(have + output.pos);
    if (ZSTD_isError(status))
      return damagedPayload(entry, std::string("zstd: ") + ZSTD_getErrorName(status));
    if (text.size() > entry.uncompressedBytes)
      return damagedPayload(entry, "the zstd frame gives more than the header says");
    if (status == 0)
      break;
    if (output.pos == 0 && input.pos == input.size)
      return damagedPayload(entry, "the zstd frame is cut off");
  }
  if (text.size() != entry.uncompressedBytes)
    return damagedPayload(entry, "the zstd frame does not give what the header says");
  return text;
}
#endif

Result<std::string> stored(const FatbinEntry &entry) {
  std::string_view bytes = entry.payload.substr(0, entry.compressedBytes);
  switch (entry.compression()) {
  case Compression::None:
    return std::string(entry.payload);
  case Compression::Lz4:
#ifdef TALLY_HAVE_LZ4
    return decompressLz4(entry, bytes);
#else
    return noLibrary(entry);
#endif
  case Compression::Zstd:
#ifdef TALLY_HAVE_ZSTD
    return decompressZstd(entry, bytes);
#else
    return noLibrary(entry);
#endif
  }
  return Error{"no such compression"};
}

} // namespace

Result<std::string> decompress(const FatbinEntry &entry, std::size_t limit) {
  if (entry.flags & fatbinScrambled)
    return Error{"the fatbin entry at byte " + std::to_string(entry.offset) +
                 " is scrambled (code for link-time optimisation); only NVIDIA's tools read it"};
  if (entry.uncompressedBytes > limit || entry.payload.size() > limit)
    return damaged("fatbin", entry.offset,
                   "an entry is larger than the limit of " + std::to_string(limit) + " bytes");
  auto bytes = stored(entry);
  if (!bytes || entry.kind != FatbinKind::Ptx)
    return bytes;
  std::size_t end = std::min(bytes->find('\0'), bytes->size());
  if (bytes->find_first_not_of('\0', end) != std::string::npos)
    return damagedPayload(entry, "there is something behind the end of the PTX");
  bytes->resize(end);
  return bytes;
}

namespace {

[[maybe_unused]] Result<std::string> cannotCompress(Compression compression, std::string_view why) {
  return Error{"a fatbin's entry cannot be compressed with " + std::string(name(compression)) +
               ": " + std::string(why)};
}

Result<std::string> compressLz4([[maybe_unused]] std::string_view bytes) {
#ifdef TALLY_HAVE_LZ4
  if (bytes.size() > LZ4_MAX_INPUT_SIZE)
    return cannotCompress(Compression::Lz4, "it is too large");
  auto size = static_cast<int>(bytes.size());
  std::string packed(static_cast<std::size_t>(LZ4_compressBound(size)), '\0');
  int got = LZ4_compress_HC(bytes.data(), packed.data(), size, static_cast<int>(packed.size()),
                            LZ4HC_CLEVEL_DEFAULT);
  if (got <= 0)
    return cannotCompress(Compression::Lz4, "the library failed");
  packed.resize(static_cast<std::size_t>(got));
  return packed;
#else
  return cannotCompress(Compression::Lz4, "this build of Tally has no library for it");
#endif
}

Result<std::string> compressZstd([[maybe_unused]] std::string_view bytes) {
#ifdef TALLY_HAVE_ZSTD
  // A kernel's variants resemble the kernel but lie far behind it in the bytes, so the window
  // matters more than the level.
  constexpr int level = 9;
  std::unique_ptr<ZSTD_CCtx, std::size_t (*)(ZSTD_CCtx *)> context(ZSTD_createCCtx(),
                                                                   &ZSTD_freeCCtx);
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_compressionLevel, level);
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_windowLog, windowLog);
  std::string packed(ZSTD_compressBound(bytes.size()), '\0');
  std::size_t got =
      ZSTD_compress2(context.get(), packed.data(), packed.size(), bytes.data(), bytes.size());
  if (ZSTD_isError(got))
    return cannotCompress(Compression::Zstd, ZSTD_getErrorName(got));
  packed.resize(got);
  return packed;
#else
  return cannotCompress(Compression::Zstd, "this build of Tally has no library for it");
#endif
}

} // namespace

Result<std::string> compress(std::string_view bytes, Compression compression) {
  switch (compression) {
  case Compression::None:
    break;
  case Compression::Lz4:
    return compressLz4(bytes);
  case Compression::Zstd:
    return compressZstd(bytes);
  }
  return std::string(bytes);
}

} // namespace tally::bundle
