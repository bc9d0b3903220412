// All instructions that read memory which another block may write, and all ways from a register to
// a branch: the parts from which tests generate waiting kernels.
#ifndef TALLY_UNITTESTS_TRANSFORMS_WAIT_WAYS_H
#define TALLY_UNITTESTS_TRANSFORMS_WAIT_WAYS_H

#include <string>
#include <string_view>
#include <vector>

namespace tally::ptx {

/// Instructions that leave the value that they read in %r1. %rd1 is the address of a word of global
/// memory, %rd2 a handle of a texture or a surface, %rd3 a descriptor of a tensor. %r9 and %rd9
/// hold the address of the shared variable `s`, %r10 that of the mbarrier `m`.
struct Reading {
  std::string_view opcode; ///< opcode of the reading instruction
  std::string_view text;
  bool needsAid = false; ///< a poll only together with a fence, an acquiring read or a nanosleep
};

/// Reads of memory that other blocks write.
const std::vector<Reading> &foreignReadings();
/// Reads of the same kinds that no other block's write reaches.
const std::vector<Reading> &ownReadings();

/// Instructions that compute the predicate %p1 from %r1. They use %r2 to %r8, %rd4 to %rd8, %p2 to
/// %p5 and labels that begin with C.
struct Carrying {
  std::string_view what;
  std::string_view text;
};
const std::vector<Carrying> &carryings();

/// A loop with a place for the read and the computation of %p1; the loop goes on while %p1 is true.
struct LoopShape {
  std::string_view what, before, after;
};
const std::vector<LoopShape> &loopShapes();

/// Returns a module with one kernel `k`: `body` with all of the above declared.
std::string moduleOfWays(std::string_view body);

} // namespace tally::ptx

#endif
