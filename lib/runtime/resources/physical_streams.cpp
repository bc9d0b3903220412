#include "resources/physical_streams.h"

#include "base/spin.h"

#include <utility>

namespace tally::runtime {

Result<void> PhysicalStreams::open(std::uint32_t smsOfNonPreemptible,
                                   std::span<const std::uint32_t> sizes, bool waits) {
  Result<StreamId> created = own.createStream();
  if (!created)
    return created.error();
  stream = ofNonPreemptible = newest = *created;
  if (smsOfNonPreemptible != 0) {
    Result<StreamId> confined = own.createConfinedStream(smsOfNonPreemptible);
    if (!confined)
      return confined.error();
    ofNonPreemptible = *confined;
  }
  if (Result<void> opened = confinedStreams.open(own, sizes); !opened)
    return opened;
  if (device.areStreamsApart()) {
    Result<StreamId> beside = own.createStream();
    if (!beside)
      return beside.error();
    ofMarks = *beside;
  }
  if (waits && !isConfining() && device.hasWordWaits()) {
    Result<StreamId> other = own.createStream();
    if (!other)
      return other.error();
    ofResumed = *other;
  }
  return {};
}

void PhysicalStreams::close() {
  // Ignore errors: the device ends with everything on it.
  static_cast<void>(device.synchronize(newest));
  if (ofResumed) {
    static_cast<void>(device.synchronize(stream));
    endResumes();
  }
  if (ofMarks)
    own.endStream(*ofMarks);
  own.freeMemory();
  own.endStream(stream);
  if (ofNonPreemptible != stream)
    own.endStream(ofNonPreemptible);
  confinedStreams.close(own);
}

void PhysicalStreams::endResumes() {
  own.endStream(*ofResumed);
  ofResumed.reset();
}

Result<void> PhysicalStreams::continueOn(StreamId target) {
  if (std::exchange(left, {}) == target) {
    newest = target;
    return {};
  }
  if (target == newest)
    return {};
  if (Result<bool> behind = device.waitFor(target, newest); !behind)
    return behind.error();
  newest = target;
  return {};
}

Result<void> PhysicalStreams::leaveApplication() {
  if (!mayUseApplication() || newest == stream)
    return {};
  StreamId from = newest;
  if (Result<void> behind = continueOn(stream); !behind)
    return behind;
  left = from;
  return {};
}

/// Uses another stream before the first kernel: on an H200 each kernel of a stream that has begun
/// with a fill of a megabyte begins 1 us later, for good.
Result<void> PhysicalStreams::clear(DevicePtr memory, std::uint64_t bytes, bool hasLaunched,
                                    bool isHeld) {
  if (hasLaunched) {
    Result<void> behind = continueOn(home(isHeld));
    return behind ? device.fill(newest, memory, std::byte{0}, bytes) : behind;
  }
  Result<StreamId> other = device.createStream(StreamPriority::Low);
  if (!other)
    return other.error();
  Result<void> cleared = device.fill(*other, memory, std::byte{0}, bytes);
  if (cleared)
    cleared = awaitShortly(*other);
  Result<void> ended = device.destroyStream(*other);
  return cleared ? ended : cleared;
}

/// Orders work sent from now on after the work on `other`. Blocks only about as long as that work
/// should take (then a stream wait does it): the GPU may be full of kernels that wait for the
/// calling thread.
Result<void> PhysicalStreams::awaitShortly(StreamId other) {
  constexpr int mostLooks = 10000; // each takes about a microsecond
  for (int look = 0; look < mostLooks; ++look) {
    Result<bool> idle = device.isIdle(other);
    if (!idle)
      return idle.error();
    if (*idle)
      return {};
    pauseProcessor();
  }
  if (Result<bool> behind = device.waitFor(stream, other); !behind)
    return behind.error();
  return {};
}

} // namespace tally::runtime
