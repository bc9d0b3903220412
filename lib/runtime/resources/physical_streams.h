// The device's streams to which a lane's work goes.
#ifndef TALLY_LIB_RUNTIME_RESOURCES_PHYSICAL_STREAMS_H
#define TALLY_LIB_RUNTIME_RESOURCES_PHYSICAL_STREAMS_H

#include "resources/confined_streams.h"
#include "resources/lane_resources.h"

#include <cstdint>
#include <optional>

namespace tally::runtime {

/// For the dispatcher's thread.
class PhysicalStreams {
public:
  PhysicalStreams(StreamDevice &device, LaneResources &own) : device(device), own(own) {}

  /// Creates the streams. `smsOfNonPreemptible`: above 0, kernels that cannot yield get a stream
  /// with this many SMs. `sizes`: variants get a stream of each of these numbers of SMs. `waits`:
  /// resumed launches get a stream of their own while the main stream waits, where the device can
  /// wait for words and no kernels are confined.
  Result<void> open(std::uint32_t smsOfNonPreemptible, std::span<const std::uint32_t> sizes,
                    bool waits);
  /// Waits for the work on the streams and destroys them.
  void close();

  StreamId main() const { return stream; }
  /// The main stream, for work that need not come behind the newest work.
  StreamId useMain() {
    left.reset();
    return stream;
  }
  /// The stream for kernels that cannot yield; the main stream unless it is confined to some SMs.
  StreamId nonPreemptible() const { return ofNonPreemptible; }
  /// The stream for variants that are confined to exactly `sms` SMs, if there is one.
  std::optional<StreamId> confined(std::uint32_t sms) const { return confinedStreams.of(sms); }
  /// The stream with the newest work, which runs after the work on the other streams.
  StreamId current() const { return newest; }
  /// The stream for markers beside the work, if there is one.
  std::optional<StreamId> marks() const { return ofMarks; }
  /// The stream for resumed launches while the main stream waits; none: the main stream never
  /// waits.
  std::optional<StreamId> resumes() const { return ofResumed; }
  /// The stream to which work goes now: main(), or resumes() while main() waits (`isHeld`).
  StreamId home(bool isHeld) const { return isHeld ? *ofResumed : stream; }

  /// Makes `target` current: work sent from now on runs after all earlier work on any stream.
  /// `target` may be a stream of the application that takes the lane's work; leaveApplication()
  /// must follow before such a stream may be held up.
  Result<void> continueOn(StreamId target);
  /// Makes the main stream current again if a stream of the application is. Back on that stream no
  /// wait is needed unless other work than markers was put on the main stream meanwhile.
  Result<void> leaveApplication();
  /// Whether streams of the application may take the lane's work: no other stream than the main
  /// stream is for some of it.
  bool mayUseApplication() const { return !ofResumed && !isConfining(); }
  /// Makes `target` current without a wait for earlier work on the other streams.
  void switchTo(StreamId target) { newest = target; }
  /// Destroys the stream for resumed launches: the main stream never waits from now on.
  void endResumes();
  /// Zeroes memory before the work sent from now on. `hasLaunched`: kernels were sent already.
  Result<void> clear(DevicePtr memory, std::uint64_t bytes, bool hasLaunched, bool isHeld);

private:
  /// Whether some of the work goes to streams with a part of the SMs.
  bool isConfining() const { return ofNonPreemptible != stream || !confinedStreams.empty(); }
  Result<void> awaitShortly(StreamId other);

  StreamDevice &device;
  LaneResources &own;
  StreamId stream{}, ofNonPreemptible{}, newest{};
  std::optional<StreamId> ofMarks, ofResumed;
  ConfinedStreams confinedStreams;
  /// The stream of the application with the newest work; the main stream, which is current, has
  /// only markers behind that work.
  std::optional<StreamId> left;
};

} // namespace tally::runtime

#endif
