// Where variants of code that is made at run time are kept (Triton, NVRTC, PTX that a program
// loads): one bundle for each image, in a folder that processes share. No LLVM.
#ifndef TALLY_BUNDLE_VARIANT_STORE_H
#define TALLY_BUNDLE_VARIANT_STORE_H

#include <cstdint>
#include <string>
#include <string_view>

namespace tally::bundle {

/// Grows where kernels are rewritten or refused by other rules, so that a store's variants of
/// before are made anew.
inline constexpr std::uint32_t rulesVersion = 1;

/// The bytes of what `cuModuleLoadData` takes: machine code (ELF), PTX text without its NUL, or a
/// fatbin's container, also of a wrapper that points to one. `image` is trusted, as the driver
/// trusts it. Empty: it is none of these.
std::string_view deviceImageAt(const void *image);

/// The image's name in a store: 32 hexadecimal digits (FNV-1a of 128 bits, RFC 9923).
std::string imageKey(std::string_view image);

/// A store. Files are written beside their place and renamed, so that a reader finds a whole bundle
/// or none; the folder may be removed at any time. Thread-safe.
class VariantStore {
public:
  explicit VariantStore(std::string folder) : folder(std::move(folder)) {}
  /// $XDG_CACHE_HOME/tally/variants, else ~/.cache/tally/variants; empty where there is no home.
  static std::string defaultFolder();

  const std::string &path() const { return folder; }
  /// The bundle of the image with that key, of this version of bundles and rules.
  std::string bundleOf(std::string_view key) const;

private:
  std::string folder;
};

} // namespace tally::bundle

#endif
