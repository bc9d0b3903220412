// Entries → a fatbin's container. The layout is described in fatbin.h and
// docs/design/file-formats.md.
#ifndef TALLY_BUNDLE_FATBIN_WRITER_H
#define TALLY_BUNDLE_FATBIN_WRITER_H

#include "tally/bundle/fatbin.h"

#include <string>
#include <string_view>

namespace tally::bundle {

/// An entry that is none of another container's.
struct NewFatbinEntry {
  FatbinKind kind{};
  std::uint16_t major = 0, minor = 0;
  std::uint32_t arch = 0;
  std::uint64_t flags = 0x11; ///< 64-bit code for Linux; compression goes by `compression`
  Compression compression = Compression::None;
  std::string ident, options; ///< see FatbinEntry
  std::string payload;        ///< PTX without a final NUL, or machine code
};

/// Makes one container. Not thread-safe; after an Error the container is as it was before the call.
class FatbinWriter {
public:
  /// An entry as it came, byte for byte.
  void keep(const FatbinEntry &entry);
  /// An entry as it came but for what it holds, compressed in the same way. `payload` is as
  /// decompress() gives it. An Error says that this build cannot compress so.
  Result<void> replace(const FatbinEntry &entry, std::string_view payload);
  /// The same with other options, and compressed as `compression` says.
  Result<void> replace(const FatbinEntry &entry, std::string_view payload, std::string_view options,
                       Compression compression);
  Result<void> add(const NewFatbinEntry &entry);

  /// The container: header and entries, a multiple of 8 bytes.
  std::string container() const;

private:
  Result<void> put(std::string header, Compression compression, FatbinKind kind,
                   std::string_view payload);

  std::string entries;
};

} // namespace tally::bundle

#endif
