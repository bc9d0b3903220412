/**
 * @file
 * The runtime's C interface, which is its only binary interface: tally/tally.hpp calls it. For
 * programs that embed Tally. A program that was relinked with Tally needs only tally/hooks.h and
 * tally/request.h.
 *
 *     tally_options options = tally_default_options();
 *     tally_runtime *runtime;
 *     options.device = "cuda";
 *     if (tally_open(&options, &runtime) != TALLY_OK)
 *       puts(tally_last_error());
 *
 * Threads: any thread may make any call at any time, with two exceptions. During tally_close() no
 * other call of that runtime may be under way. While a call destroys an object, no other call may
 * use the object. Calls on one stream keep the order in which they are made.
 *
 * Errors: a call that fails returns a status other than ::TALLY_OK and leaves its outputs
 * untouched; tally_last_error() on the same thread says why. No call aborts or prints.
 *
 * Structures begin with their size in bytes, which the tally_default_...() functions set, so that
 * they can grow. The library takes fields beyond `size` as zero, and zero always means the default.
 * Fields that this library does not know, since the program's header is newer, have to be zero
 * (else ::TALLY_INVALID); in structures that the library fills in, it sets them to zero.
 *
 * Handles are numbers; 0 is no handle. The handle of a destroyed object is never given again.
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

/** The status that a call returns. */
typedef enum tally_status {
  TALLY_OK = 0,            /**< the call succeeded */
  TALLY_ERROR = 1,         /**< tally_last_error() says what failed */
  TALLY_OUT_OF_MEMORY = 2, /**< the host has no memory left */
  TALLY_INVALID = 3        /**< a null pointer, a size or an enumerator out of range */
} tally_status;

/** Returns the error of this thread's last failed call, one sentence; "" when no call failed. Never
 * NULL; valid until the thread's next call. */
const char *tally_last_error(void);

/** High-priority work passes through; best-effort work yields to it. */
typedef enum tally_class {
  TALLY_CLASS_HIGH = 0,       /**< latency-critical work */
  TALLY_CLASS_BEST_EFFORT = 1 /**< work that may wait */
} tally_class;

/** The mode in which best-effort work shares the GPU. The last two modes are baselines for
 * comparison. */
typedef enum tally_sharing {
  TALLY_SHARING_TALLY = 0,        /**< variants of the kernels, under the policy */
  TALLY_SHARING_LOW_PRIORITY = 1, /**< the user's kernels on a stream of low priority */
  TALLY_SHARING_SAME_PRIORITY = 2 /**< the user's kernels on a stream of the same priority */
} tally_sharing;

/** An open device and the clients that share it. */
typedef struct tally_runtime tally_runtime;
typedef uint64_t tally_module;         /**< a loaded bundle */
typedef uint64_t tally_kernel;         /**< a kernel of a module, or an adopted function */
typedef uint64_t tally_client;         /**< a tenant of the device, of one class */
typedef uint64_t tally_stream;         /**< an in-order queue of a client's */
typedef uint64_t tally_device_pointer; /**< an address in device memory */

/** Three extents; x varies fastest, as in CUDA. */
typedef struct tally_dim3 {
  uint32_t x; /**< the fastest */
  uint32_t y; /**< 1 where there is no second extent */
  uint32_t z; /**< 1 where there is no third extent */
} tally_dim3;

/** A best-effort client, as policies see it. */
typedef struct tally_client_progress {
  size_t size;              /**< in bytes; also the distance of one client to the next */
  uint64_t ran_nanoseconds; /**< time for which its work has had the device */
  uint32_t ready;           /**< not 0: its work is on the device, or first in a queue */
  uint32_t generation;      /**< changes when the client's number goes to a new client */
} tally_client_progress;

/** The input of a policy at one instant: the fields of tally::Snapshot; tally/policy/policy.h
 * documents them. Durations are in nanoseconds; INT64_MAX: never. */
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
  const void *clients;     /**< first ::tally_client_progress of an array; valid during the call */
  size_t client_count;     /**< number of clients; 0 unless the policy uses clients */
  size_t client_size;      /**< distance in bytes from one client to the next */
  uint64_t least_sms;      /**< Snapshot::leastSms */
  int64_t busy_last;       /**< Snapshot::busyLast */
} tally_policy_snapshot;

/** The output of a policy: the fields of tally::Decision, at their defaults before each call. */
typedef struct tally_policy_decision {
  size_t size;              /**< in bytes */
  uint32_t run_best_effort; /**< 0: the runtime issues no best-effort launch, and running ones are
                               to yield */
  uint32_t sms;             /**< SMs that best-effort work may use, at least 1; UINT32_MAX: all */
  int64_t longest_non_preemptible; /**< in nanoseconds; Decision::longestNonPreemptible */
  int64_t longest;                 /**< in nanoseconds; Decision::longest */
  uint64_t clients;                /**< bit i: client i may send; clients above 63 always may */
  int64_t longest_unconfined;      /**< in nanoseconds; Decision::longestUnconfined */
} tally_policy_decision;

/** A policy that the program provides. tally/tally.hpp makes one from any type with decide(). */
typedef struct tally_policy {
  size_t size; /**< in bytes */
  void *state; /**< the first argument of both functions */
  /** Tally calls it often, from one thread at a time, with the fields of `decision` set to their
   * defaults. It must neither block nor throw nor call Tally. */
  void (*decide)(void *state, const tally_policy_snapshot *snapshot,
                 tally_policy_decision *decision);
  /** tally_close() calls it once, if tally_open() succeeded; may be NULL. */
  void (*destroy)(void *state);
  uint32_t uses_clients; /**< not 0: the policy reads tally_policy_snapshot::clients */
  uint32_t limits_sms;   /**< not 0: the policy may set tally_policy_decision::sms */
} tally_policy;

/** Options of tally_open(). Zeros mean the defaults. tally_open() fails for options that contradict
 * each other and for a wrong TALLY_ variable of the environment (docs/reference/settings.md). It
 * copies strings. */
typedef struct tally_options {
  size_t size;           /**< in bytes; tally_default_options() sets it */
  const char *device;    /**< "cuda" (the default, NULL) or "emulator" */
  tally_sharing sharing; /**< how best-effort work shares the GPU */

  uint32_t emulator_sms;             /**< emulator: virtual SMs, each one a thread; 0: 2 */
  uint32_t emulator_resident_per_sm; /**< emulator: thread blocks at a time on one SM; 0: 2 */
  /** Name of an emulator's default arena: letters, digits, '-' and '_'; NULL: no default arena. */
  const char *emulator_uuid;

  /** A policy as docs/reference/policies.md describes it ("slo:target-us=2000"); NULL: strict
   * priority. */
  const char *policy;
  /** The program's own policy, instead of `policy`; NULL: none. Copied. */
  const tally_policy *custom_policy;
  /** Strict priority only: how long high-priority work must be idle before best-effort work runs.
   * An error with `policy` or `custom_policy`. */
  uint64_t hysteresis_nanoseconds;
  /** Longest time that a request may wait for a block of best-effort work, 1 us to 1 s; 0: 20 us.
   * Kernels that cannot yield are sent ahead for at most twice this time, or a single longer one.
   */
  uint64_t bound_nanoseconds;
  /** Kinds of variants in the order of preference, "guard,slice"; NULL: the default of
   * docs/reference/settings.md. "none": kernels are non-preemptible and run while no request is
   * active. */
  const char *kinds;
  uint32_t sms_of_non_preemptible; /**< SMs for best-effort kernels that cannot yield; 0: all */
  /** Launches that pause: percent of each SM that they leave free at most, 1 to 90; 0: 25. */
  uint32_t pause_reserve_percent;
  /** Launches that pause: how long they stay paused while no high-priority work is seen to advance,
   * 10 us to 10 s; 0: 2 ms. */
  uint64_t pause_deadline_nanoseconds;

  uint32_t profiling; /**< whether kinds are chosen by measuring launches: 0 off, 1 on */
  /** Number of events, the newest ones, in a trace: 16 to 16,777,216; 0: $TALLY_TRACE_EVENTS, or
   * 131,072. */
  uint32_t trace_events;
  /** With `profiling`: the file that keeps the measurements; NULL: for a GPU a file in
   * $XDG_CACHE_HOME/tally or ~/.cache/tally, for an emulator no file. */
  const char *profile_path;
  /** Path of a trace for Perfetto: the times at which work ran and yielded (docs/guide/watch.md).
   * tally_close() or tally_write_trace() writes it. NULL: $TALLY_TRACE, or no trace. */
  const char *trace;

  /** The arena of the processes on one GPU (docs/guide/processes.md): a file or a folder; "": the
   * default place; NULL: no arena, so the process knows of no other. */
  const char *arena;
  const char *arena_group; /**< group whose members may join; NULL: $TALLY_ARENA_GROUP, or none */
  /** With `arena`, not 0: no client is of high priority, and creating a high-priority client fails.
   * Under MPS the process then has the lower priority: tally_open() sets CUDA_MPS_CLIENT_PRIORITY=1
   * unless the variable is set. So tally_open() has to come before the driver starts, while no
   * other thread reads the environment. */
  uint32_t best_effort_only;
  uint32_t best_effort_class; /**< with `arena`: the process's class, 1 (the highest) to 4; 0: 1 */
  /** Above 0, up to 600,000: on SIGTERM the process waits at most this long until it has no work on
   * the device; 0: Tally does not handle SIGTERM. */
  uint32_t drain_milliseconds;
} tally_options;

/** Returns options that are all at their defaults. */
static inline tally_options tally_default_options(void) {
  tally_options options;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  return options;
}

/** Opens a device. `options` may be NULL: all defaults. Fails where there is no such device, and
 * for wrong options or TALLY_ variables. The caller closes the runtime with tally_close(). */
tally_status tally_open(const tally_options *options, tally_runtime **runtime);
/** Ends open requests, waits for all work, and frees all objects that are left; their handles
 * become invalid. NULL is allowed. No other call of the runtime may be under way, and no call may
 * follow. */
void tally_close(tally_runtime *runtime);

/** Description of the device. */
typedef struct tally_device_info {
  size_t size;    /**< in bytes; tally_default_device_info() sets it */
  uint32_t arch;  /**< 90 for sm_90 */
  uint32_t sms;   /**< streaming multiprocessors */
  char name[128]; /**< the driver's name of the device */
  char uuid[48];  /**< as nvidia-smi shows it after "GPU-"; "" where there is none */
  int driver;     /**< CUDA version of the driver (CUDA's number); 0 on an emulator */
} tally_device_info;

/** Returns an empty ::tally_device_info with its size set. */
static inline tally_device_info tally_default_device_info(void) {
  tally_device_info info;
  memset(&info, 0, sizeof info);
  info.size = sizeof info;
  return info;
}
/** Fills in the description of the device; `info->size` has to be set. */
tally_status tally_get_device_info(tally_runtime *runtime, tally_device_info *info);

/** Reads and loads a bundle file that tally-ptxopt wrote. Fails for a file that cannot be read or
 * is damaged. */
tally_status tally_load(tally_runtime *runtime, const char *path, tally_module *module);
/** Loads a bundle of `bytes` bytes in memory, which is copied. */
tally_status tally_load_memory(tally_runtime *runtime, const void *bundle, size_t bytes,
                               tally_module *module);
/** Waits for all work, then frees the module and its kernels. */
tally_status tally_unload(tally_runtime *runtime, tally_module module);
/** Finds a kernel by its name in the PTX, mangled if it is C++. Gives the same handle each time,
 * valid as long as the module is loaded. Fails where the module has no such kernel. */
tally_status tally_find_kernel(tally_runtime *runtime, tally_module module, const char *name,
                               tally_kernel *kernel);
/** Makes a kernel of a CUfunction that the program has loaded itself in the device's primary
 * context. The kernel has no variants: on best-effort streams it is non-preemptible and runs while
 * no request is active. Errors show its `name`, which may be NULL. Fails on an emulator. */
tally_status tally_adopt_function(tally_runtime *runtime, void *function, const char *name,
                                  tally_kernel *kernel);
/** Waits for all work, then forgets an adopted function; the program may unload it afterwards. */
tally_status tally_forget_function(tally_runtime *runtime, tally_kernel kernel);

/** Allocates `bytes` bytes of device memory, aligned to 256 bytes. */
tally_status tally_allocate(tally_runtime *runtime, size_t bytes, tally_device_pointer *pointer);
/** Waits for all streams, then frees memory that tally_allocate() gave. */
tally_status tally_free(tally_runtime *runtime, tally_device_pointer pointer);

/** Creates a tenant of the device. Its class holds for all its streams. Errors, tally-top and
 * traces show its name, which is copied, need not be unique and may be NULL. Fails for a
 * high-priority client where tally_options::best_effort_only is set, and where all slots of the
 * arena are taken. */
tally_status tally_create_client(tally_runtime *runtime, tally_class client_class, const char *name,
                                 tally_client *client);
/** Creates a best-effort client of a class within this process, 1 (the highest, and the class of
 * tally_create_client()) to 4. Work of a class stands aside while there is work of a higher class.
 * Fails with a sharing other than ::TALLY_SHARING_TALLY. */
tally_status tally_create_best_effort_client(tally_runtime *runtime, uint32_t best_effort_class,
                                             const char *name, tally_client *client);
/** Frees the client. Fails while the client has streams or open requests. */
tally_status tally_destroy_client(tally_runtime *runtime, tally_client client);

/** Creates an in-order queue of the client, of the client's class. */
tally_status tally_create_stream(tally_runtime *runtime, tally_client client, tally_stream *stream);
/** Wraps the program's own stream, a cudaStream_t or CUstream of the device's primary context. Work
 * put on the new stream goes to the program's stream, in order with the work that the program puts
 * there itself. For high-priority clients; the program should have made its stream with the highest
 * priority. Fails on an emulator. */
tally_status tally_adopt_stream(tally_runtime *runtime, tally_client client, void *native,
                                tally_stream *stream);
/** Waits for the work on the stream, then frees the stream; an adopted stream stays with the
 * program. Returns what tally_synchronize() would; the stream is gone even if that is an error. */
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

/** The shape of a launch. */
typedef struct tally_launch_shape {
  size_t size;      /**< in bytes; tally_shape() sets it */
  tally_dim3 grid;  /**< in thread blocks */
  tally_dim3 block; /**< in threads */
  /** Extents of a thread block cluster in blocks; the grid's extents are multiples of them. All 0:
   * the cluster that the kernel itself demands, if any. */
  tally_dim3 cluster;
  uint32_t dynamic_shared_bytes; /**< of a block, beside the memory that the kernel declares */
} tally_launch_shape;

/** Returns a shape of one dimension: `blocks` thread blocks of `threads` threads each, no clusters
 * and no dynamic shared memory. */
static inline tally_launch_shape tally_shape(uint32_t blocks, uint32_t threads) {
  tally_launch_shape shape;
  memset(&shape, 0, sizeof shape);
  shape.size = sizeof shape;
  shape.grid.x = blocks;
  shape.block.x = threads;
  shape.grid.y = shape.grid.z = shape.block.y = shape.block.z = 1;
  return shape;
}

/** Launches a kernel. `arguments` holds its parameters, each at its natural alignment, laid out
 * like a C structure of them without the padding at its end; the call copies them. This call fails
 * for a wrong shape or wrong arguments; after a fault on the device the next tally_synchronize()
 * fails. */
tally_status tally_launch(tally_runtime *runtime, tally_stream stream, tally_kernel kernel,
                          const tally_launch_shape *shape, const void *arguments,
                          size_t argument_bytes);
/** Blocks until all work put on the stream so far is done. Best-effort work that a caller waits for
 * still yields to open requests. Fails for a fault on the device. */
tally_status tally_synchronize(tally_runtime *runtime, tally_stream stream);

/** Begins a request of a high-priority client: until its end, best-effort work stands aside.
 * Requests may nest and overlap, within a client and between clients. Takes no lock and allocates
 * nothing. A launch on a high-priority stream outside of any request opens a request by itself,
 * which closes once the stream is seen idle. TALLY_ERROR for a best-effort client. */
tally_status tally_begin_request(tally_runtime *runtime, tally_client client);
/** Ends a request of the client. TALLY_ERROR for a best-effort client, and where the client has no
 * open request. */
tally_status tally_end_request(tally_runtime *runtime, tally_client client);

/** Counters of a runtime since it was opened. */
typedef struct tally_statistics {
  size_t size;                     /**< in bytes; tally_default_statistics() sets it */
  uint64_t high_priority_launches; /**< launches on high-priority streams */
  uint64_t best_effort_launches;   /**< finished launches of the user's kernels */
  uint64_t variant_launches;       /**< best-effort launches that went through variants */
  uint64_t physical_launches;      /**< launches sent to the device for best-effort launches */
  uint64_t requests_to_yield;      /**< times that best-effort work was told to yield */
  uint64_t yields;                 /**< physical launches that left thread blocks to run */
  uint64_t saved_blocks;           /**< thread blocks that yields left saved inside a loop */
  uint64_t pauses;                 /**< requests for which work paused in place */
  /** Times that the device had no memory for a save area, so that a launch took another kind. */
  uint64_t save_areas_refused;
  uint64_t turnarounds;       /**< turnarounds that tally_turnarounds() can give, 65,536 at most */
  uint64_t confined_launches; /**< physical launches that a policy kept to a part of the SMs */
  uint64_t confined_sms;      /**< SMs of a stream's newest of these, the most of any; 0: none */
} tally_statistics;

/** Returns statistics that are all zero but the size. */
static inline tally_statistics tally_default_statistics(void) {
  tally_statistics statistics;
  memset(&statistics, 0, sizeof statistics);
  statistics.size = sizeof statistics;
  return statistics;
}
/** Fills in the current counts; `statistics->size` has to be set. */
tally_status tally_get_statistics(tally_runtime *runtime, tally_statistics *statistics);
/** Stores the newest turnarounds in nanoseconds, oldest first: at most `capacity` of the at most
 * 65,536 that are kept. `count` becomes the number stored. A turnaround is the time from a request
 * to yield, made while best-effort work was on the device, until the host saw the last of that work
 * gone. */
tally_status tally_turnarounds(tally_runtime *runtime, uint64_t *nanoseconds, size_t capacity,
                               size_t *count);

/** Writes the trace so far, replacing the whole file. Fails where the runtime was opened without a
 * trace, and where the file cannot be written. */
tally_status tally_write_trace(tally_runtime *runtime);

#ifdef __cplusplus
}
#endif

#endif
