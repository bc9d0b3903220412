/**
 * @file
 * The runtime's C interface, and the one binary interface that it has: tally/tally.hpp is made of
 * these calls. For programs that embed Tally; a program that was relinked with it needs
 * tally/hooks.h and tally/request.h only.
 *
 *     tally_options options = tally_default_options();
 *     tally_runtime *runtime;
 *     options.device = "cuda";
 *     if (tally_open(&options, &runtime) != TALLY_OK)
 *       puts(tally_last_error());
 *
 * Threads: all calls may be made by any thread at any time, but tally_close(), beside which no
 * other call of that runtime may be under way, and calls that destroy a thing, beside which that
 * thing may not be used. Calls on one stream keep the order in which they are made.
 *
 * Errors: a call that fails returns another status than ::TALLY_OK, leaves its outputs untouched,
 * and says why in tally_last_error() of the same thread. Nothing aborts, nothing prints.
 *
 * Structures begin with their size in bytes, which the tally_default_...() functions set. So they
 * can grow: fields behind `size` are taken as zero, and zero always means the default. Fields that
 * this library does not know, since the program's header is newer, have to be zero
 * (::TALLY_INVALID); of structures that are written to they become zero.
 *
 * Handles are numbers, 0 is none, and one that was destroyed is never given again.
 */
#ifndef TALLY_TALLY_H
#define TALLY_TALLY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TALLY_VERSION_MAJOR 0 /**< of this header's version; see tally_version() */
#define TALLY_VERSION_MINOR 1 /**< of this header's version, 0 to 99 */
#define TALLY_VERSION_PATCH 0 /**< of this header's version, 0 to 99 */
/** This header's version as one number, for comparisons: 10000 major + 100 minor + patch. */
#define TALLY_VERSION                                                                              \
  (TALLY_VERSION_MAJOR * 10000 + TALLY_VERSION_MINOR * 100 + TALLY_VERSION_PATCH)

/** The version of the library, as ::TALLY_VERSION of its header. */
int tally_version(void);

/** What a call returns. */
typedef enum tally_status {
  TALLY_OK = 0,            /**< the call did what it says */
  TALLY_ERROR = 1,         /**< tally_last_error() says what failed */
  TALLY_OUT_OF_MEMORY = 2, /**< of the host */
  TALLY_INVALID = 3        /**< a null pointer, a size or an enumerator out of range */
} tally_status;

/** The error of the last failed call of this thread, one sentence; "" when none failed. Never NULL;
 * valid until the next call of the thread. */
const char *tally_last_error(void);

/** High-priority work passes through; best-effort work yields to it. */
typedef enum tally_class {
  TALLY_CLASS_HIGH = 0,       /**< of latency-critical work */
  TALLY_CLASS_BEST_EFFORT = 1 /**< of work that may wait */
} tally_class;

/** How best-effort work shares the GPU. The last two are there to compare with. */
typedef enum tally_sharing {
  TALLY_SHARING_TALLY = 0,        /**< by variants under the policy */
  TALLY_SHARING_LOW_PRIORITY = 1, /**< the user's kernels on a stream of low priority */
  TALLY_SHARING_SAME_PRIORITY = 2 /**< the user's kernels on a stream of the same priority */
} tally_sharing;

/** An open device with all that shares it. */
typedef struct tally_runtime tally_runtime;
typedef uint64_t tally_module;         /**< a loaded bundle */
typedef uint64_t tally_kernel;         /**< one of its kernels, or an adopted function */
typedef uint64_t tally_client;         /**< a tenant of the device, of one class */
typedef uint64_t tally_stream;         /**< an in-order queue of a client's */
typedef uint64_t tally_device_pointer; /**< an address in device memory */

/** Three extents; x varies fastest, as in CUDA. */
typedef struct tally_dim3 {
  uint32_t x; /**< the fastest */
  uint32_t y; /**< 1 where there is no second */
  uint32_t z; /**< 1 where there is no third */
} tally_dim3;

/** A best-effort client, as policies see it. */
typedef struct tally_client_progress {
  size_t size;              /**< in bytes; one after another they stand at that distance */
  uint64_t ran_nanoseconds; /**< time for which its work has had the device */
  uint32_t ready;           /**< not 0: it has work on the device, or next in a queue */
  uint32_t generation;      /**< changes when the client's number goes to a new client */
} tally_client_progress;

/** What a policy sees at one instant: the fields of tally::Snapshot (tally/policy/policy.h), which
 * says what they mean. Durations are in nanoseconds; INT64_MAX: never. */
typedef struct tally_policy_snapshot {
  size_t size;                   /**< in bytes */
  uint32_t high_priority_active; /**< Snapshot::highPriorityActive */
  uint32_t sm_count;             /**< Snapshot::smCount */
  /** Snapshot::sinceHighPriorityEnded */
  int64_t since_high_priority_ended;
  int64_t held_back;       /**< Snapshot::heldBack */
  int64_t now;             /**< Snapshot::now */
  int64_t active_for;      /**< Snapshot::activeFor */
  uint64_t busy_periods;   /**< Snapshot::busyPeriods */
  int64_t busy_mean;       /**< Snapshot::busyMean */
  int64_t busy_high;       /**< Snapshot::busyHigh */
  int64_t best_effort_ran; /**< Snapshot::bestEffortRan */
  const void *clients;     /**< the first ::tally_client_progress; valid during the call */
  size_t client_count;     /**< how many there are; 0 unless the policy uses clients */
  size_t client_size;      /**< distance in bytes from one to the next */
} tally_policy_snapshot;

/** What a policy decides: the fields of tally::Decision, set to its defaults before each call. */
typedef struct tally_policy_decision {
  size_t size;              /**< in bytes */
  uint32_t run_best_effort; /**< 0: no best-effort launch is issued, running ones are to yield */
  uint32_t sms;             /**< SMs that best-effort work may use, 1 and more; UINT32_MAX: all */
  int64_t longest_non_preemptible; /**< in nanoseconds; Decision::longestNonPreemptible */
  int64_t longest;                 /**< in nanoseconds; Decision::longest */
  uint64_t clients;                /**< bit i: client i may send; clients above 63 always may */
} tally_policy_decision;

/** A policy of the program's own. tally/tally.hpp makes one of any type with decide(). */
typedef struct tally_policy {
  size_t size; /**< in bytes */
  void *state; /**< given to the two functions */
  /** Called often, by one thread at a time, with the fields of `decision` set to their defaults. It
   * must neither block nor throw nor call Tally. */
  void (*decide)(void *state, const tally_policy_snapshot *snapshot,
                 tally_policy_decision *decision);
  /** Called once, by tally_close(), where tally_open() succeeded; may be NULL. */
  void (*destroy)(void *state);
  uint32_t uses_clients; /**< not 0: it reads tally_policy_snapshot::clients */
  uint32_t limits_sms;   /**< not 0: it may set tally_policy_decision::sms */
} tally_policy;

/** What tally_open() is told. Zeros mean the defaults. Options that contradict each other are an
 * error of tally_open(), and so is a wrong TALLY_ variable of the environment
 * (docs/reference/settings.md). Strings are copied. */
typedef struct tally_options {
  size_t size;           /**< in bytes; tally_default_options() sets it */
  const char *device;    /**< "cuda" (the default, NULL) or "emulator" */
  tally_sharing sharing; /**< how best-effort work shares the GPU */

  uint32_t emulator_sms;             /**< emulator: virtual SMs, each a thread; 0: 2 */
  uint32_t emulator_resident_per_sm; /**< emulator: blocks at a time on one SM; 0: 2 */
  /** Names the default arena of an emulator: letters, digits, '-' and '_'; NULL: it has none. */
  const char *emulator_uuid;

  /** NULL: strict priority; else as docs/reference/policies.md has it ("slo:target-us=2000"). */
  const char *policy;
  /** A policy of the program's, instead of `policy`; NULL: none. Copied. */
  const tally_policy *custom_policy;
  /** Strict priority only: idle time of high-priority work before best-effort work runs; an error
   * with `policy` or `custom_policy`. */
  uint64_t hysteresis_nanoseconds;
  /** How long a request may have to wait for best-effort work, 1 us to 1 s; 0: 20 us. */
  uint64_t bound_nanoseconds;
  /** Kinds of variants in the order of preference, "guard,slice"; NULL: as
   * docs/reference/settings.md has it, "none": kernels are non-preemptible and run while no request
   * is active. */
  const char *kinds;
  uint32_t sms_of_non_preemptible; /**< SMs for best-effort kernels that cannot yield; 0: all */
  /** Launches that pause: percent of each SM that they leave to others at most, 1 to 90; 0: 25. */
  uint32_t pause_reserve_percent;
  /** Launches that pause: how long they stay paused while no high-priority work is seen to advance,
   * 10 us to 10 s; 0: 2 ms. */
  uint64_t pause_deadline_nanoseconds;

  uint32_t profiling; /**< whether kinds are chosen by measuring launches: 0 off, 1 on */
  /** How many events a trace holds, the newest, 16 to 16,777,216; 0: $TALLY_TRACE_EVENTS, or
   * 131,072. */
  uint32_t trace_events;
  /** With `profiling`: the file that keeps the measurements; NULL: for a GPU one in
   * $XDG_CACHE_HOME/tally or ~/.cache/tally, for an emulator none. */
  const char *profile_path;
  /** A file for Perfetto that tally_close(), or tally_write_trace(), writes: which work ran when
   * and yielded (docs/guide/watch.md); NULL: $TALLY_TRACE, or none. */
  const char *trace;

  /** Where processes on one GPU meet (docs/guide/processes.md): a file or a folder, "" for the
   * default place, NULL for none: the process is alone. */
  const char *arena;
  const char *arena_group; /**< group whose members may join; NULL: $TALLY_ARENA_GROUP, or none */
  /** With `arena`, not 0: no client will be of high priority, and creating one fails. Under MPS the
   * process then has the lower priority: tally_open() sets CUDA_MPS_CLIENT_PRIORITY=1 unless it is
   * set. It has to come before the driver starts, while no other thread reads the environment. */
  uint32_t best_effort_only;
  uint32_t best_effort_class; /**< with `arena`: the process's, 1 (the highest) to 4; 0: 1 */
  /** Above 0: SIGTERM waits so long, 600,000 at most, until the process has no work on the device;
   * 0: SIGTERM is left alone. */
  uint32_t drain_milliseconds;
} tally_options;

/** All defaults. */
static inline tally_options tally_default_options(void) {
  tally_options options;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  return options;
}

/** Opens a device. `options` may be NULL: all defaults. Fails where there is no such device, and
 * for wrong options or TALLY_ variables. The caller closes the runtime by tally_close(). */
tally_status tally_open(const tally_options *options, tally_runtime **runtime);
/** Ends open requests, waits for all work, and frees all that is left; handles of the runtime end
 * too. NULL is allowed. No other call of the runtime may be under way, and none may follow. */
void tally_close(tally_runtime *runtime);

/** What the device is. */
typedef struct tally_device_info {
  size_t size;    /**< in bytes; tally_default_device_info() sets it */
  uint32_t arch;  /**< 90 for sm_90 */
  uint32_t sms;   /**< streaming multiprocessors */
  char name[128]; /**< as the driver has it */
  char uuid[48];  /**< as nvidia-smi shows it behind "GPU-"; "" where there is none */
  int driver;     /**< CUDA's version number of the driver; 0 on an emulator */
} tally_device_info;

/** An empty ::tally_device_info with its size set. */
static inline tally_device_info tally_default_device_info(void) {
  tally_device_info info;
  memset(&info, 0, sizeof info);
  info.size = sizeof info;
  return info;
}
/** Fills in what the device is; `info->size` has to be set. */
tally_status tally_get_device_info(tally_runtime *runtime, tally_device_info *info);

/** Reads and loads a bundle file of tally-ptxopt's. Fails for a file that cannot be read or is
 * damaged. */
tally_status tally_load(tally_runtime *runtime, const char *path, tally_module *module);
/** Loads a bundle of `bytes` bytes in memory, which is copied. */
tally_status tally_load_memory(tally_runtime *runtime, const void *bundle, size_t bytes,
                               tally_module *module);
/** Waits for all work, then gives the module and its kernels up. */
tally_status tally_unload(tally_runtime *runtime, tally_module module);
/** A kernel by its name as the PTX has it, mangled if it is C++. The same handle each time, valid
 * as long as the module is loaded. Fails where the module has no such kernel. */
tally_status tally_find_kernel(tally_runtime *runtime, tally_module module, const char *name,
                               tally_kernel *kernel);
/** A kernel that the program has loaded itself, a CUfunction of the device's primary context. It
 * has no variants: on best-effort streams it is non-preemptible and runs while no request is
 * active. Errors call it by `name`, which may be NULL. Fails on an emulator. */
tally_status tally_adopt_function(tally_runtime *runtime, void *function, const char *name,
                                  tally_kernel *kernel);
/** Waits for all work, then gives an adopted function up; the program may unload it after that. */
tally_status tally_forget_function(tally_runtime *runtime, tally_kernel kernel);

/** Allocates `bytes` bytes of device memory, aligned to 256 bytes. */
tally_status tally_allocate(tally_runtime *runtime, size_t bytes, tally_device_pointer *pointer);
/** Waits for all streams, then frees memory of tally_allocate(). */
tally_status tally_free(tally_runtime *runtime, tally_device_pointer pointer);

/** A tenant of the device. Its class holds for all its streams. Errors, tally-top and traces show
 * its name, which is copied, need not be unique and may be NULL. Fails for a high-priority client
 * where tally_options::best_effort_only is set, and where all places of the arena are taken. */
tally_status tally_create_client(tally_runtime *runtime, tally_class client_class, const char *name,
                                 tally_client *client);
/** A best-effort client of a class within this process, 1 (the highest, and the class of
 * tally_create_client()) to 4; work of a class stands aside while there is work of a higher one.
 * Fails with a sharing other than ::TALLY_SHARING_TALLY. */
tally_status tally_create_best_effort_client(tally_runtime *runtime, uint32_t best_effort_class,
                                             const char *name, tally_client *client);
/** Gives the client up. Fails while it has streams or open requests. */
tally_status tally_destroy_client(tally_runtime *runtime, tally_client client);

/** Makes an in-order queue of the client's, of the client's class. */
tally_status tally_create_stream(tally_runtime *runtime, tally_client client, tally_stream *stream);
/** A stream for the program's own, a cudaStream_t or CUstream of the device's primary context: what
 * is put here goes there, in order with what the program puts there itself. For clients of high
 * priority; it should have been made with the highest priority. Fails on an emulator. */
tally_status tally_adopt_stream(tally_runtime *runtime, tally_client client, void *native,
                                tally_stream *stream);
/** Waits for what is on the stream; an adopted one stays with the program. Returns what
 * tally_synchronize() would, the stream being gone either way. */
tally_status tally_destroy_stream(tally_runtime *runtime, tally_stream stream);

/** Copies `bytes` bytes to the device, ordered on the stream. The host memory must stay as it is
 * until the stream is synchronised. */
tally_status tally_copy_to_device(tally_runtime *runtime, tally_stream stream,
                                  tally_device_pointer to, const void *from, size_t bytes);
/** Copies `bytes` bytes from the device, ordered on the stream. The host memory holds them once the
 * stream is synchronised. */
tally_status tally_copy_to_host(tally_runtime *runtime, tally_stream stream, void *to,
                                tally_device_pointer from, size_t bytes);
/** Sets each of `bytes` bytes to `value`, ordered on the stream. */
tally_status tally_fill(tally_runtime *runtime, tally_stream stream, tally_device_pointer to,
                        uint8_t value, size_t bytes);

/** How a kernel is launched. */
typedef struct tally_launch_shape {
  size_t size;      /**< in bytes; tally_shape() sets it */
  tally_dim3 grid;  /**< in thread blocks */
  tally_dim3 block; /**< in threads */
  /** Extents of a thread block cluster in blocks, of which the grid's are multiples; all 0: what
   * the kernel itself demands, if anything. */
  tally_dim3 cluster;
  uint32_t dynamic_shared_bytes; /**< shared memory of a block beside what the kernel declares */
} tally_launch_shape;

/** A shape of one dimension, `blocks` of `threads` threads each, without clusters and dynamic
 * shared memory. */
static inline tally_launch_shape tally_shape(uint32_t blocks, uint32_t threads) {
  tally_launch_shape shape;
  memset(&shape, 0, sizeof shape);
  shape.size = sizeof shape;
  shape.grid.x = blocks;
  shape.block.x = threads;
  shape.grid.y = shape.grid.z = shape.block.y = shape.block.z = 1;
  return shape;
}

/** Launches a kernel. `arguments`: its parameters, each at its natural alignment, as a C structure
 * of them lies in memory but for padding at its end; copied at the call. A wrong shape or wrong
 * arguments are an error of this call, a fault on the device is one of the next
 * tally_synchronize(). */
tally_status tally_launch(tally_runtime *runtime, tally_stream stream, tally_kernel kernel,
                          const tally_launch_shape *shape, const void *arguments,
                          size_t argument_bytes);
/** Blocks until everything put on the stream so far is done. Best-effort work that a caller waits
 * for still yields to requests that are open. Fails for a fault on the device. */
tally_status tally_synchronize(tally_runtime *runtime, tally_stream stream);

/** Begins a request of a high-priority client: until its end, best-effort work stands aside. They
 * nest and overlap, within a client and between clients. Takes no lock and allocates nothing.
 * Launches on a high-priority stream outside of any request open one by themselves, which closes
 * once the stream is seen idle. TALLY_ERROR for a best-effort client. */
tally_status tally_begin_request(tally_runtime *runtime, tally_client client);
/** Ends a request of the client's. TALLY_ERROR for a best-effort client, and where the client has
 * no open request. */
tally_status tally_end_request(tally_runtime *runtime, tally_client client);

/** Counts of what a runtime has done since it was opened. */
typedef struct tally_statistics {
  size_t size;                     /**< in bytes; tally_default_statistics() sets it */
  uint64_t high_priority_launches; /**< launches on high-priority streams */
  uint64_t best_effort_launches;   /**< finished launches of the user's kernels */
  uint64_t variant_launches;       /**< best-effort launches that went through variants */
  uint64_t physical_launches;      /**< launches given to the device for best-effort ones */
  uint64_t requests_to_yield;      /**< times that best-effort work was told to yield */
  uint64_t yields;                 /**< physical launches that left blocks to run */
  uint64_t saved_blocks;           /**< blocks that yields left saved inside of a loop */
  uint64_t pauses;                 /**< requests for which work paused in place */
  /** Times that the device had no memory to save blocks in, so that another kind was taken. */
  uint64_t save_areas_refused;
  uint64_t turnarounds; /**< durations that tally_turnarounds() can give, 65,536 at most */
} tally_statistics;

/** All zero but the size. */
static inline tally_statistics tally_default_statistics(void) {
  tally_statistics statistics;
  memset(&statistics, 0, sizeof statistics);
  statistics.size = sizeof statistics;
  return statistics;
}
/** Fills in the counts up to now; `statistics->size` has to be set. */
tally_status tally_get_statistics(tally_runtime *runtime, tally_statistics *statistics);
/** The newest turnarounds in nanoseconds, oldest first: at most `capacity` of them, of at most
 * 65,536 that are kept; `count` is how many were stored. A turnaround is the time from a request to
 * yield, made while best-effort work was on the device, until the host saw the last of it gone. */
tally_status tally_turnarounds(tally_runtime *runtime, uint64_t *nanoseconds, size_t capacity,
                               size_t *count);

/** Writes the trace so far; the file is replaced as a whole. Fails where the runtime was opened
 * without a trace, and where the file cannot be written. */
tally_status tally_write_trace(tally_runtime *runtime);

#ifdef __cplusplus
}
#endif

#endif
