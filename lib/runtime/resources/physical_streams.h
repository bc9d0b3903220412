// The streams of the device that a lane's work goes to.
#ifndef TALLY_LIB_RUNTIME_RESOURCES_PHYSICAL_STREAMS_H
#define TALLY_LIB_RUNTIME_RESOURCES_PHYSICAL_STREAMS_H

#include "resources/lane_resources.h"

#include <cstdint>
#include <optional>

namespace tally::runtime {

/// For the dispatcher's thread.
class PhysicalStreams {
public:
  PhysicalStreams(StreamDevice &device, LaneResources &own) : device(device), own(own) {}

  /// `smsOfNonPreemptible`: above 0, kernels that cannot yield have a stream of so many SMs.
  /// `waits`: there is one for what is resumed while the first waits, where the device can wait for
  /// words.
  Result<void> open(std::uint32_t smsOfNonPreemptible, bool waits);
  /// Waits for what is there.
  void close();

  StreamId main() const { return stream; }
  /// For kernels that cannot yield; mostly the same.
  StreamId nonPreemptible() const { return ofNonPreemptible; }
  /// Where the newest work is; the others' is done before it.
  StreamId current() const { return newest; }
  /// For markers beside the work.
  std::optional<StreamId> marks() const { return ofMarks; }
  /// For what is resumed while the first waits; none: it never does.
  std::optional<StreamId> resumes() const { return ofResumed; }
  /// Where work goes: on the first, or, while that waits, where what is resumed goes.
  StreamId home(bool isHeld) const { return isHeld ? *ofResumed : stream; }

  /// What is sent next goes there, behind all that was sent before, on whichever stream.
  Result<void> continueOn(StreamId target);
  /// The same where nothing has to be waited for: what is there and here does not concern it.
  void switchTo(StreamId target) { newest = target; }
  /// The first one never waits from now on.
  void endResumes();
  /// Zeroes the memory ahead of what is sent from now on. `hasLaunched`: kernels were sent to it.
  Result<void> clear(DevicePtr memory, std::uint64_t bytes, bool hasLaunched, bool isHeld);

private:
  Result<void> awaitShortly(StreamId other);

  StreamDevice &device;
  LaneResources &own;
  StreamId stream{}, ofNonPreemptible{}, newest{};
  std::optional<StreamId> ofMarks, ofResumed;
};

} // namespace tally::runtime

#endif
