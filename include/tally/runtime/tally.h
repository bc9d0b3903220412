/* The runtime's C interface: the same calls as tally/runtime/runtime.h, with handles and status
 * codes.
 *
 *   tally_runtime *runtime;
 *   if (tally_open(NULL, &runtime) != TALLY_OK)
 *     puts(tally_last_error());
 *
 * All calls are thread-safe but tally_close(). A call that fails returns another status than
 * TALLY_OK, leaves its outputs untouched, and says why in tally_last_error() of the same thread.
 */
#ifndef TALLY_RUNTIME_TALLY_H
#define TALLY_RUNTIME_TALLY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tally_status {
  TALLY_OK = 0,
  TALLY_ERROR = 1,         /* tally_last_error() says what */
  TALLY_OUT_OF_MEMORY = 2, /* of the host */
  TALLY_INVALID = 3        /* a null pointer or an enumerator out of range */
} tally_status;

/* High-priority work passes through; best-effort work yields to it. */
typedef enum tally_class { TALLY_CLASS_HIGH = 0, TALLY_CLASS_BEST_EFFORT = 1 } tally_class;

/* How best-effort work shares the GPU: by variants under the policy, or, to compare with, by the
 * user's kernels on a stream of lower or of the same priority. */
typedef enum tally_sharing {
  TALLY_SHARING_TALLY = 0,
  TALLY_SHARING_LOW_PRIORITY = 1,
  TALLY_SHARING_SAME_PRIORITY = 2
} tally_sharing;

/* All zeros mean the defaults. */
typedef struct tally_options {
  const char *device; /* "cuda" (the default, NULL) or "emulator" */
  tally_sharing sharing;
  uint64_t hysteresis_nanoseconds;   /* best effort waits so long after the last request */
  uint32_t emulator_sms;             /* virtual SMs; 0: the default */
  uint32_t emulator_resident_per_sm; /* blocks at a time on one of them; 0: the default */
  /* Where processes on one GPU meet (docs/processes.md): a file or a folder, "" for the default
     place, NULL for none: the process is alone. */
  const char *arena;
  const char *arena_group; /* who else may join; NULL: as the environment says, or nobody */
  const char
      *policy; /* NULL: strict priority; else as docs/policies.md has it ("slo:target-us=2000") */
  uint64_t bound_nanoseconds; /* what a request may wait for best-effort work; 0: 20 us */
  /* Whether kinds of variants are chosen by measuring launches: 0 off, 1 on. */
  uint32_t profiling;
  uint32_t sms_of_wholes;    /* SMs for best-effort kernels that cannot yield; 0: all */
  const char *emulator_uuid; /* names the default place for an emulator; NULL: it has none */
  /* With `arena`, not 0: no client will be of high priority. Under MPS the process then has the
     lower priority; see ArenaOptions::bestEffortOnly (runtime.h). */
  int best_effort_only;
  /* A file that tally_close(), or tally_write_trace(), writes: who ran when and who yielded
     (docs/tracing.md); NULL: as $TALLY_TRACE says, or none. */
  const char *trace;
  /* Above 0: SIGTERM waits so long, 600,000 at most, until nothing of the process is on the device;
     see RuntimeOptions::drainOnTermination (runtime.h). 0: it is left alone. */
  uint32_t drain_milliseconds;
  uint32_t trace_events; /* that it holds, the newest; 0: $TALLY_TRACE_EVENTS, or 131,072 */
  /* With `arena`: which class of best-effort work the process's is of, 1 (the highest) to 4; 0: 1.
     See ArenaOptions::bestEffortClass (runtime.h). */
  uint32_t best_effort_class;
} tally_options;

typedef struct tally_dim3 {
  uint32_t x, y, z;
} tally_dim3;

typedef struct tally_statistics {
  uint64_t high_priority_launches;
  uint64_t best_effort_launches; /* of user's kernels, finished */
  uint64_t physical_launches;    /* given to the device for them */
  uint64_t requests_to_yield;
  uint64_t yields;      /* physical launches that left blocks to run */
  uint64_t turnarounds; /* how many tally_turnarounds() can give */
} tally_statistics;

typedef struct tally_runtime tally_runtime;
typedef uint64_t tally_module;
typedef uint64_t tally_kernel;
typedef uint64_t tally_client;
typedef uint64_t tally_stream;
typedef uint64_t tally_device_pointer;

/* What the last failed call of this thread said; "" when none failed. Valid until the next call. */
const char *tally_last_error(void);

/* `options` may be NULL. */
tally_status tally_open(const tally_options *options, tally_runtime **runtime);
/* Waits for all work. NULL is allowed. No other call may be under way. */
void tally_close(tally_runtime *runtime);

/* Reads and loads a bundle file. */
tally_status tally_load(tally_runtime *runtime, const char *path, tally_module *module);
tally_status tally_find_kernel(tally_runtime *runtime, tally_module module, const char *name,
                               tally_kernel *kernel);

tally_status tally_allocate(tally_runtime *runtime, size_t bytes, tally_device_pointer *pointer);
/* Waits for all streams first. */
tally_status tally_free(tally_runtime *runtime, tally_device_pointer pointer);

/* A tenant of the device. Its class holds for all its streams; errors call it by its name, which is
 * copied, need not be unique and may be NULL. */
tally_status tally_create_client(tally_runtime *runtime, tally_class client_class, const char *name,
                                 tally_client *client);
/* A best-effort client of one of the classes that best-effort work of this process has, 1 (the
 * highest, and of tally_create_client()) to 4; work of a class stands aside while there is work of
 * a higher one. With a sharing other than tally's it fails. */
tally_status tally_create_best_effort_client(tally_runtime *runtime, uint32_t best_effort_class,
                                             const char *name, tally_client *client);
tally_status tally_create_stream(tally_runtime *runtime, tally_client client, tally_stream *stream);
/* Ordered on their stream; the host memory is used until the stream is synchronised. */
tally_status tally_copy_to_device(tally_runtime *runtime, tally_stream stream,
                                  tally_device_pointer to, const void *from, size_t bytes);
tally_status tally_copy_to_host(tally_runtime *runtime, tally_stream stream, void *to,
                                tally_device_pointer from, size_t bytes);
tally_status tally_fill(tally_runtime *runtime, tally_stream stream, tally_device_pointer to,
                        uint8_t value, size_t bytes);
/* `arguments`: the kernel's parameters, each at its natural alignment, as a C structure of them
 * lies in memory but for padding at its end; copied at the call. */
tally_status tally_launch(tally_runtime *runtime, tally_stream stream, tally_kernel kernel,
                          tally_dim3 grid, tally_dim3 block, uint32_t dynamic_shared_bytes,
                          const void *arguments, size_t argument_bytes);
/* The same in thread block clusters of these extents, of which the grid's are multiples. A kernel
 * that demands a cluster itself needs only tally_launch(). */
tally_status tally_launch_in_clusters(tally_runtime *runtime, tally_stream stream,
                                      tally_kernel kernel, tally_dim3 grid, tally_dim3 block,
                                      tally_dim3 cluster, uint32_t dynamic_shared_bytes,
                                      const void *arguments, size_t argument_bytes);
tally_status tally_synchronize(tally_runtime *runtime, tally_stream stream);

/* A request of a high-priority client: between the two, best-effort work stands aside. They nest
 * and overlap, within a client and between clients. TALLY_ERROR for a best-effort client, and for
 * an end where that client has no open request. */
tally_status tally_begin_request(tally_runtime *runtime, tally_client client);
tally_status tally_end_request(tally_runtime *runtime, tally_client client);

tally_status tally_get_statistics(tally_runtime *runtime, tally_statistics *statistics);
/* The newest turnarounds in nanoseconds, oldest first: at most `capacity` of them; `count` is how
 * many were stored. */
tally_status tally_turnarounds(tally_runtime *runtime, uint64_t *nanoseconds, size_t capacity,
                               size_t *count);

/* Writes the trace so far; the file is replaced as a whole. Fails where there is none. */
tally_status tally_write_trace(tally_runtime *runtime);

#ifdef __cplusplus
}
#endif

#endif
