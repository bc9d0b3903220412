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
  Envreg1, ///< high and low half of Environment::gridWorkspace, which cooperative groups read
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

/// Operands that the lanes of a warp waiting at a `.sync` operation have brought.
struct SyncBuffers {
  std::uint64_t value[warpSize];
  std::uint32_t first[warpSize], second[warpSize];
};

/// A warp's recent segments, so that most accesses skip the map of allocations.
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
  /// Lanes that arrived at the cluster's barrier: in the current phase, and in a complete phase for
  /// which they have not waited yet.
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
  std::uint32_t expected = 0;         ///< threads; 0: all threads of the block that have not exited
  std::uint32_t extra = 0;            ///< repeated arrivals of lanes
  std::vector<std::uint32_t> arrived; ///< lanes, by warp
  std::uint8_t reduction = 0; ///< the reduction of the arrived lanes (barriers.cpp); 0: none
  std::uint32_t count = 0,
                trueCount = 0; ///< for a reduction: lanes, and lanes with a true predicate
};

/// The parts of the machine that a running block needs.
struct Environment {
  GlobalMemory *globalMemory = nullptr;
  const TextureTable *textures = nullptr;
  std::atomic<std::uint64_t> *watchedWord = nullptr; ///< device address; 0: none
  void (*watchedRead)(void *context) = nullptr;
  void *watchContext = nullptr;
  /// Takes the output of vprintf; null: the output is dropped.
  void (*print)(void *context, std::string_view text) = nullptr;
  void *printContext = nullptr;
  std::uint32_t virtualSmCount = 1;
  /// Steps of a spinning warp before it yields, so that the awaited event can happen.
  std::uint32_t warpSlice = 1u << 15;
  /// Device address of the two words at which the blocks of a cooperative launch synchronise; else
  /// 0.
  std::uint64_t gridWorkspace = 0;
};

/// One launch: the data that all its blocks share.
struct Launch {
  const Program *program = nullptr;
  const FunctionCode *function = nullptr;
  LaunchShape shape;
  Dim3 cluster;                 ///< extents, 1 each where nothing asks for clusters
  bool explicitCluster = false; ///< the launch or the kernel asks for clusters
  std::vector<std::byte> parameters;
  Environment environment;
};

struct Cluster;

struct Block {
  explicit Block(const Launch &launch);
  /// Prepares to run the block with this id from its start.
  void reset(const Dim3 &newId);

  const Launch *launch = nullptr;
  const Program *program = nullptr;
  Cluster *cluster = nullptr; ///< the block's cluster
  std::uint32_t rank = 0;     ///< rank in the cluster
  Environment environment;
  Dim3 id{0, 0, 0};
  std::uint32_t threads = 0, sharedBytes = 0, virtualSm = 0;
  std::vector<std::byte> shared;
  std::vector<Warp> warps;
  std::array<Barrier, 16> barriers;
  SegmentCache segments;
  std::uint32_t liveWarps = 0;
  std::uint32_t nextWarp = 0; ///< where the plain order searches first
  bool napped = false;        ///< a thread napped in the last turn, so that others may go first
  std::uint64_t executed = 0; ///< thread-instructions
  std::uint64_t steps = 0;    ///< warp-instructions
  std::optional<Fault> fault;
};

/// Records a fault at the running group's op, for `lane`. Always returns Status::Fault.
[[gnu::cold]] Status raise(Warp &warp, const Op &op, std::uint32_t lane, FaultKind kind,
                           std::string what);

} // namespace tally::emulator

#endif
