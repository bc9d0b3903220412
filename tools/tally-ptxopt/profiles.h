// Results of earlier runs (--profile), which decide the kinds that kernels do not get.
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

/// The reason code of variants that a profile leaves out.
inline constexpr std::string_view leftOutByProfile = "not-in-profile";

/// Files that the runtime has written (bundle/profile.h). Kernels are matched by name alone,
/// because a module's hash changes with the first edited line. Launches of one kernel and shape in
/// several modules or files are merged.
class Profiles {
public:
  static Result<std::shared_ptr<const Profiles>> read(const std::vector<std::string> &paths);
  /// Takes one file's entries; for tests.
  explicit Profiles(const bundle::ProfileEntries &entries);

  /// Returns the kinds that the kernel's launches want: the best kinds found, the kinds that
  /// replace them where they cannot be used, and checkpoint unless blocks are known to be short.
  /// Nullopt for a kernel that no file names.
  std::optional<ptx::KindSet> wantedOf(std::string_view kernel) const;
  /// Returns the kinds wanted by any kernel that a file names.
  ptx::KindSet wantedOfAny() const;

  /// Takes the other kinds out of the job's kernels. A kernel without a wanted kind that yields
  /// between blocks keeps all its kinds that do. With `byDefault`, kernels that no file names lose
  /// the kinds that are not written by default. Must be called when the kinds of all jobs are
  /// settled except for rejections by ptxas.
  void leaveOut(Job &job, bool byDefault) const;

private:
  void add(const bundle::ProfileEntries &entries);

  /// Launches of one shape.
  struct Launches {
    ptx::KindSet kinds = 0;
    std::chrono::nanoseconds block{0}; ///< longest duration found for a block; 0: not known
  };
  using Shapes = std::map<std::array<std::uint32_t, 10>, Launches>;
  std::map<std::string, Shapes, std::less<>> kernels;
};

} // namespace tally::ptxopt

#endif
