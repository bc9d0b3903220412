// Finds the threads that the member mask of a warp operation can name.
#ifndef TALLY_LIB_PTX_ANALYSIS_MEMBER_MASK_H
#define TALLY_LIB_PTX_ANALYSIS_MEMBER_MASK_H

#include "definitions.h"
#include "tally/ptx/analysis/cfg.h"

#include <optional>

namespace tally::ptx {

/// The masks of one body. Collects the body's assignments once, when a mask is a register.
class MemberMasks {
public:
  explicit MemberMasks(const Cfg &cfg) : cfg(cfg) {}

  /// Whether the mask of `sync`, an unguarded isMaskedWarpSync, names only threads that come to it:
  /// then none of them can have left the body while another waits there. Such a mask is
  ///
  /// * the result of activemask, where only activemask assigns the register; or
  /// * the result of one vote.sync.ballot of a predicate, on the paths of threads for which the
  ///   predicate holds (by a branch at the end of the vote's block on that predicate, or on its
  ///   complement);
  ///
  /// and all paths from there pass `sync` before they leave or reach such an assignment again, and
  /// all paths to `sync` pass such an assignment after the previous execution of `sync`.
  bool nameOnlyComers(std::uint32_t sync);

private:
  const Cfg &cfg;
  std::optional<Definitions> definitions;
};

} // namespace tally::ptx

#endif
