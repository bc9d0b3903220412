// The headroom, computed from the resources that high-priority launches take.
#ifndef TALLY_LIB_RUNTIME_REQUESTS_REQUEST_HEADROOM_H
#define TALLY_LIB_RUNTIME_REQUESTS_REQUEST_HEADROOM_H

#include "planning/headroom.h"
#include "requests/high_stream.h"

#include "tally/runtime/control_word.h"

#include <atomic>
#include <cstdint>

namespace tally::runtime {

/// A thread that launches high-priority work tells what the launch takes, and calls noteLarge() if
/// it does not fit. A launch that was not told is not known to fit. Thread-safe.
class RequestHeadroom : public Headroom {
public:
  /// Call this before a launch on the stream is made. see() says whether the launch fits.
  void noteLaunchOn(HighStream &stream) {
    if (!stream.launches.load(std::memory_order_relaxed) && !stream.launches.exchange(true))
      addStream();
  }
  /// Call this when no launch on the stream follows.
  void noteGone(HighStream &stream) {
    if (stream.launches.exchange(false))
      dropStream();
  }
  void noteLarge(Nanoseconds now) { lastLarge.store(now.count()); }
  bool largeSince(Nanoseconds time) const {
    return lastLarge.load() != never && Nanoseconds(lastLarge.load()) >= time;
  }

private:
  static constexpr std::int64_t never = INT64_MIN;
  std::atomic<std::int64_t> lastLarge{never};
};

} // namespace tally::runtime

#endif
