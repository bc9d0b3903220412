// A random kernel before it is text: a tree of statements whose numbers mean nothing by themselves.
//
// The emitter (emitter.h) gives each number a meaning that is allowed at its place: a barrier under
// a divergent branch becomes a warp's barrier or nothing, a write to a uniform register becomes a
// write to another register. So every tree is a kernel that is right by construction (no race, no
// deadlock, a result that does not depend on the order of blocks), and removing or changing parts
// of a tree (reduce.h) cannot make the kernel wrong.
#ifndef TALLY_VERIFY_GENERATOR_PROGRAM_H
#define TALLY_VERIFY_GENERATOR_PROGRAM_H

#include "tally/support/dim3.h"

#include <array>
#include <cstdint>
#include <vector>

namespace tally::verify {

/// One row per kind of statement; `weight` is the statement's relative frequency. The last column
/// names the Features that the statement needs (generate.cpp).
enum class NodeKind : std::uint8_t {
  Operation,        ///< 32-bit arithmetic
  UniformOperation, ///< arithmetic on registers that are the same for the whole block
  Wide,             ///< 64-bit and carry chains
  Float,            ///< f32, rounded to nearest
  Load,             ///< from the read-only input, scalar or vector
  Store,            ///< to the thread's own slots: scalar, vector, or read-modify-write
  Parameter,        ///< a parameter's value, also through its address
  Local,            ///< local array
  GlobalAtomic,
  SharedAtomic,
  SharedTotal, ///< reads the totals of the shared atomics
  If,
  Loop,
  Switch,
  Scope, ///< registers that shadow outer ones
  Leave, ///< ret, exit, or a branch to the end
  Barrier,
  Exchange,     ///< shared memory across a barrier
  SplitBarrier, ///< another barrier in either arm of a branch
  PartBarrier,  ///< a barrier of some warps, with a thread count
  Arrival,      ///< some warps arrive, the others wait
  Warp,         ///< shfl, vote, match, redux, bar.warp.sync
  Call,
  IndirectCall,
  Recursion, ///< a recursive call of the enclosing function
  Ticket,    ///< the last block adds up the values that all blocks left
  LookBack,  ///< each block waits for the one before it
};

/// One statement. `n` are random numbers.
struct Node {
  NodeKind kind = NodeKind::Operation;
  std::array<std::uint32_t, 5> n{};
  std::vector<Node> body, otherwise;
};

/// The threads that decide alike.
enum class Reach : std::uint8_t { Block, Warp, Threads };

/// Returns the reach of the decision in an If, Loop, Switch, SplitBarrier or Leave: the lowest bits
/// of n[0] and, for a break of a loop, of n[3].
Reach reachOf(const Node &node);
/// Whether a loop may be left in its middle.
inline bool breaks(const Node &loop) { return loop.n[3] & 4; }

/// A device function. emitter.h fixes its arguments and result.
struct DeviceFunction {
  bool readsGrid = false, hasBarrier = false, mayExit = false;
  std::vector<Node> body;
};

struct Program {
  std::uint64_t seed = 0;
  LaunchShape shape;
  std::uint32_t layout = 0; ///< order and sizes of parameters, attributes, target
  bool withoutParameters = false;
  bool dynamicShared = false; ///< the launch gives the size of one region of shared memory
  bool noise = false;         ///< .loc, pragmas, comments
  std::uint32_t delay = 0; ///< turns of a loop before any visible effect; many for runs on a device
  std::vector<DeviceFunction> functions;
  std::vector<Node> body;
};

} // namespace tally::verify

#endif
