/**
 * @file
 * Requests of a server that uses the CUDA runtime: where each begins and ends. C99, and C++11 or
 * later, which has tally::RequestScope besides. Needs no other header, CUDA's neither.
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
 * whether the request has work on the device at the moment or not. Without requests Tally learns
 * from a stream's calls when there is high-priority work, and when it is over.
 *
 * A request ends when the program says so: behind the wait for its answer. What its streams still
 * have on the device then stays protected until it is done, as work outside of any request is;
 * where they have nothing, best-effort work goes on at once. A request's latency is the time from
 * its begin to its end by the host's clock (CLOCK_MONOTONIC); tally-top, Prometheus and traces show
 * it.
 *
 * Nesting and overlap. Each begin makes a request of its own with an end of its own, whatever else
 * is open, on the same stream too; best-effort work stands aside from the first begin to the last
 * end. All of them count in latencies, so a part of a request that should not is none of its own.
 *
 * Without Tally. The calls are references that may stay unresolved (weak symbols), so this header
 * compiles and links without any library of Tally's, for executables and shared libraries. In a
 * program that was not linked with Tally each call does nothing and returns 0. A shared library
 * that was not linked with Tally itself reaches it where the program was. TALLY_DISABLE=1 has the
 * same effect as not linking.
 *
 * Errors. Calls return a cudaError_t as an int. 0 is success. They set no error that
 * cudaGetLastError() would find, never wait for the device, and leave a request that could not
 * begin as one that does nothing (0): a program may ignore what they return.
 *
 * Thread safety. All calls may be made on any thread at any time; a request may end on another
 * thread than it began on. What that other thread waits for before the end must not be best-effort
 * work, which stands aside for the request; see docs/guide/requests.md.
 *
 * Cost: at most about 100 ns for a begin and for an end where no best-effort work is there. Where
 * it is, a begin tells it to yield, as the first launch of high priority does else, and an end
 * wakes it.
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

/** An open request. 0 is none. Numbers are not used again. */
typedef uint64_t tally_request;

/** What tally_request_begin() is told about a request. */
typedef struct tally_request_options {
  /** sizeof(tally_request_options). Later versions have more members behind these; those beyond
   * `size` have their defaults. */
  size_t size;
  /** The request's name in traces and profilers: UTF-8, copied by the call. NULL: "request". Traces
   * tell 65,536 names apart, so it should name a kind of request, not a single one. */
  const char *name;
  /** Nanoseconds from the begin, up to 2^63 - 1, by which the request should have ended; 0: it has
   * no deadline. A request that ends later is counted as one that missed it, no more. */
  uint64_t deadline_ns;
} tally_request_options;

/** @cond internal */
/* The library's functions; weak, so that they may be missing. Not to be called directly: */
#define TALLY_REQUEST_LINKED __attribute__((weak, visibility("default")))
extern int tally_request_begin_v1(struct CUstream_st *stream, const tally_request_options *options,
                                  tally_request *request) TALLY_REQUEST_LINKED;
extern int tally_request_add_stream_v1(tally_request request,
                                       struct CUstream_st *stream) TALLY_REQUEST_LINKED;
extern int tally_request_end_v1(tally_request request) TALLY_REQUEST_LINKED;

/* Each module has its own, since the linker decides for each whether Tally is there. */
#define TALLY_REQUEST_INLINE static inline __attribute__((unused))

/* As the CUDA runtime's header takes a stream of 0 in this translation unit. */
TALLY_REQUEST_INLINE struct CUstream_st *tally_request_stream(struct CUstream_st *stream) {
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
  return stream ? stream : (struct CUstream_st *)(uintptr_t)2; /* cudaStreamPerThread */
#else
  return stream;
#endif
}
/** @endcond */

/** Begins a request whose work is on `stream`, and gives its number. `stream` is a cudaStream_t (or
 * CUstream) of high priority of the calling thread's process: one that the program made, or a
 * default stream. 0 and cudaStreamLegacy are the legacy default stream of the calling thread's
 * device; cudaStreamPerThread, and 0 where the file is compiled for per-thread default streams, is
 * that of the calling thread. `options` may be NULL: no name, no deadline. Thread-safe.
 *
 * @retval 0 The request is open; or Tally is not there, and `*request` is 0.
 * @retval 1 cudaErrorInvalidValue: `request` is NULL, `options->size` is below that of the first
 *   version (24 on 64-bit systems), or the deadline is too far away.
 * @retval 2 cudaErrorMemoryAllocation: 65,536 requests are open.
 * @retval 101 cudaErrorInvalidDevice: the stream is on a device that Tally does not serve.
 * @retval 127 cudaErrorStartupFailure: Tally's settings are wrong; all CUDA calls return this.
 * @retval 800 cudaErrorNotPermitted: the stream is best effort, as all are under
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

/** The request has work on this stream too: its end takes the stream's work for over as soon as it
 * is, without the time for which a stream is else kept to see whether more comes. Best-effort work
 * stands aside for streams that were not added as well. Any number of streams; one that was added
 * before is added once. Returns as tally_request_begin() does, and 400
 * (cudaErrorInvalidResourceHandle) where no such request is open. A request of 0: does nothing.
 * Thread-safe. */
TALLY_REQUEST_INLINE int tally_request_add_stream(tally_request request,
                                                  struct CUstream_st *stream) {
  return request != 0 && tally_request_add_stream_v1
             ? tally_request_add_stream_v1(request, tally_request_stream(stream))
             : 0;
}

/** Ends the request. Returns 0, or 400 (cudaErrorInvalidResourceHandle) where no such request is
 * open, as at its second end: nothing changes then. A request of 0: does nothing. A request that is
 * never ended keeps best-effort work away until its process has ended. Thread-safe. */
TALLY_REQUEST_INLINE int tally_request_end(tally_request request) {
  return request != 0 && tally_request_end_v1 ? tally_request_end_v1(request) : 0;
}

#ifdef __cplusplus
} /* extern "C" */

namespace tally {

/// @cond internal
// The members too: else a module that was linked with Tally might call those of one that was not.
#define TALLY_REQUEST_MEMBER __attribute__((visibility("hidden")))
/// @endcond

/// A request from here to the end of the block. Can be moved, not copied. One thread at a time.
class RequestScope {
public:
  /// tally_request_begin(): `name` is copied and may be nullptr; a `deadline`, counted from the
  /// begin, of zero or below is none. status() says whether the request began.
  TALLY_REQUEST_MEMBER explicit RequestScope(
      struct CUstream_st *stream, const char *name = nullptr,
      std::chrono::nanoseconds deadline = std::chrono::nanoseconds(0)) {
    tally_request_options options = {
        sizeof options, name,
        deadline.count() > 0 ? static_cast<std::uint64_t>(deadline.count()) : 0};
    code = tally_request_begin(stream, &options, &number);
  }
  /// Ends the request, unless end() did.
  TALLY_REQUEST_MEMBER ~RequestScope() { end(); }
  /// Takes the request over.
  TALLY_REQUEST_MEMBER RequestScope(RequestScope &&other) noexcept
      : number(other.number), code(other.code) {
    other.number = 0;
  }
  /// Ends the request that it has, and takes the other's over.
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

  /// tally_request_add_stream(): returns its cudaError_t.
  TALLY_REQUEST_MEMBER int add(struct CUstream_st *stream) {
    return tally_request_add_stream(number, stream);
  }
  /// Ends the request before the block does; later ends do nothing. Returns tally_request_end()'s
  /// cudaError_t.
  TALLY_REQUEST_MEMBER int end() {
    tally_request open = number;
    number = 0;
    return tally_request_end(open);
  }
  /// The cudaError_t of the begin; 0: the request began, or Tally is not there.
  int status() const { return code; }
  /// The request for C calls; 0 where it did not begin or has ended.
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
