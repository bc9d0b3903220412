// Bytes → Bundle. Header-only; needs only the standard library. The bytes are untrusted: all reads
// are bounds-checked, a false count or size is found before anything is allocated for it, and an
// error names the offset of the wrong byte.
//
// A bundle file, all numbers little-endian, nothing aligned:
//
//   header   magic "TALLYBDL", u32 format version, u32 TALLY_ABI_VERSION, u64 size of the file,
//            u64 hashOf() everything after the header
//   payload  u64 module hash, u32 kernels, u32 images, the kernels, the images
//   kernel   string name, u32 parameter bytes, u32 static shared bytes, u8 bitwise stable (0, 1),
//            u8 waits, u8 grid rank (1 to 3), u8 waits are assumed (0, 1), u8 spending,
//            u32 parameters, each {u32 offset, u32 size}, u32 verdicts, each {u8 kind, u8 status,
//            string reason, string message, u32 line, u32 record bytes, u32 saved shared bytes},
//            u8 uses clusters (0, 1), u8 reads shared size (0, 1), u8 changes variables (0, 1),
//            3 x u32 required cluster (zeros: none)
//   image    u8 format, u32 arch, u64 size, bytes
//   string   u32 size, bytes
//
// A `.tally` section or a file may hold several bundles back to back: linkers concatenate the
// sections of objects in this way. "Size of the file" is the size of one bundle.
#ifndef TALLY_BUNDLE_BUNDLE_READER_H
#define TALLY_BUNDLE_BUNDLE_READER_H

#include "tally/bundle/abi.h"
#include "tally/bundle/bundle.h"
#include "tally/support/result.h"

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tally::bundle {

inline constexpr std::string_view magic = "TALLYBDL";
inline constexpr std::uint32_t formatVersion = 6;
inline constexpr std::size_t headerBytes = 32;
/// The largest parameter space of a kernel (PTX ISA, "Kernel Function Parameters": 32,764 bytes
/// from sm_70 on).
inline constexpr std::uint32_t maxParameterBytes = 32764;

namespace detail {

/// Walks the bytes. After the first failure every read gives zeros and the error message stays.
class Cursor {
public:
  /// Errors name offsets from `base` bytes before `bytes`.
  explicit Cursor(std::span<const std::byte> bytes, std::size_t base = 0)
      : bytes(bytes), base(base) {}

  bool failed() const { return !message.empty(); }
  Error error() const { return {message}; }
  std::size_t offset() const { return position; }
  std::size_t left() const { return bytes.size() - position; }

  void failAt(std::size_t where, std::string_view what) {
    if (!failed())
      message =
          "damaged bundle: at byte " + std::to_string(base + where) + ": " + std::string(what);
  }

  std::uint64_t number(std::size_t size, std::string_view what) {
    if (failed())
      return 0;
    if (left() < size) {
      failAt(position, "the file ends inside the " + std::string(what));
      return 0;
    }
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < size; ++i)
      value |= std::uint64_t{std::to_integer<std::uint8_t>(bytes[position + i])} << (8 * i);
    position += size;
    return value;
  }
  std::uint8_t u8(std::string_view what) { return static_cast<std::uint8_t>(number(1, what)); }
  std::uint32_t u32(std::string_view what) { return static_cast<std::uint32_t>(number(4, what)); }
  std::uint64_t u64(std::string_view what) { return number(8, what); }

  /// Reads a number of records of at least `recordBytes` each. A number that cannot fit the bytes
  /// left fails here, so no count makes the caller reserve more than a small multiple of the file's
  /// size.
  std::uint32_t count(std::size_t recordBytes, std::string_view what) {
    std::size_t start = position;
    std::uint32_t value = u32(what);
    if (value > left() / recordBytes) {
      failAt(start, "the " + std::string(what) + " is " + std::to_string(value) +
                        ", which the bytes left cannot hold");
      return 0;
    }
    return value;
  }

  std::string bytesOf(std::uint64_t size, std::string_view what) {
    if (failed())
      return {};
    if (size > left()) {
      failAt(position, "the " + std::string(what) + " reaches beyond the end of the file");
      return {};
    }
    std::string text(reinterpret_cast<const char *>(bytes.data()) + position, size);
    position += size;
    return text;
  }
  std::string string(std::string_view what) { return bytesOf(u32(what), what); }

  /// Reads a byte that must be at most `last`.
  std::uint8_t choice(std::uint8_t last, std::string_view what) {
    std::size_t start = position;
    std::uint8_t value = u8(what);
    if (value > last) {
      failAt(start, "the " + std::string(what) + " is " + std::to_string(value) +
                        ", which this version does not know");
      return 0;
    }
    return value;
  }

private:
  std::span<const std::byte> bytes;
  std::size_t base;
  std::size_t position = 0;
  std::string message;
};

inline Verdict readVerdict(Cursor &in) {
  Verdict verdict;
  verdict.kind = static_cast<Kind>(in.choice(allKinds.size() - 1, "kind of a verdict"));
  verdict.status = static_cast<Status>(
      in.choice(static_cast<std::uint8_t>(Status::Failed), "status of a verdict"));
  verdict.reason = in.string("reason of a verdict");
  verdict.message = in.string("message of a verdict");
  verdict.line = in.u32("line of a verdict");
  verdict.recordBytes = in.u32("size of a verdict's records");
  verdict.savedSharedBytes = in.u32("shared memory that a verdict saves");
  return verdict;
}

inline void readParameters(Cursor &in, Kernel &kernel) {
  std::uint32_t count = in.count(8, "number of parameters");
  kernel.parameters.reserve(count);
  for (std::uint32_t i = 0; i < count && !in.failed(); ++i) {
    std::size_t start = in.offset();
    Parameter parameter;
    parameter.offset = in.u32("offset of a parameter");
    parameter.size = in.u32("size of a parameter");
    if (std::uint64_t{parameter.offset} + parameter.size > kernel.parameterBytes)
      in.failAt(start, "a parameter lies outside of the kernel's parameter space");
    kernel.parameters.push_back(parameter);
  }
}

inline Kernel readKernel(Cursor &in) {
  Kernel kernel;
  kernel.name = in.string("name of a kernel");
  std::size_t start = in.offset();
  kernel.parameterBytes = in.u32("size of a kernel's parameters");
  if (kernel.parameterBytes > maxParameterBytes)
    in.failAt(start, "a kernel's parameters are larger than any device takes");
  kernel.staticSharedBytes = in.u32("size of a kernel's static shared memory");
  kernel.bitwiseStable = in.choice(1, "bitwise-stable flag") != 0;
  kernel.waits = static_cast<Waits>(
      in.choice(static_cast<std::uint8_t>(Waits::Unknown), "class of a kernel's waits"));
  start = in.offset();
  kernel.gridRank = in.choice(3, "grid rank of a kernel");
  if (kernel.gridRank == 0)
    in.failAt(start, "the grid rank of a kernel is 0");
  kernel.waitsAreAssumed = in.choice(1, "assumed-waits flag") != 0;
  kernel.spending = static_cast<Spending>(in.choice(2, "spending of a kernel's workers"));
  readParameters(in, kernel);
  std::uint32_t verdicts = in.count(22, "number of verdicts");
  kernel.verdicts.reserve(verdicts);
  for (std::uint32_t i = 0; i < verdicts && !in.failed(); ++i)
    kernel.verdicts.push_back(readVerdict(in));
  kernel.usesClusters = in.choice(1, "cluster flag") != 0;
  kernel.readsSharedSize = in.choice(1, "shared-size flag") != 0;
  kernel.changesVariables = in.choice(1, "changed-variables flag") != 0;
  start = in.offset();
  Dim3 &cluster = kernel.requiredCluster;
  for (std::uint32_t *extent : {&cluster.x, &cluster.y, &cluster.z})
    *extent = in.u32("required cluster");
  if ((cluster.x == 0 || cluster.y == 0 || cluster.z == 0) && !(cluster == Dim3{0, 0, 0}))
    in.failAt(start, "a kernel's required cluster has an extent of 0");
  return kernel;
}

inline Image readImage(Cursor &in) {
  Image image;
  image.format = static_cast<ImageFormat>(
      in.choice(static_cast<std::uint8_t>(ImageFormat::Fatbin), "format of an image"));
  image.arch = in.u32("architecture of an image");
  std::uint64_t size = in.u64("size of an image");
  image.bytes = in.bytesOf(size, "image");
  return image;
}

inline void readHeader(Cursor &in, std::span<const std::byte> bytes) {
  if (in.bytesOf(magic.size(), "magic number") != magic && !in.failed())
    return in.failAt(0, "this is not a Tally bundle (wrong magic number)");
  std::uint32_t version = in.u32("format version");
  if (!in.failed() && version != formatVersion)
    return in.failAt(8, "format version " + std::to_string(version) +
                            "; this build reads version " + std::to_string(formatVersion));
  std::uint32_t abi = in.u32("ABI version");
  if (!in.failed() && abi != TALLY_ABI_VERSION)
    return in.failAt(12, "variants of ABI version " + std::to_string(abi) +
                             "; this build launches version " + std::to_string(TALLY_ABI_VERSION));
  std::uint64_t size = in.u64("size of the file");
  if (!in.failed() && size != bytes.size())
    return in.failAt(16, "the header says " + std::to_string(size) + " bytes, the file has " +
                             std::to_string(bytes.size()));
  std::uint64_t checksum = in.u64("checksum");
  if (in.failed())
    return;
  std::span<const std::byte> payload = bytes.subspan(headerBytes);
  if (checksum != hashOf({reinterpret_cast<const char *>(payload.data()), payload.size()}))
    in.failAt(24, "the checksum does not match the contents");
}

} // namespace detail

/// Reads a bundle; exact inverse of write(). Fails on damaged bytes and on versions that this build
/// does not know. Errors name offsets from `base` bytes before `bytes`.
inline Result<Bundle> read(std::span<const std::byte> bytes, std::size_t base = 0) {
  detail::Cursor in(bytes, base);
  detail::readHeader(in, bytes);
  Bundle bundle;
  bundle.moduleHash = in.u64("module hash");
  // The minimum sizes of the records: their fixed fields with empty strings.
  std::uint32_t kernels = in.count(40, "number of kernels");
  std::uint32_t images = in.count(13, "number of images");
  for (std::uint32_t i = 0; i < kernels && !in.failed(); ++i)
    bundle.kernels.push_back(detail::readKernel(in));
  for (std::uint32_t i = 0; i < images && !in.failed(); ++i)
    bundle.images.push_back(detail::readImage(in));
  if (!in.failed() && in.left() != 0)
    in.failAt(in.offset(), std::to_string(in.left()) + " bytes too many");
  if (in.failed())
    return in.error();
  return bundle;
}

inline Result<Bundle> read(std::string_view bytes) {
  return read(std::as_bytes(std::span(bytes.data(), bytes.size())));
}

/// Reads bundles that lie back to back, as in a `.tally` section; no bytes give no bundles. Fails
/// as read() does and then returns no bundle, because after damage the start of the next one is
/// unknown.
inline Result<std::vector<Bundle>> readBundles(std::string_view bytes) {
  constexpr std::size_t sizeAt = 16;
  std::vector<Bundle> bundles;
  for (std::size_t at = 0; at < bytes.size();) {
    auto rest = std::as_bytes(std::span(bytes.data() + at, bytes.size() - at));
    std::uint64_t size = rest.size();
    if (rest.size() >= headerBytes) {
      detail::Cursor in(rest.subspan(sizeAt));
      // read() gets a wrong size too, and reports it.
      if (std::uint64_t said = in.u64("size"); said >= headerBytes && said <= rest.size())
        size = said;
    }
    auto bundle = read(rest.first(size), at);
    if (!bundle)
      return bundle.error();
    bundles.push_back(std::move(*bundle));
    at += size;
  }
  return bundles;
}

/// Reads a bundle file. Errors name the path, and the system's reason or the offset.
inline Result<Bundle> readFile(const std::string &path) {
  std::unique_ptr<std::FILE, int (*)(std::FILE *)> file(std::fopen(path.c_str(), "rb"),
                                                        &std::fclose);
  if (!file)
    return Error{path + ": cannot open: " + std::strerror(errno)};
  std::string contents;
  char buffer[1 << 16];
  while (std::size_t got = std::fread(buffer, 1, sizeof buffer, file.get()))
    contents.append(buffer, got);
  if (std::ferror(file.get()))
    return Error{path + ": cannot read: " + std::strerror(errno)};
  Result<Bundle> bundle = read(std::string_view(contents));
  if (!bundle)
    return Error{path + ": " + bundle.error().message};
  return bundle;
}

} // namespace tally::bundle

#endif
