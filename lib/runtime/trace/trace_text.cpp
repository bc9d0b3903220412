// Writes a trace in Chrome's trace event format, which Perfetto reads too: tracks of slices and
// instants, times in microseconds.
#include "trace/trace.h"
#include "trace/trace_tracks.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <set>
#include <utility>

namespace tally::runtime {

namespace {

using Type = TraceEvent::Type;
using Way = TraceEvent::Way;

std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (char c : text)
    if (c == '"' || c == '\\')
      result += std::string{'\\', c};
    else
      result += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  return result + "\"";
}

std::string microseconds(Nanoseconds time) {
  char text[40];
  long long count = time.count();
  std::snprintf(text, sizeof text, "%lld.%03lld", count / 1000, count % 1000);
  return text;
}

class Text {
public:
  Text(pid_t process, const std::vector<std::string> &names)
      : process(std::to_string(process)), names(names) {}

  void add(const TraceEvent &event);
  /// Closes slices that are still open at the end of the last event.
  void finish();
  std::string take() { return std::move(events); }

private:
  void put(std::string_view phase, std::uint32_t track, std::string_view name, Nanoseconds at,
           const std::string &more = {});
  void slice(std::uint32_t track, std::string_view name, Nanoseconds start, Nanoseconds duration,
             const std::string &arguments = {}) {
    put("X", track, name, start,
        ",\"dur\":" + microseconds(duration) +
            (arguments.empty() ? "" : ",\"args\":{" + arguments + "}"));
  }
  void instant(std::uint32_t track, std::string_view name, Nanoseconds at,
               const std::string &arguments) {
    put("i", track, name, at, ",\"s\":\"t\",\"args\":{" + arguments + "}");
  }
  void describe(std::uint32_t track, const std::string &name);
  void request(const TraceEvent &event);
  void work(const TraceEvent &event);
  std::string_view called(const TraceEvent &event) const {
    return event.name < names.size() ? std::string_view(names[event.name]) : std::string_view();
  }

  const std::string process;
  const std::vector<std::string> &names;
  std::string events;
  std::set<std::uint32_t> described;
  std::optional<Nanoseconds> activeSince;
  Nanoseconds latest{0};
  std::uint64_t requests = 0;
};

void Text::put(std::string_view phase, std::uint32_t track, std::string_view name, Nanoseconds at,
               const std::string &more) {
  if (!events.empty())
    events += ",\n";
  events += "{\"ph\":\"" + std::string(phase) + "\",\"pid\":" + process +
            ",\"tid\":" + std::to_string(track) + ",\"name\":" + quoted(name);
  if (phase != "M")
    events += ",\"ts\":" + microseconds(at);
  events += more + "}";
}

void Text::describe(std::uint32_t track, const std::string &name) {
  if (!described.insert(track).second)
    return;
  put("M", track, "thread_name", {}, ",\"args\":{\"name\":" + quoted(name) + "}");
  put("M", track, "thread_sort_index", {},
      ",\"args\":{\"sort_index\":" + std::to_string(track % waitsOf * 2 + track / waitsOf) + "}");
}

/// Writes requests as asynchronous slices with numbers, since requests may overlap.
void Text::request(const TraceEvent &event) {
  std::string id = ",\"cat\":\"request\",\"id\":" + std::to_string(++requests);
  std::string_view name = called(event);
  put("b", HighTrack, name, event.start, id);
  put("e", HighTrack, name, event.start + event.duration,
      id + (event.value != 0 ? ",\"args\":{\"missed_deadline\":true}" : ""));
}

void Text::work(const TraceEvent &event) {
  std::uint32_t lane = FirstLane + event.lane;
  std::string_view name = called(event);
  bool isKernel = event.way == Way::Variant || event.way == Way::NonPreemptible;
  std::string arguments =
      "\"kind\":" + quoted(event.way == Way::Variant ? tally::name(event.kind) : nameOf(event.way));
  if (isKernel && event.value != 0)
    arguments += ",\"blocks\":" + std::to_string(event.value);
  if (event.way == Way::Variant)
    arguments += std::string(",\"resumes\":") + (event.resumes ? "true" : "false") +
                 ",\"yielded\":" + (event.yielded ? "true" : "false");
  if (event.isEstimate)
    arguments += ",\"estimated\":true";
  slice(lane, name, event.start, event.duration, arguments);
  if (event.resumes)
    instant(lane, "resumed", event.start, "\"kernel\":" + quoted(name));
  if (event.yielded)
    instant(lane, "yielded", event.start + event.duration, "\"kernel\":" + quoted(name));
}

void Text::add(const TraceEvent &event) {
  latest = std::max(latest, event.start + event.duration);
  std::uint32_t lane = FirstLane + event.lane;
  switch (event.type) {
  case Type::Wake:
    describe(YieldTrack, "requests to yield");
    instant(YieldTrack, "asked to yield", event.start, "\"epoch\":" + std::to_string(event.value));
    if (!activeSince)
      activeSince = event.start;
    break;
  case Type::Stop:
    describe(YieldTrack, "requests to yield");
    instant(YieldTrack, "told to leave by the policy", event.start,
            "\"epoch\":" + std::to_string(event.value));
    break;
  case Type::Idle:
    describe(HighTrack, "high priority");
    if (activeSince)
      slice(HighTrack, "active", *activeSince, event.start - *activeSince);
    activeSince.reset();
    break;
  case Type::Request:
    describe(HighTrack, "high priority");
    request(event);
    break;
  case Type::Elsewhere:
    describe(ElsewhereTrack, "high priority of other processes");
    slice(ElsewhereTrack, "active", event.start, event.duration);
    break;
  case Type::Pause:
    describe(PauseTrack, "pauses");
    slice(PauseTrack, "paused", event.start, event.duration,
          "\"ended\":" + quoted(nameOf(static_cast<PauseEnd>(event.value))));
    // High priority may have woken without a new epoch.
    if (!activeSince)
      activeSince = event.start;
    break;
  case Type::NoPauses:
    describe(PauseTrack, "pauses");
    instant(PauseTrack, "nothing pauses", event.start,
            "\"for_us\":" + microseconds(Nanoseconds(static_cast<std::int64_t>(event.value))));
    break;
  case Type::Turnaround:
    describe(YieldTrack, "requests to yield");
    slice(YieldTrack, "turnaround", event.start, event.duration);
    break;
  case Type::Wait:
    describe(lane + waitsOf, "lane " + std::to_string(event.lane) + ": waits");
    slice(lane + waitsOf, "waiting", event.start, event.duration);
    break;
  case Type::Batch:
    describe(lane, "lane " + std::to_string(event.lane));
    slice(lane, "batch", event.start, event.duration, "\"things\":" + std::to_string(event.value));
    break;
  case Type::Ahead: {
    std::uint32_t track = FirstAhead + event.lane;
    describe(track, "at once, stream " + std::to_string(event.lane));
    slice(track, "at once", event.start, event.duration,
          "\"operations\":" + std::to_string(event.value));
    break;
  }
  case Type::Work:
    describe(lane, "lane " + std::to_string(event.lane));
    work(event);
    break;
  }
}

void Text::finish() {
  if (activeSince)
    slice(HighTrack, "active", *activeSince, latest - *activeSince);
}

} // namespace

std::string Trace::text() const {
  std::vector<std::string> known;
  {
    std::unique_lock lock(namesMutex);
    known = names;
  }
  Text text(process, known);
  for (const TraceEvent &event : events())
    text.add(event);
  text.finish();
  std::string number = std::to_string(process);
  std::string head =
      "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"tool\":\"tally\",\"lost_events\":" +
      std::to_string(lost()) + ",\"capacity\":" + std::to_string(ring.size()) +
      "},\n\"traceEvents\":[\n{\"ph\":\"M\",\"pid\":" + number +
      ",\"name\":\"process_name\",\"args\":{\"name\":" + quoted(program_invocation_short_name) +
      "}}";
  std::string body = text.take();
  return head + (body.empty() ? "" : ",\n") + body + "\n]}\n";
}

} // namespace tally::runtime
