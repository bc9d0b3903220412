/**
 * @file
 * Classes of streams, for a relinked program that uses the CUDA runtime
 * (docs/reference/programs.md); C. Without a call of these functions, TALLY_CLASS and the
 * priorities of the streams decide.
 *
 * Errors: a call returns a cudaError_t as an int, 0 for success. Threads: all calls may be made by
 * any thread at any time.
 */
#ifndef TALLY_RUNTIME_HOOKS_H
#define TALLY_RUNTIME_HOOKS_H

#ifdef __cplusplus
extern "C" {
#endif

/** The class of a stream's calls. */
typedef enum tally_stream_class {
  TALLY_STREAM_HIGH = 0, /**< calls pass through; best-effort work yields to them */
  TALLY_STREAM_BEST_EFFORT =
      1 /**< calls are queued, and run while no high-priority work is active */
} tally_stream_class;

/** Sets the class of a stream (a cudaStream_t, default streams too) for calls made from now on;
 * waits for best-effort work that is queued. In a process of TALLY_CLASS=best-effort every stream
 * stays best effort. Returns a cudaError_t: 0, or cudaErrorNotSupported where the device lacks what
 * best-effort work needs. Thread-safe. */
int tally_stream_set_class(void *stream, tally_stream_class stream_class);

/** Makes a stream best effort, of one of four classes: work of a class stands aside while there is
 * work of a higher one in the process, unless that, or work of high priority, waits for it. 1 is
 * the highest. Without this call a stream's priority says its class: one for each priority below
 * the highest that cudaDeviceGetStreamPriorityRange() tells. For calls made from now on; what a
 * stream has queued keeps its order. Returns as above; cudaErrorInvalidValue for a number that is
 * none. Thread-safe. */
int tally_stream_set_best_effort_class(void *stream, unsigned best_effort_class);

#ifdef __cplusplus
}
#endif

#endif
