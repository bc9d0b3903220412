// The state of the processes on a GPU, as their arena shows it: for tools and exporters. A reader
// takes no slot in the arena, and the processes in the arena do not see it. Reading takes some
// microseconds and slows no process down.
//
//   auto arenas = tally::runtime::findArenas({});
//   auto status = tally::runtime::readArenaStatus(arenas->front());
//   std::string metrics = tally::runtime::prometheusText(std::span(&*status, 1));
#ifndef TALLY_RUNTIME_ARENA_STATUS_H
#define TALLY_RUNTIME_ARENA_STATUS_H

#include "tally/runtime/histogram.h"
#include "tally/runtime/runtime.h"
#include "tally/support/result.h"

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tally::runtime {

/// The work of one class of one living process.
struct ClientStatus {
  enum class State : std::uint8_t {
    Idle,
    Active, ///< high priority: scopes are open. Best effort: work that no higher class holds back
    Waiting ///< best effort: there is work, and a higher class on the GPU is active
  };
  std::uint32_t slot = 0;       ///< number of the slot in the arena, below 64
  std::uint64_t generation = 0; ///< tells apart clients that use one `slot` one after another
  std::uint32_t pid = 0;        ///< in the process's own PID namespace
  std::string name;             ///< ASCII 32 to 126; other characters are '?'
  Class clientClass = Class::High;
  std::uint32_t bestEffortClass = 0; ///< best effort: its class, 1 being the highest
  State state = State::Idle;

  // Counted since the client came.
  std::uint64_t openScopes = 0;       ///< high priority: scopes open now
  std::uint64_t requests = 0;         ///< high priority: explicit requests begun
  std::uint64_t activations = 0;      ///< high priority: times the client woke from idle
  std::chrono::nanoseconds active{0}; ///< high priority: the time for which the client was active
  /// Best effort: finished launches of user's kernels. High priority: launches and copies that the
  /// program called; updated about ten times a second.
  std::uint64_t launches = 0;
  std::uint64_t physicalLaunches = 0; ///< best effort: launches sent to the device for `launches`
  KindCounts launchesByKind{};        ///< best effort: the part of `launches` through variants
  std::uint64_t yields = 0;           ///< best effort: physical launches that left blocks to run
  std::uint64_t savedBlocks = 0;      ///< best effort: blocks that yields left saved inside a loop
  std::uint64_t requestsToYield = 0;  ///< best effort: times the client was asked to yield
  /// Best effort: physical launches that a policy confined to a part of the SMs; and the SMs of a
  /// stream's newest of them, the most of any stream, 0: none so far.
  std::uint64_t confinedLaunches = 0, confinedSms = 0;
  /// Best effort: streams and bytes of device memory that Tally itself has for the work. Each
  /// stream takes one of the device's connections while it has work.
  std::uint64_t ownStreams = 0, ownBytes = 0;
  Histogram turnaround; ///< best effort: from a request to yield until the host saw work gone
  std::chrono::nanoseconds turnaroundSum{0};
  RequestHistogram requestTime; ///< high priority: explicit requests, from begin to end
  std::chrono::nanoseconds requestSum{0};
  std::uint64_t missedDeadlines = 0; ///< high priority: requests that ended after their deadline

  // The process's part of the device's memory, in bytes; a process with clients of both classes
  // shows it at the high-priority client. Counts allocations by the API, and those of relinked
  // programs of class best effort.
  std::uint64_t memoryUsed = 0, memoryPeak = 0;     ///< now, and the largest value so far
  std::uint64_t memoryQuota = 0, memoryReserve = 0; ///< 0: no quota, no reserve
  std::uint64_t memoryRefusals = 0; ///< allocations refused because of quota or reserve
};

/// "high", "best-effort", or for lower classes of best effort "best-effort-2" and so on.
std::string classText(const ClientStatus &client);

struct ArenaStatus {
  std::string path;
  std::string uuid;                    ///< the GPU's, as nvidia-smi shows it after "GPU-"
  std::chrono::nanoseconds takenAt{0}; ///< CLOCK_MONOTONIC
  std::vector<ClientStatus> clients;   ///< in the order of slots
};

/// Finds the paths of arenas: at `options.path` or, if that is empty, at $TALLY_ARENA, where a
/// folder stands for all arenas in it. Without both, the arenas of the user (or the group) in
/// /dev/shm. Empty where no process has made an arena. Fails for an unknown group.
Result<std::vector<std::string>> findArenas(const ArenaOptions &options);

/// Reads an arena. Fails where there is no arena of this version, or where it may not be read.
Result<ArenaStatus> readArenaStatus(const std::string &path);

/// All arenas in Prometheus's text format (0.0.4): counters, gauges and histograms, labelled with
/// gpu, class, name, pid and slot. Histograms have a bucket for each power of two. For requests, a
/// power of two that is not empty is divided further, into buckets of 1.94 %.
std::string prometheusText(std::span<const ArenaStatus> arenas);

} // namespace tally::runtime

#endif
