#include "dispatch/turnarounds.h"

namespace tally::runtime {

namespace {

constexpr std::size_t most = 65536;

} // namespace

std::optional<Nanoseconds> Turnarounds::measure(std::optional<std::uint64_t> before,
                                                std::optional<std::uint64_t> now, Nanoseconds at,
                                                Trace *trace) {
  if (!yieldingEpoch && before && control.currentEpoch() > *before) {
    yieldingEpoch = before;
    requestedAt = control.raisedAfter(*before);
  }
  if (!yieldingEpoch || (now && *now <= *yieldingEpoch))
    return std::nullopt;
  yieldingEpoch.reset();
  Nanoseconds elapsed = at - requestedAt;
  if (trace) {
    TraceEvent event;
    event.type = TraceEvent::Type::Turnaround;
    event.start = requestedAt;
    event.duration = elapsed;
    trace->add(event);
  }
  auto took = static_cast<std::uint64_t>(elapsed.count());
  std::unique_lock lock(mutex);
  if (kept.size() < most)
    kept.push_back(took);
  else
    kept[next++ % most] = took;
  return elapsed;
}

std::vector<std::uint64_t> Turnarounds::all() const {
  std::unique_lock lock(mutex);
  auto oldest = kept.begin() + static_cast<std::ptrdiff_t>(next % most);
  std::vector<std::uint64_t> sorted(oldest, kept.end());
  sorted.insert(sorted.end(), kept.begin(), oldest);
  return sorted;
}

} // namespace tally::runtime
