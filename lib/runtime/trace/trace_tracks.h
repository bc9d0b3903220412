// The tracks ("threads" to the format) of a trace's text, for what writes it and what reads it.
#ifndef TALLY_LIB_RUNTIME_TRACE_TRACE_TRACKS_H
#define TALLY_LIB_RUNTIME_TRACE_TRACE_TRACKS_H

#include <cstdint>

namespace tally::runtime {

/// In the order in which they are shown.
enum Track : std::uint32_t {
  HighTrack = 1,
  YieldTrack,
  PauseTrack,
  ElsewhereTrack,
  FirstLane = 10,
  FirstAhead = 50 ///< of streams whose work goes at once; 50 of them
};
/// Waits of a lane, since a slice may not overlap another one of its track: so far behind its own.
constexpr std::uint32_t waitsOf = 100;

} // namespace tally::runtime

#endif
