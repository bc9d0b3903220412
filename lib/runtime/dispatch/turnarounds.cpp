#include "dispatch/turnarounds.h"

#include "trace/trace.h"

namespace tally::runtime {

namespace {

constexpr std::size_t most = 65536;

} // namespace

std::optional<Nanoseconds> Turnarounds::measure(std::optional<std::uint64_t> oldestBefore) {
  if (!request && oldestBefore)
    request = control.requestAfter(*oldestBefore);
  if (!request)
    return std::nullopt;
  // Work that was issued before the request has an older epoch.
  std::optional<std::uint64_t> oldest = lanes.oldestUnderWay();
  if (oldest && *oldest < request->epoch)
    return std::nullopt;
  Nanoseconds requestedAt = request->at;
  request.reset();
  Nanoseconds elapsed = options.lane.clock() - requestedAt;
  if (Trace *trace = options.lane.trace) {
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
