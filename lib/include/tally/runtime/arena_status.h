// What the processes on a GPU do, as their arena shows it: for tools and exporters, which need not
// take part in the arena and are not seen by those who do. Reading takes some microseconds and
// slows nobody down.
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
    Active, ///< high priority: scopes are open. Best effort: there is work, and nothing holds it
    Waiting ///< best effort: there is work, and so there is of a higher class on the GPU
  };
  std::uint32_t slot = 0;       ///< of the arena, below 64
  std::uint64_t generation = 0; ///< with `slot`: a client that comes later has another one
  std::uint32_t pid = 0;        ///< in the process's own PID namespace
  std::string name;             ///< 31 to 126 in ASCII; what else was in it is '?'
  Class clientClass = Class::High;
  std::uint32_t bestEffortClass = 0; ///< best effort: which, 1 being the highest
  State state = State::Idle;

  // Since the client came.
  std::uint64_t openScopes = 0;       ///< high priority, now
  std::uint64_t requests = 0;         ///< high priority: explicit ones that have begun
  std::uint64_t activations = 0;      ///< high priority: times it woke from idle
  std::chrono::nanoseconds active{0}; ///< high priority: the time for which it was active
  /// Best effort: launches of user's kernels that were finished. High priority: launches and copies
  /// that were called, renewed about ten times a second.
  std::uint64_t launches = 0;
  std::uint64_t physicalLaunches = 0; ///< best effort: those given to the device for them
  KindCounts launchesByKind{};        ///< best effort: of `launches` those through variants
  std::uint64_t yields = 0;           ///< best effort: physical ones that left blocks to run
  std::uint64_t savedBlocks = 0;      ///< best effort: that they left saved inside of a loop
  std::uint64_t requestsToYield = 0;  ///< best effort: times it was asked
  /// Best effort: streams and bytes of device memory that Tally itself has for the work. Each
  /// stream takes one of the device's connections while it has work.
  std::uint64_t ownStreams = 0, ownBytes = 0;
  Histogram turnaround; ///< best effort: from being asked to yield until the host saw it gone
  std::chrono::nanoseconds turnaroundSum{0};
  RequestHistogram requestTime; ///< high priority: explicit requests, from begin to end
  std::chrono::nanoseconds requestSum{0};
  std::uint64_t missedDeadlines = 0; ///< high priority: requests that ended behind theirs

  // The process's part of the device's memory, in bytes; of a process with clients of both classes
  // at that of high priority. Counted are allocations by the API, and in relinked programs of class
  // best effort.
  std::uint64_t memoryUsed = 0, memoryPeak = 0;     ///< now, and the most at a time
  std::uint64_t memoryQuota = 0, memoryReserve = 0; ///< 0: there is none
  std::uint64_t memoryRefusals = 0; ///< allocations that were not made for one of the two
};

/// "high", "best-effort", or for classes below that "best-effort-2" and so on.
std::string classText(const ClientStatus &client);

struct ArenaStatus {
  std::string path;
  std::string uuid;                    ///< the GPU's, as nvidia-smi shows it behind "GPU-"
  std::chrono::nanoseconds takenAt{0}; ///< CLOCK_MONOTONIC
  std::vector<ClientStatus> clients;   ///< in the order of slots
};

/// The arenas at a place: `options.path` or, where that is empty, $TALLY_ARENA; a folder stands for
/// those in it. Without both, those of the user (or the group) in /dev/shm. None where no process
/// has made one. Fails for an unknown group.
Result<std::vector<std::string>> findArenas(const ArenaOptions &options);

/// Fails where there is no arena that this version knows, or it may not be read.
Result<ArenaStatus> readArenaStatus(const std::string &path);

/// All arenas in Prometheus's text format (0.0.4): counters, gauges and histograms, labelled with
/// gpu, class, name, pid and slot. Turnarounds are by powers of two. So are requests, and each
/// power of two that has any is divided further, into buckets of 1.94 %.
std::string prometheusText(std::span<const ArenaStatus> arenas);

} // namespace tally::runtime

#endif
