// The headroom, as launches of high priority tell what they take.
#ifndef TALLY_LIB_RUNTIME_REQUESTS_REQUEST_HEADROOM_H
#define TALLY_LIB_RUNTIME_REQUESTS_REQUEST_HEADROOM_H

#include "planning/headroom.h"
#include "requests/high_stream.h"

#include "tally/runtime/control_word.h"

#include <atomic>
#include <cstdint>

namespace tally::runtime {

/// Who launches tells it what that takes, and noteLarge() what does not fit. What is launched
/// without is not known to fit. Thread-safe.
class RequestHeadroom : public Headroom {
public:
  /// A launch on the stream, before it is made. see() says whether it fits.
  void noteLaunchOn(HighStream &stream) {
    if (!stream.launches.load(std::memory_order_relaxed) && !stream.launches.exchange(true))
      addStream();
  }
  /// Nothing is launched on it any more.
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
