// Measurements of a program's launches in earlier runs (TALLY_PROFILE=on). The runtime writes the
// profile for the next run; tally-ptxopt reads it for the next build. A text file:
//
//   tally-profile 3
//   DEVICE                                  its name, and the driver's version
//   policy PROGRAM TEXT                     of each program: what its policy has learnt
//   HASH KIND HIGH BLOCK SHAPE KERNEL       of each module, kernel and launch shape
//   end CHECKSUM                            hashOf() all before this line
//
// HASH is the bundle's moduleHash, PROGRAM the hashOf() a command line; HASH, PROGRAM and CHECKSUM
// are in hexadecimal digits. TEXT is the policy's own. KIND is the kind of
// the best variant, `whole` for the user's kernel, `untried` where none was tried. HIGH and BLOCK
// are in nanoseconds, SHAPE is ten numbers with commas.
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
  std::optional<Kind> kind;          ///< the best kind that was tried; empty: the user's kernel
  std::chrono::nanoseconds high{0};  ///< the most that this kind takes; zero: none was tried
  std::chrono::nanoseconds block{0}; ///< duration of a block; zero: not known
  bool isTried() const { return high.count() != 0; }
  friend bool operator==(const ProfileFound &, const ProfileFound &) = default;
};

using ProfileEntries = std::map<ProfileKey, ProfileFound>;
/// Of each program, the text of its policy, without newlines.
using ProfilePolicies = std::map<std::uint64_t, std::string>;

struct Profile {
  std::string device;
  ProfileEntries entries;
  ProfilePolicies policies;
};

/// Blocks known to take at most this long are never stopped inside, whatever the bound: the runtime
/// requires blocks to take twice as long as such a stop takes. The runtime updates a written time
/// once the time is off by a factor of two (lib/runtime/planning/kind_choice.cpp).
inline constexpr std::chrono::nanoseconds shortBlock{20000};

/// The Error begins with the number of the wrong line: "line 3: …".
Result<Profile> parseProfile(std::string_view text);
/// Prints at most some 65,000 entries and 4,096 programs' policies; names of kernels must not hold
/// newlines.
std::string printProfile(const Profile &profile);

} // namespace tally::bundle

#endif
