/**
 * @file
 * The state of the processes on a GPU, as their arena shows it: for tools and exporters. A reader
 * takes no slot in the arena, and the processes in the arena do not see it. Reading takes some
 * microseconds and slows no process down.
 *
 *     tally_report *report;
 *     if (tally_read_report(NULL, NULL, &report) == TALLY_OK) {
 *       puts(tally_report_prometheus(report));
 *       tally_free_report(report);
 *     }
 *
 * A report is a snapshot that does not change. Threads: any thread may call these functions at any
 * time; only tally_free_report() needs that no other call uses the same report.
 */
#ifndef TALLY_REPORT_H
#define TALLY_REPORT_H

#include "tally/tally.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A snapshot of all arenas at a path. */
typedef struct tally_report tally_report;

/** The state of a process's work of one class. */
typedef enum tally_client_state {
  TALLY_CLIENT_IDLE = 0, /**< the client has no work */
  TALLY_CLIENT_ACTIVE =
      1, /**< high priority: requests are open; best effort: no higher class holds its work back */
  TALLY_CLIENT_WAITING = 2 /**< best effort: the client has work, and so has a higher class */
} tally_client_state;

/** Durations since the client joined the arena. Requests: 8.2 us to 34 s, accurate to 1/50 of the
 * duration. Turnarounds: 1 us to 4.3 s, accurate to 1/16. */
typedef struct tally_durations {
  uint64_t count;           /**< number of durations */
  uint64_t sum_nanoseconds; /**< sum of all durations */
  uint64_t p50_nanoseconds; /**< half of the durations do not exceed it; 0: no durations */
  uint64_t p90_nanoseconds; /**< 90 % do not exceed it */
  uint64_t p99_nanoseconds; /**< 99 % do not exceed it */
} tally_durations;

/** The work of one class of one living process. Counters start when the client joins the arena. */
typedef struct tally_client_report {
  size_t size;                /**< in bytes; tally_default_client_report() sets it */
  char name[128];             /**< ASCII */
  uint32_t pid;               /**< in the process's own PID namespace */
  tally_class client_class;   /**< high priority or best effort */
  uint32_t best_effort_class; /**< best effort: its class, 1 (the highest) to 4 */
  tally_client_state state;   /**< now */
  uint32_t slot;              /**< number of the client's slot in the arena */
  uint64_t generation;        /**< tells apart clients that use one `slot` one after another */

  uint64_t open_requests;       /**< high priority: requests that are open now */
  uint64_t requests;            /**< high priority: explicit requests begun */
  uint64_t activations;         /**< high priority: times the client woke from idle */
  uint64_t active_nanoseconds;  /**< high priority: the time for which the client was active */
  tally_durations request_time; /**< high priority: requests, from begin to end */

  /** Best effort: finished launches of user's kernels. High priority: launches and copies that the
   * program called; updated about ten times a second. */
  uint64_t launches;
  uint64_t variant_launches;  /**< best effort: the part of `launches` through variants */
  uint64_t physical_launches; /**< best effort: launches sent to the device for `launches` */
  uint64_t yields;            /**< best effort: physical launches that left blocks to run */
  uint64_t saved_blocks;      /**< best effort: blocks that yields left saved inside a loop */
  uint64_t requests_to_yield; /**< best effort: times the client was told to yield */
  tally_durations turnaround; /**< best effort: from a request to yield until work was gone */

  uint64_t memory_used;     /**< device memory in bytes, as far as Tally counts it */
  uint64_t memory_peak;     /**< largest `memory_used` */
  uint64_t memory_quota;    /**< bytes that the process may allocate; 0: no quota */
  uint64_t memory_reserve;  /**< bytes of the device that it leaves free; 0: no reserve */
  uint64_t memory_refusals; /**< allocations refused because of quota or reserve */

  uint64_t confined_launches; /**< best effort: physical launches kept to a part of the SMs */
  uint64_t confined_sms; /**< best effort: SMs of a stream's newest, the most of any; 0: none */
} tally_client_report;

/** Returns an empty ::tally_client_report with its size set. */
static inline tally_client_report tally_default_client_report(void) {
  tally_client_report client;
  memset(&client, 0, sizeof client);
  client.size = sizeof client;
  return client;
}

/** Reads the arenas at a path: an arena's file, or a folder with one arena for each GPU; NULL:
 * $TALLY_ARENA, or if that is not set the user's, or the group's, arenas in /dev/shm. The report is
 * empty where no process has made an arena. Fails for an unknown group, and where an arena may not
 * be read or is of another version. */
tally_status tally_read_report(const char *arena, const char *arena_group, tally_report **report);
/** Frees a report and its strings. NULL is allowed. */
void tally_free_report(tally_report *report);

/** Returns the number of arenas, one for each GPU; 0 where `report` is NULL. */
size_t tally_report_gpus(const tally_report *report);
/** Returns the GPU's UUID, as nvidia-smi shows it after "GPU-"; NULL where there is no such GPU. */
const char *tally_report_uuid(const tally_report *report, size_t gpu);
/** Returns the path of the GPU's arena; NULL where there is no such GPU. */
const char *tally_report_path(const tally_report *report, size_t gpu);
/** Returns the number of clients in a GPU's arena; 0 where there is no such GPU. */
size_t tally_report_clients(const tally_report *report, size_t gpu);
/** Fills in a client of a GPU; clients are in the order of slots. `out->size` has to be set. Fails
 * where there is no such client. */
tally_status tally_report_client(const tally_report *report, size_t gpu, size_t client,
                                 tally_client_report *out);
/** Returns the report in Prometheus's text format (0.0.4): counters, gauges, and histograms,
 * labelled with gpu, class, name, pid and slot. "" where `report` is NULL; valid until the report
 * is freed. */
const char *tally_report_prometheus(const tally_report *report);

#ifdef __cplusplus
}

#include "tally/support/result.h"

#include <memory>
#include <string>

namespace tally {

/// Owner of a ::tally_report; its destructor frees the report.
class Report {
public:
  /// Calls tally_read_report(), with NULL for empty strings, and returns its error.
  static Result<Report> read(const std::string &arena = {}, const std::string &group = {}) {
    tally_report *made = nullptr;
    if (tally_read_report(arena.empty() ? nullptr : arena.c_str(),
                          group.empty() ? nullptr : group.c_str(), &made) != TALLY_OK)
      return Error{tally_last_error()};
    return Report(made);
  }
  std::size_t gpus() const { return tally_report_gpus(report.get()); } ///< the number of GPUs
  /// The GPU's UUID, as nvidia-smi shows it after "GPU-"; nullptr where there is no such GPU.
  const char *uuid(std::size_t gpu) const { return tally_report_uuid(report.get(), gpu); }
  /// The number of clients of a GPU; 0 where there is no such GPU.
  std::size_t clients(std::size_t gpu) const { return tally_report_clients(report.get(), gpu); }
  /// A client of a GPU (in the order of slots); an empty report where there is no such client.
  tally_client_report client(std::size_t gpu, std::size_t number) const {
    tally_client_report out = tally_default_client_report();
    static_cast<void>(tally_report_client(report.get(), gpu, number, &out)); // else stays empty
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
