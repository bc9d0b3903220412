// The tracks ("threads" in the format) of a trace's text, for its writer and its readers.
#ifndef TALLY_LIB_RUNTIME_TRACE_TRACE_TRACKS_H
#define TALLY_LIB_RUNTIME_TRACE_TRACE_TRACKS_H

#include <cstdint>

namespace tally::runtime {

/// Tracks in the order in which a viewer shows them.
enum Track : std::uint32_t {
  HighTrack = 1,
  YieldTrack,
  PauseTrack,
  ElsewhereTrack,
  FirstLane = 10,
  FirstAhead = 50 ///< 50 tracks for streams whose work goes at once
};
/// Offset of a lane's track of waits from its own track: slices of one track may not overlap.
constexpr std::uint32_t waitsOf = 100;

} // namespace tally::runtime

#endif
