// Operations among the lanes of a warp: their kinds and handlers.
#ifndef TALLY_LIB_EMULATOR_WARP_OPS_H
#define TALLY_LIB_EMULATOR_WARP_OPS_H

#include "op.h"

#include <cstdint>

namespace tally::emulator {

enum class WarpOp : std::uint8_t {
  ShuffleUp,
  ShuffleDown,
  ShuffleButterfly,
  ShuffleIndex,
  VoteAll,
  VoteAny,
  VoteUniform,
  VoteBallot,
  MatchAny32,
  MatchAny64,
  MatchAll32,
  MatchAll64,
  ReduceAddU32,
  ReduceMinU32,
  ReduceMaxU32,
  ReduceMinS32,
  ReduceMaxS32,
  ReduceAnd,
  ReduceOr,
  ReduceXor,
  ReduceMinF32,
  ReduceMaxF32,
  Elect,
  BarrierWarp,
  WholeWarp ///< the lanes continue as one group; the bits above tell places apart
};
inline constexpr std::uint32_t placeShift = 8;
/// Op::flags of a reduction of floats: .abs and .NaN.
enum ReduceFlags : std::uint8_t { ReduceMagnitude = 2, ReduceNan = 4 };

/// Op::slot: 0 destination, 1 second (predicate) destination, 2 value, 3 b, 4 c, 5 the member mask.
/// Op::extra is the WarpOp; flags bit 0 negates a predicate value.
Status syncOp(Warp &warp, const Op &op, std::uint32_t mask);
/// Stands before an operation of a whole warp. That operation itself detects lanes that have
/// exited.
Status wholeWarp(Warp &warp, const Op &op, std::uint32_t mask);
Status activeMask(Warp &warp, const Op &op, std::uint32_t mask);

} // namespace tally::emulator

#endif
