// Streams whose kernels run on a part of the device's SMs, through the driver's green contexts
// (CUDA Driver API, "Green Contexts"). The driver's entry points are looked up when the first
// stream is created, since drivers before 12.4 have no green contexts.
//
// A green context confines only the work on its own streams: work of other streams may still use
// its SMs. It has its own connections to the hardware.
#ifndef TALLY_LIB_RUNTIME_DEVICE_GREEN_CONTEXT_H
#define TALLY_LIB_RUNTIME_DEVICE_GREEN_CONTEXT_H

#include "tally/support/result.h"

#include <cuda.h>

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

namespace tally::runtime {

/// Returns the first version of the driver's entry point `name`; nullptr where there is none.
using FindDriverEntry = std::function<void *(const char *name)>;

/// The green contexts of one device, each with one stream. Thread-safe.
class GreenStreams {
public:
  explicit GreenStreams(FindDriverEntry find) : find(std::move(find)) {}

  /// Creates a green context of about `sms` SMs, rounded up as the device divides them, and its
  /// stream of `priority`. `device`: the number that cuDeviceGet() takes. The device's context must
  /// be current. Fails with the call's name and the driver's error number.
  Result<CUstream> create(int device, std::uint32_t sms, int priority);
  /// Creates a stream for writes and waits: the primary context's streams, however many, cannot
  /// hold it up, and a wait on it cannot hold up these. Fails under MPS, whose clients share the
  /// connections, and like create().
  Result<CUstream> createApart(int device, int priority);
  /// Destroys a stream on which no work runs any more. False: the stream is of no green context
  /// here.
  bool destroy(CUstream stream);
  void destroyAll();

private:
  void end(CUstream stream, CUgreenCtx context) const;

  FindDriverEntry find;
  std::mutex mutex;
  std::map<CUstream, CUgreenCtx> contexts;
};

} // namespace tally::runtime

#endif
