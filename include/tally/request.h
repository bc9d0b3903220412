/**
 * @file
 * A server that uses the CUDA runtime marks the begin and the end of its requests with these calls.
 * C99 or C++11; for C++ there is also tally::RequestScope. Needs no other header, not even CUDA's.
 *
 *     tally_request request;
 *     tally_request_options options = {sizeof options, "decode", 20 * 1000 * 1000};
 *     tally_request_begin(stream, &options, &request);    // C
 *     …launch, copy, wait for the answer…
 *     tally_request_end(request);
 *
 *     tally::RequestScope request(stream, "decode");      // C++: ends with the block
 *
 * While a request is open, best-effort work on the GPU stands aside, in this process and in others,
 * even when the request has no work on the device at the moment. Without requests Tally learns from
 * a stream's calls when high-priority work begins and ends.
 *
 * A request ends when the program says so: after the wait for its answer. Work that its streams
 * still have on the device then stays protected until it is done, like work outside of any request.
 * Where its streams have no work, best-effort work goes on at once. A request's latency is the time
 * from its begin to its end by the host's clock (CLOCK_MONOTONIC); tally-top, Prometheus and traces
 * show it.
 *
 * Nesting and overlap. Each begin makes a separate request with its own end, whatever other
 * requests are open, even on the same stream. Best-effort work stands aside from the first begin to
 * the last end. Every request counts in the latencies, so do not mark a part of a request as a
 * request.
 *
 * Without Tally. The calls are references that may stay unresolved (weak symbols), so this header
 * compiles and links without any Tally library, for executables and shared libraries. In a program
 * that was not linked with Tally each call does nothing and returns 0. A shared library that was
 * not linked with Tally reaches Tally if the program was linked with it. TALLY_DISABLE=1 has the
 * same effect as not linking.
 *
 * Errors. Calls return a cudaError_t as an int; 0 is success. They set no error that
 * cudaGetLastError() would find, and never wait for the device. A request that could not begin is
 * 0, for which the other calls do nothing; so a program may ignore the returned errors.
 *
 * Thread safety. Any thread may make any call at any time; a request may end on another thread than
 * it began on. The ending thread must not wait for best-effort work before the end, since
 * best-effort work stands aside for the request; see docs/guide/requests.md.
 *
 * Cost: at most about 100 ns for a begin and for an end where there is no best-effort work. Where
 * there is, a begin tells it to yield (without requests the first high-priority launch does), and
 * an end wakes it.
 */
#ifndef TALLY_REQUEST_H
#define TALLY_REQUEST_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#include <chrono>
#endif

struct CUstream_st; /* what cudaStream_t and CUstream point to */

#ifdef __cplusplus
extern "C" {
#endif

/** Number of an open request; 0: no request. Numbers are not used again. */
typedef uint64_t tally_request;

/** Options of tally_request_begin(). */
typedef struct tally_request_options {
  /** sizeof(tally_request_options). Later versions may append members; members beyond `size` have
   * their defaults. */
  size_t size;
  /** The request's name in traces and profilers: UTF-8, copied by the call. NULL: "request". It
   * should name a kind of request, not a single request, since traces tell only 65,536 names apart.
   */
  const char *name;
  /** Nanoseconds from the begin, up to 2^63 - 1, by which the request should end; 0: no deadline. A
   * request that ends later is counted as a missed deadline, with no other effect. */
  uint64_t deadline_ns;
} tally_request_options;

/** @cond internal */
/* The library's functions, weak so that they may be missing. Do not call them directly. */
#define TALLY_REQUEST_LINKED __attribute__((weak, visibility("default")))
extern int tally_request_begin_v1(struct CUstream_st *stream, const tally_request_options *options,
                                  tally_request *request) TALLY_REQUEST_LINKED;
extern int tally_request_add_stream_v1(tally_request request,
                                       struct CUstream_st *stream) TALLY_REQUEST_LINKED;
extern int tally_request_end_v1(tally_request request) TALLY_REQUEST_LINKED;

/* Each module has its own copy, since the linker decides for each module whether Tally is there. */
#define TALLY_REQUEST_INLINE static inline __attribute__((unused))

/* Takes a stream of 0 as the CUDA runtime's header does in this translation unit. */
TALLY_REQUEST_INLINE struct CUstream_st *tally_request_stream(struct CUstream_st *stream) {
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
  return stream ? stream : (struct CUstream_st *)(uintptr_t)2; /* cudaStreamPerThread */
#else
  return stream;
#endif
}
/** @endcond */

/** Begins a request whose work is on `stream`, and gives its number. `stream` is a high-priority
 * cudaStream_t (or CUstream) of the calling process: a stream that the program made, or a default
 * stream. 0 and cudaStreamLegacy are the legacy default stream of the calling thread's device;
 * cudaStreamPerThread, and 0 where the file is compiled for per-thread default streams, is the
 * calling thread's default stream. `options` may be NULL: no name, no deadline. Thread-safe.
 *
 * @retval 0 The request is open; or the program runs without Tally, and `*request` is 0.
 * @retval 1 cudaErrorInvalidValue: `request` is NULL, `options->size` is below that of the first
 *   version (24 on 64-bit systems), or the deadline is too far away.
 * @retval 2 cudaErrorMemoryAllocation: 65,536 requests are open.
 * @retval 101 cudaErrorInvalidDevice: the stream is on a device that Tally does not serve.
 * @retval 127 cudaErrorStartupFailure: Tally's settings are wrong; all CUDA calls return this.
 * @retval 800 cudaErrorNotPermitted: the stream is best effort, as all streams are under
 *   TALLY_CLASS=best-effort; the program may go on.
 */
TALLY_REQUEST_INLINE int tally_request_begin(struct CUstream_st *stream,
                                             const tally_request_options *options,
                                             tally_request *request) {
  if (request)
    *request = 0;
  return tally_request_begin_v1
             ? tally_request_begin_v1(tally_request_stream(stream), options, request)
             : 0;
}

/** Tells Tally that the request has work on this stream too. After the request's end, the stream
 * then counts as idle as soon as its work is done, without the usual wait for more work.
 * Best-effort work stands aside for streams that were not added, too. A request may have any number
 * of streams; adding a stream again has no effect. Returns as tally_request_begin() does, and 400
 * (cudaErrorInvalidResourceHandle) where no such request is open. A request of 0: does nothing.
 * Thread-safe. */
TALLY_REQUEST_INLINE int tally_request_add_stream(tally_request request,
                                                  struct CUstream_st *stream) {
  return request != 0 && tally_request_add_stream_v1
             ? tally_request_add_stream_v1(request, tally_request_stream(stream))
             : 0;
}

/** Ends the request. Returns 0; or changes nothing and returns 400 (cudaErrorInvalidResourceHandle)
 * where no such request is open, as at its second end. A request of 0: does nothing. A request that
 * is never ended keeps best-effort work away until its process has ended. Thread-safe. */
TALLY_REQUEST_INLINE int tally_request_end(tally_request request) {
  return request != 0 && tally_request_end_v1 ? tally_request_end_v1(request) : 0;
}

#ifdef __cplusplus
} /* extern "C" */

namespace tally {

/// @cond internal
// Hidden: else a module linked with Tally might call the members of a module linked without it.
#define TALLY_REQUEST_MEMBER __attribute__((visibility("hidden")))
/// @endcond

/// A request from its declaration to the end of the block. Can be moved, not copied. One thread at
/// a time.
class RequestScope {
public:
  /// Calls tally_request_begin(). `name` is copied and may be nullptr. `deadline` counts from the
  /// begin; zero or below: no deadline. status() tells whether the request began.
  TALLY_REQUEST_MEMBER explicit RequestScope(
      struct CUstream_st *stream, const char *name = nullptr,
      std::chrono::nanoseconds deadline = std::chrono::nanoseconds(0)) {
    tally_request_options options = {
        sizeof options, name,
        deadline.count() > 0 ? static_cast<std::uint64_t>(deadline.count()) : 0};
    code = tally_request_begin(stream, &options, &number);
  }
  /// Ends the request, unless end() already did.
  TALLY_REQUEST_MEMBER ~RequestScope() { end(); }
  /// Takes over the request of `other`.
  TALLY_REQUEST_MEMBER RequestScope(RequestScope &&other) noexcept
      : number(other.number), code(other.code) {
    other.number = 0;
  }
  /// Ends its own request and takes over the request of `other`.
  TALLY_REQUEST_MEMBER RequestScope &operator=(RequestScope &&other) noexcept {
    if (this != &other) {
      end();
      number = other.number;
      code = other.code;
      other.number = 0;
    }
    return *this;
  }
  RequestScope(const RequestScope &) = delete;
  RequestScope &operator=(const RequestScope &) = delete;

  /// Calls tally_request_add_stream() and returns its cudaError_t.
  TALLY_REQUEST_MEMBER int add(struct CUstream_st *stream) {
    return tally_request_add_stream(number, stream);
  }
  /// Ends the request before the end of the block; later calls do nothing. Returns the cudaError_t
  /// of tally_request_end().
  TALLY_REQUEST_MEMBER int end() {
    tally_request open = number;
    number = 0;
    return tally_request_end(open);
  }
  /// The cudaError_t of the begin; 0: the request began, or the program runs without Tally.
  int status() const { return code; }
  /// The request's number for C calls; 0 where the request did not begin or has ended.
  tally_request get() const { return number; }

private:
  tally_request number = 0;
  int code = 0;
};

#undef TALLY_REQUEST_MEMBER

} // namespace tally
#endif

#undef TALLY_REQUEST_LINKED
#undef TALLY_REQUEST_INLINE

#endif
