// Verdicts: the outcome of rewriting one (kernel, kind).
#ifndef TALLY_BUNDLE_VERDICT_H
#define TALLY_BUNDLE_VERDICT_H

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tally {

/// The way in which a rewritten kernel yields. Flag, class, file, entry suffix and test folder
/// share the kind's name.
enum class Kind : std::uint8_t { Slice, Guard, Persistent, Pause, Checkpoint };

/// The kinds that have a pass.
inline constexpr std::array allKinds = {Kind::Slice, Kind::Guard, Kind::Persistent, Kind::Pause,
                                        Kind::Checkpoint};

/// A number for each kind, in the order of allKinds.
using KindCounts = std::array<std::uint64_t, allKinds.size()>;

/// The kind's name in flags, reports and entry names.
constexpr std::string_view name(Kind kind) {
  constexpr std::array<std::string_view, 5> names = {"slice", "guard", "persistent", "pause",
                                                     "checkpoint"};
  return names[static_cast<std::size_t>(kind)];
}

/// Whether a launch of this kind consists of workers that take virtual blocks from a counter.
constexpr bool hasWorkers(Kind kind) {
  return kind == Kind::Persistent || kind == Kind::Pause || kind == Kind::Checkpoint;
}

/// Whether a launch of this kind can stop inside of a block.
constexpr bool stopsInsideBlocks(Kind kind) {
  return kind == Kind::Pause || kind == Kind::Checkpoint;
}

constexpr bool contains(std::span<const Kind> kinds, Kind kind) {
  return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
}

constexpr std::optional<Kind> kindFromName(std::string_view text) {
  for (Kind kind : allKinds)
    if (name(kind) == text)
      return kind;
  return std::nullopt;
}

/// Emitted: there is a variant and it is sound. Refused: Tally cannot rewrite this kernel soundly,
/// and gives a reason; this is normal, never an error. Failed: ptxas rejected the variant.
enum class Status : std::uint8_t { Emitted, Refused, Failed };

constexpr std::string_view name(Status status) {
  constexpr std::array<std::string_view, 3> names = {"emitted", "refused", "failed"};
  return names[static_cast<std::size_t>(status)];
}

/// The outcome of rewriting one kernel for one kind.
struct Verdict {
  Kind kind = Kind::Slice;
  Status status = Status::Refused;
  std::string reason;     ///< reason code, e.g. "divergent-barrier"; empty when emitted
  std::string message;    ///< one sentence; ptxas's own message if the status is Failed
  std::uint32_t line = 0; ///< 1-based line of the input PTX that decided it; 0 when emitted
  /// Checkpoint: bytes that each thread saves, and bytes of static shared memory that a block
  /// saves. The launch's dynamic shared memory adds to savedSharedBytes.
  std::uint32_t recordBytes = 0, savedSharedBytes = 0;
};

} // namespace tally

#endif
