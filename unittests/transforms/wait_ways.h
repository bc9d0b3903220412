// Every way in which memory that another block may write is read, and every way from a register to
// a branch: the pieces of generated kernels that wait.
#ifndef TALLY_UNITTESTS_TRANSFORMS_WAIT_WAYS_H
#define TALLY_UNITTESTS_TRANSFORMS_WAIT_WAYS_H

#include <string>
#include <string_view>
#include <vector>

namespace tally::ptx {

/// Instructions that leave in %r1 what they read. %rd1 is the address of a word of global memory,
/// %rd2 a handle of a texture or a surface, %rd3 a descriptor of a tensor; %r9 and %rd9 are that of
/// the shared variable `s`, %r10 that of the mbarrier `m`.
struct Reading {
  std::string_view opcode; ///< the one that reads
  std::string_view text;
  bool needsAid = false; ///< a poll only beside a fence, an acquiring read or a nap
};

/// Reads of what other blocks write.
const std::vector<Reading> &foreignReadings();
/// Reads of the same kind that no other block's write reaches.
const std::vector<Reading> &ownReadings();

/// Instructions that make of %r1 the predicate %p1. They use %r2 to %r8, %rd4 to %rd8, %p2 to %p5
/// and labels that begin with C.
struct Carrying {
  std::string_view what;
  std::string_view text;
};
const std::vector<Carrying> &carryings();

/// A loop with a place for the read and what makes %p1 of it, and %p1 true to go on.
struct LoopShape {
  std::string_view what, before, after;
};
const std::vector<LoopShape> &loopShapes();

/// A module with one kernel `k`: `body` with all of the above declared.
std::string moduleOfWays(std::string_view body);

} // namespace tally::ptx

#endif
