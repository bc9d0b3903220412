// The bundle of the hooks' own kernels, which the build makes from kernels/copy_kernels.cu.
#ifndef TALLY_LIB_HOOKS_WORK_OWN_BUNDLE_H
#define TALLY_LIB_HOOKS_WORK_OWN_BUNDLE_H

#include <span>
#include <string>

namespace tally::hooks {

/// The bundle with the halves of each byte swapped: tally-ptxopt looks for device code in all data
/// of a program that it rewrites, and would warn of this bundle. Empty where the build had neither
/// LLVM nor ready bundles. (In a file that the build writes.)
std::span<const unsigned char> swappedOwnBundle();

inline std::string ownBundle() {
  std::string bytes;
  for (unsigned char each : swappedOwnBundle())
    bytes += static_cast<char>(each << 4 | each >> 4);
  return bytes;
}

} // namespace tally::hooks

#endif
