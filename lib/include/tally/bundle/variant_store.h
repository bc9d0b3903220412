// Keeps variants of code that is made at run time (Triton, NVRTC, PTX that a program loads): one
// bundle for each image, in a folder that processes share. No LLVM.
#ifndef TALLY_BUNDLE_VARIANT_STORE_H
#define TALLY_BUNDLE_VARIANT_STORE_H

#include <cstdint>
#include <string>
#include <string_view>

namespace tally::bundle {

/// Increased when the rules for rewriting or refusing kernels change, so that older variants in a
/// store are made anew.
inline constexpr std::uint32_t rulesVersion = 1;

/// Returns the bytes of an image for `cuModuleLoadData`: machine code (ELF), PTX text without its
/// NUL, or a fatbin's container, also through a wrapper that points to one. `image` is trusted, as
/// the driver trusts it. Empty if the image is none of these.
std::string_view deviceImageAt(const void *image);

/// Returns the image's name in a store: 32 hexadecimal digits (FNV-1a of 128 bits, RFC 9923).
std::string imageKey(std::string_view image);

/// A store. Files are written beside their place and renamed, so that a reader finds a whole bundle
/// or none. The folder may be removed at any time. Thread-safe.
class VariantStore {
public:
  explicit VariantStore(std::string folder) : folder(std::move(folder)) {}
  /// Returns $XDG_CACHE_HOME/tally/variants, else ~/.cache/tally/variants; empty without a home.
  static std::string defaultFolder();

  const std::string &path() const { return folder; }
  /// Returns the path of the bundle for the image with that key, under this build's versions of
  /// bundles and rules.
  std::string bundleOf(std::string_view key) const;

private:
  std::string folder;
};

} // namespace tally::bundle

#endif
