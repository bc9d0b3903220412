// What runs of a program have shown of its launches (TALLY_PROFILE=on). The runtime writes it for
// the next run, tally-ptxopt reads it for the next build. A text file:
//
//   tally-profile 2
//   DEVICE                                  its name, and the driver's version
//   HASH KIND HIGH BLOCK SHAPE KERNEL       of each module, kernel and launch shape
//   end CHECKSUM                            hashOf() all before this line
//
// HASH is the bundle's moduleHash, in hexadecimal digits as CHECKSUM is; KIND that of the variant
// that was found best, `whole` for the user's kernel as it is, `untried` where none was tried; HIGH
// and BLOCK are nanoseconds, SHAPE ten numbers with commas.
#ifndef TALLY_BUNDLE_PROFILE_H
#define TALLY_BUNDLE_PROFILE_H

#include "tally/bundle/verdict.h"
#include "tally/support/result.h"

#include <array>
#include <chrono>
#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace tally::bundle {

struct ProfileKey {
  std::uint64_t moduleHash = 0; ///< Bundle::moduleHash
  std::string kernel;
  std::array<std::uint32_t, 10> shape{}; ///< grid, block and cluster, dynamic shared memory
  friend auto operator<=>(const ProfileKey &, const ProfileKey &) = default;
};

struct ProfileFound {
  std::optional<Kind> kind; ///< the best that was tried; nothing: the user's kernel as it is
  std::chrono::nanoseconds high{0};  ///< what it takes at most; zero: none was tried
  std::chrono::nanoseconds block{0}; ///< what a block takes; zero: not known
  bool isTried() const { return high.count() != 0; }
  friend bool operator==(const ProfileFound &, const ProfileFound &) = default;
};

using ProfileEntries = std::map<ProfileKey, ProfileFound>;

struct Profile {
  std::string device;
  ProfileEntries entries;
};

/// No launch stops inside of blocks that are known to take so long at most, whatever the bound: the
/// runtime wants them twice as long as such a stop takes, and what it has written once it writes
/// anew when it is off by a factor of two (lib/runtime/planning/kind_choice.cpp).
inline constexpr std::chrono::nanoseconds shortBlock{20000};

/// The Error begins with the line that it is about: "line 3: …".
Result<Profile> parseProfile(std::string_view text);
/// Some 65,000 entries at most; kernels have no newlines in their names.
std::string printProfile(const Profile &profile);

} // namespace tally::bundle

#endif
