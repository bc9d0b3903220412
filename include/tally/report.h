/**
 * @file
 * What the processes on a GPU do, as their arena shows it: for tools and exporters. They take no
 * part in the arena and are not seen by those who do. Reading takes some microseconds and slows
 * nobody down.
 *
 *     tally_report *report;
 *     if (tally_read_report(NULL, NULL, &report) == TALLY_OK) {
 *       puts(tally_report_prometheus(report));
 *       tally_free_report(report);
 *     }
 *
 * A report is a snapshot that no longer changes. Threads: calls on different reports may be made at
 * any time; on one report all but tally_free_report().
 */
#ifndef TALLY_REPORT_H
#define TALLY_REPORT_H

#include "tally/tally.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A snapshot of all arenas at a place. */
typedef struct tally_report tally_report;

/** The state of a process's work of one class. */
typedef enum tally_client_state {
  TALLY_CLIENT_IDLE = 0, /**< there is no work */
  TALLY_CLIENT_ACTIVE =
      1, /**< high priority: requests are open; best effort: nothing holds its work */
  TALLY_CLIENT_WAITING = 2 /**< best effort: there is work, and so there is of a higher class */
} tally_client_state;

/** Durations since the client came: requests from 8.2 us to 34 s, known to within 1/50 of
 * themselves, turnarounds from 1 us to 4.3 s, to within 1/16. */
typedef struct tally_durations {
  uint64_t count;           /**< how many */
  uint64_t sum_nanoseconds; /**< of them all */
  uint64_t p50_nanoseconds; /**< what half of them do not exceed; 0 where there are none */
  uint64_t p90_nanoseconds; /**< what 90 % do not */
  uint64_t p99_nanoseconds; /**< what 99 % do not */
} tally_durations;

/** The work of one class of one living process. Counters are of the time since the client came. */
typedef struct tally_client_report {
  size_t size;                /**< in bytes; tally_default_client_report() sets it */
  char name[128];             /**< ASCII */
  uint32_t pid;               /**< in the process's own PID namespace */
  tally_class client_class;   /**< high priority or best effort */
  uint32_t best_effort_class; /**< best effort: which, 1 (the highest) to 4 */
  tally_client_state state;   /**< now */
  uint32_t slot;              /**< of the arena */
  uint64_t generation;        /**< with `slot`: a client that comes later has another one */

  uint64_t open_requests;       /**< high priority: now */
  uint64_t requests;            /**< high priority: that were named as such and have begun */
  uint64_t activations;         /**< high priority: times it woke from idle */
  uint64_t active_nanoseconds;  /**< high priority: the time for which it was active */
  tally_durations request_time; /**< high priority: of requests, from begin to end */

  /** Best effort: launches of user's kernels that were finished. High priority: launches and copies
   * that were called, renewed about ten times a second. */
  uint64_t launches;
  uint64_t variant_launches;  /**< best effort: of `launches` those through variants */
  uint64_t physical_launches; /**< best effort: those given to the device for them */
  uint64_t yields;            /**< best effort: physical ones that left blocks to run */
  uint64_t saved_blocks;      /**< best effort: that they left saved inside of a loop */
  uint64_t requests_to_yield; /**< best effort: times it was told */
  tally_durations turnaround; /**< best effort: from being told to yield until it was seen gone */

  uint64_t memory_used;     /**< of the device, in bytes, as far as it is counted */
  uint64_t memory_peak;     /**< the most at a time */
  uint64_t memory_quota;    /**< 0: there is none */
  uint64_t memory_reserve;  /**< 0: there is none */
  uint64_t memory_refusals; /**< allocations that were not made for one of the two */
} tally_client_report;

/** An empty ::tally_client_report with its size set. */
static inline tally_client_report tally_default_client_report(void) {
  tally_client_report client;
  memset(&client, 0, sizeof client);
  client.size = sizeof client;
  return client;
}

/** Reads the arenas at a place: a file, or a folder with one for each GPU; NULL: $TALLY_ARENA, and
 * without that the user's own, or the group's, in /dev/shm. Where no process has made one the
 * report is empty. Fails for an unknown group, and where an arena may not be read or is of another
 * version. */
tally_status tally_read_report(const char *arena, const char *arena_group, tally_report **report);
/** Frees a report and the strings that it gave. NULL is allowed. */
void tally_free_report(tally_report *report);

/** How many arenas, GPUs, there are; 0 where `report` is NULL. */
size_t tally_report_gpus(const tally_report *report);
/** The GPU's UUID, as nvidia-smi shows it behind "GPU-"; NULL where there is no such GPU. */
const char *tally_report_uuid(const tally_report *report, size_t gpu);
/** The path of its arena; NULL where there is no such GPU. */
const char *tally_report_path(const tally_report *report, size_t gpu);
/** How many clients a GPU's arena has; 0 where there is no such GPU. */
size_t tally_report_clients(const tally_report *report, size_t gpu);
/** Fills in a client of a GPU, in the order of slots; `out->size` has to be set. Fails where there
 * is no such client. */
tally_status tally_report_client(const tally_report *report, size_t gpu, size_t client,
                                 tally_client_report *out);
/** The report in Prometheus's text format (0.0.4): counters, gauges, and histograms, labelled with
 * gpu, class, name, pid and slot. "" where `report` is NULL; valid until the report is freed. */
const char *tally_report_prometheus(const tally_report *report);

#ifdef __cplusplus
}

#include "tally/support/result.h"

#include <memory>
#include <string>

namespace tally {

/// A ::tally_report that is freed when it goes.
class Report {
public:
  /// tally_read_report(); empty strings stand for NULL. Its errors are the Result's.
  static Result<Report> read(const std::string &arena = {}, const std::string &group = {}) {
    tally_report *made = nullptr;
    if (tally_read_report(arena.empty() ? nullptr : arena.c_str(),
                          group.empty() ? nullptr : group.c_str(), &made) != TALLY_OK)
      return Error{tally_last_error()};
    return Report(made);
  }
  std::size_t gpus() const { return tally_report_gpus(report.get()); } ///< how many GPUs there are
  /// The GPU's UUID, as nvidia-smi shows it behind "GPU-"; nullptr where there is no such GPU.
  const char *uuid(std::size_t gpu) const { return tally_report_uuid(report.get(), gpu); }
  /// How many clients a GPU has; 0 where there is no such GPU.
  std::size_t clients(std::size_t gpu) const { return tally_report_clients(report.get(), gpu); }
  /// A client of a GPU, in the order of slots; an empty report where there is no such client.
  tally_client_report client(std::size_t gpu, std::size_t number) const {
    tally_client_report out = tally_default_client_report();
    static_cast<void>(tally_report_client(report.get(), gpu, number, &out)); // it stays empty
    return out;
  }
  /// The report in Prometheus's text format; tally_report_prometheus().
  std::string prometheus() const { return tally_report_prometheus(report.get()); }

private:
  explicit Report(tally_report *made) : report(made, tally_free_report) {}
  std::unique_ptr<tally_report, void (*)(tally_report *)> report;
};

} // namespace tally
#endif

#endif
