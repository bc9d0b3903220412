// What runs have shown of the kernels' launches (--profile), and which kinds are left out for it.
#ifndef TALLY_TOOLS_PTXOPT_PROFILES_H
#define TALLY_TOOLS_PTXOPT_PROFILES_H

#include "job.h"

#include "tally/bundle/profile.h"

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tally::ptxopt {

/// The reason code of what a profile leaves out.
inline constexpr std::string_view leftOutByProfile = "not-in-profile";

/// Files that the runtime has written (bundle/profile.h). Kernels are known by their names alone:
/// what a module's hash is of has changed with the first line that was edited. Launches of one
/// kernel and shape that several modules or files tell of count together.
class Profiles {
public:
  static Result<std::shared_ptr<const Profiles>> read(const std::vector<std::string> &paths);
  /// Of one file's entries; for tests.
  explicit Profiles(const bundle::ProfileEntries &entries);

  /// The kinds that the kernel's launches want: those that were found best, with these what goes on
  /// where they cannot, and checkpoint unless blocks are known to be short. Nullopt for a kernel
  /// that no file names.
  std::optional<ptx::KindSet> wantedOf(std::string_view kernel) const;
  /// Of any kernel that a file names.
  ptx::KindSet wantedOfAny() const;

  /// Takes the other kinds out of the job's kernels. Where a kernel has no kind that yields between
  /// blocks of those that it wants, it keeps those that it has. Of kernels that no file names,
  /// `byDefault`, kinds that are not written by default are taken out. To be called when the kinds
  /// of all jobs are settled but for what ptxas rejects.
  void leaveOut(Job &job, bool byDefault) const;

private:
  void add(const bundle::ProfileEntries &entries);

  /// Launches of one shape.
  struct Launches {
    ptx::KindSet kinds = 0;
    std::chrono::nanoseconds block{0}; ///< the longest that a block was found to take; 0: not known
  };
  using Shapes = std::map<std::array<std::uint32_t, 10>, Launches>;
  std::map<std::string, Shapes, std::less<>> kernels;
};

} // namespace tally::ptxopt

#endif
