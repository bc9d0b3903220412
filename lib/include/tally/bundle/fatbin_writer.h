// Entries → a fatbin's container. The layout is described in fatbin.h and
// docs/design/file-formats.md.
#ifndef TALLY_BUNDLE_FATBIN_WRITER_H
#define TALLY_BUNDLE_FATBIN_WRITER_H

#include "tally/bundle/fatbin.h"

#include <string>
#include <string_view>

namespace tally::bundle {

/// An entry that does not come from another container.
struct NewFatbinEntry {
  FatbinKind kind{};
  std::uint16_t major = 0, minor = 0;
  std::uint32_t arch = 0;
  std::uint64_t flags = 0x11; ///< 64-bit code for Linux; compression goes by `compression`
  Compression compression = Compression::None;
  std::string ident, options; ///< see FatbinEntry
  std::string payload;        ///< PTX without a final NUL, or machine code
};

/// Makes one container. Not thread-safe; an Error leaves the container as it was before the call.
class FatbinWriter {
public:
  /// Adds an entry byte for byte.
  void keep(const FatbinEntry &entry);
  /// Adds an entry with another payload, compressed in the same way. `payload` is in decompress()'s
  /// form. An Error if this build lacks the compression.
  Result<void> replace(const FatbinEntry &entry, std::string_view payload);
  /// Adds an entry with another payload and other options, compressed by `compression`.
  Result<void> replace(const FatbinEntry &entry, std::string_view payload, std::string_view options,
                       Compression compression);
  Result<void> add(const NewFatbinEntry &entry);

  /// Returns the container: header and entries, a multiple of 8 bytes.
  std::string container() const;

private:
  Result<void> put(std::string header, Compression compression, FatbinKind kind,
                   std::string_view payload);

  std::string entries;
};

} // namespace tally::bundle

#endif
