/**
 * @file
 * Sets classes of streams, for a relinked program that uses the CUDA runtime
 * (docs/reference/programs.md); C. Without a call of these functions, TALLY_CLASS and the
 * priorities of the streams decide their classes.
 *
 * Errors: a call returns a cudaError_t as an int, 0 for success. Threads: any thread may make any
 * call at any time.
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
 * waits for queued best-effort work. In a process with TALLY_CLASS=best-effort every stream stays
 * best effort. Returns a cudaError_t: 0, or cudaErrorNotSupported where the device lacks a feature
 * that best-effort work needs. Thread-safe. */
int tally_stream_set_class(void *stream, tally_stream_class stream_class);

/** Makes a stream best effort, of a class from 1 (the highest) to 4, for calls made from now on.
 * Work of a class stands aside while the process has work of a higher class, unless the higher
 * class or high-priority work waits for it. Without this call a stream's priority gives its class:
 * one class for each priority below the highest that cudaDeviceGetStreamPriorityRange() tells. Work
 * that the stream has queued keeps its order. Returns as tally_stream_set_class() does, and
 * cudaErrorInvalidValue for a number that is no class. Thread-safe. */
int tally_stream_set_best_effort_class(void *stream, unsigned best_effort_class);

#ifdef __cplusplus
}
#endif

#endif
