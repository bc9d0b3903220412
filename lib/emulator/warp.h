// The state of a running warp and of its thread block.
#ifndef TALLY_LIB_EMULATOR_WARP_H
#define TALLY_LIB_EMULATOR_WARP_H

#include "memory.h"
#include "op.h"
#include "program.h"

#include <array>
#include <bit>
#include <optional>
#include <string>
#include <vector>

namespace tally::emulator {

struct Block;
class TextureTable;

enum class GroupState : std::uint8_t {
  Ready,
  AlignedWait, ///< at an aligned barrier, for the warp's other live lanes
  BarrierWait, ///< arrived at a barrier of the block
  SyncWait,    ///< at a `.sync` warp operation, for the lanes of its member mask
  ClusterWait  ///< at the barrier of the cluster
};

/// Lanes of a warp that run together: they share the program counter and the frame.
struct Group {
  std::uint32_t pc = 0;
  std::uint32_t mask = 0;
  std::uint32_t frame = 0; ///< byte offset of the frame in the warp's rows
  std::uint32_t local = 0; ///< byte offset of the frame in each lane's local memory
  std::uint32_t depth = 0;
  std::uint32_t function = 0;
  GroupState state = GroupState::Ready;
  std::uint8_t barrier = 0;
  std::uint32_t memberMask = 0;
  std::uint32_t syncClass = 0;

  bool joins(const Group &other) const {
    return pc == other.pc && state == other.state && frame == other.frame && local == other.local &&
           depth == other.depth && barrier == other.barrier && memberMask == other.memberMask &&
           syncClass == other.syncClass;
  }
};

/// Rows of special registers; 32-bit ones first, then 64-bit ones.
enum SpecialRow : std::uint32_t {
  TidX,
  TidY,
  TidZ,
  NtidX,
  NtidY,
  NtidZ,
  CtaidX,
  CtaidY,
  CtaidZ,
  NctaidX,
  NctaidY,
  NctaidZ,
  LaneId,
  WarpId,
  NwarpId,
  LanemaskEq,
  LanemaskLe,
  LanemaskLt,
  LanemaskGe,
  LanemaskGt,
  SmId,
  NsmId,
  DynamicSharedSize,
  TotalSharedSize,
  ClusterIdX,
  ClusterIdY,
  ClusterIdZ,
  NclusterIdX,
  NclusterIdY,
  NclusterIdZ,
  ClusterCtaidX,
  ClusterCtaidY,
  ClusterCtaidZ,
  ClusterNctaidX,
  ClusterNctaidY,
  ClusterNctaidZ,
  ClusterCtaRank,
  ClusterNctaRank,
  IsExplicitCluster, ///< a predicate: a mask of lanes
  DynamicSharedBase,
  Envreg1, ///< high and low half of Environment::gridWorkspace, where cooperative groups look
  Envreg2,
  Zero,
  SpecialRows32,
  GridId64 = SpecialRows32,
  Zero64 = SpecialRows32 + 2,
  DynamicSharedBase64 = SpecialRows32 + 4,
  SpecialRowsEnd = SpecialRows32 + 6
};
inline constexpr std::uint32_t rowBytes32 = warpSize * 4;
constexpr Slot specialSlot(std::uint32_t row) { return row * rowBytes32 | SpecialBase; }

/// What the lanes of a warp that wait at a `.sync` operation brought along.
struct SyncBuffers {
  std::uint64_t value[warpSize];
  std::uint32_t first[warpSize], second[warpSize];
};

/// A warp's recent segment for an op, so that most accesses skip the map of allocations.
struct SegmentCache {
  static constexpr std::size_t entries = 32;
  std::uint64_t generation = ~std::uint64_t{0};
  std::array<Segment, entries> segment{};
};

struct Warp {
  std::byte *base[4] = {}; ///< by SlotBase
  Block *block = nullptr;
  std::uint32_t index = 0;
  std::uint32_t live = 0; ///< lanes that have not exited
  /// Lanes that arrived at the cluster's barrier: in the phase under way, and in one that is
  /// complete and that they have not waited for yet.
  std::uint32_t clusterArrived = 0, clusterPassed = 0;
  std::uint32_t current = 0; ///< index of the running group
  std::vector<Group> groups;
  RowBuffer rows;
  RowBuffer specials;
  std::vector<std::byte> local; ///< lane after lane, localStride bytes each
  std::uint32_t localStride = 0;
  SyncBuffers sync;

  template <class T> [[gnu::always_inline]] T *row(Slot slot) {
    return reinterpret_cast<T *>(base[slot & 3u] + (slot & ~3u));
  }
  [[gnu::always_inline]] std::uint32_t &predicate(Slot slot) { return *row<std::uint32_t>(slot); }
  Group &group() { return groups[current]; }
};

/// One of the block's sixteen barriers.
struct Barrier {
  bool active = false;
  std::uint32_t expected = 0;         ///< threads; 0: all of the block that have not exited
  std::uint32_t extra = 0;            ///< arrivals of lanes that had arrived before
  std::vector<std::uint32_t> arrived; ///< lanes, by warp
  std::uint8_t reduction = 0;         ///< which, of those that arrived (barriers.cpp); 0: none
  std::uint32_t count = 0,
                trueCount = 0; ///< of a reduction: lanes, and those with a true predicate
};

/// What of the machine a running block needs.
struct Environment {
  GlobalMemory *globalMemory = nullptr;
  const TextureTable *textures = nullptr;
  std::atomic<std::uint64_t> *watchedWord = nullptr; ///< device address; 0: none
  void (*watchedRead)(void *context) = nullptr;
  void *watchContext = nullptr;
  /// Takes what vprintf prints; null: nobody does.
  void (*print)(void *context, std::string_view text) = nullptr;
  void *printContext = nullptr;
  std::uint32_t virtualSmCount = 1;
  /// How many steps a spinning warp takes before it gives way, so that what it waits for can
  /// happen.
  std::uint32_t warpSlice = 1u << 15;
  /// Device address of the two words by which the blocks of a cooperative launch meet; else 0.
  std::uint64_t gridWorkspace = 0;
};

/// One launch: what all its blocks share.
struct Launch {
  const Program *program = nullptr;
  const FunctionCode *function = nullptr;
  LaunchShape shape;
  Dim3 cluster;                 ///< extents, 1 each where nothing asks for clusters
  bool explicitCluster = false; ///< the launch or the kernel does
  std::vector<std::byte> parameters;
  Environment environment;
};

struct Cluster;

struct Block {
  explicit Block(const Launch &launch);
  /// Makes ready to run the block with this id from its start.
  void reset(const Dim3 &newId);

  const Launch *launch = nullptr;
  const Program *program = nullptr;
  Cluster *cluster = nullptr; ///< that it is part of
  std::uint32_t rank = 0;     ///< in it
  Environment environment;
  Dim3 id{0, 0, 0};
  std::uint32_t threads = 0, sharedBytes = 0, virtualSm = 0;
  std::vector<std::byte> shared;
  std::vector<Warp> warps;
  std::array<Barrier, 16> barriers;
  SegmentCache segments;
  std::uint32_t liveWarps = 0;
  std::uint32_t nextWarp = 0; ///< where the plain order looks first
  bool napped = false;        ///< a thread took a nap in the last turn, so that others may go first
  std::uint64_t executed = 0; ///< thread-instructions
  std::uint64_t steps = 0;    ///< warp-instructions
  std::optional<Fault> fault;
};

/// Records what went wrong at the running group's op, in the name of `lane`. Always Status::Fault.
[[gnu::cold]] Status raise(Warp &warp, const Op &op, std::uint32_t lane, FaultKind kind,
                           std::string what);

} // namespace tally::emulator

#endif
