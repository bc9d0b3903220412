// A stream whose kernels run on a part of the device's SMs: a green context of the driver's (CUDA
// Driver API, "Green Contexts"). The driver's entry points are looked up when the first one is
// asked for, since drivers before 12.4 have none.
//
// It bounds what runs on it, nothing else: work of other streams may still use these SMs. And it
// has connections to the hardware of its own.
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

/// Gives the driver's entry point of that name, in its first version; nullptr where there is none.
using FindDriverEntry = std::function<void *(const char *name)>;

/// The green contexts of one device, each with one stream. Thread-safe.
class GreenStreams {
public:
  explicit GreenStreams(FindDriverEntry find) : find(std::move(find)) {}

  /// `device`: its number, as cuDeviceGet() takes it. `sms`: rounded up as the device divides.
  /// `priority`: the stream's. The device's context is current. Fails with the call's name and the
  /// driver's number of the error.
  Result<CUstream> create(int device, std::uint32_t sms, int priority);
  /// For writes and waits: what is put there is held up by none of the context's own streams, and
  /// one that waits there holds up none of them, however many they are. Not under MPS, whose
  /// clients share the connections. Fails like create().
  Result<CUstream> createApart(int device, int priority);
  /// Nothing runs on it any more. False: the stream is none of these.
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
