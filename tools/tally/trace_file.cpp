#include "trace_file.h"

#include "trace/trace_tracks.h" // of the runtime

#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <string_view>

namespace tally::launcher {

namespace {

/// Returns the text behind `"key":`. Quotes in texts are escaped, so no text looks like a key.
std::optional<std::string_view> valueOf(std::string_view line, std::string_view key) {
  std::string mark = "\"" + std::string(key) + "\":";
  std::size_t at = line.find(mark);
  if (at == std::string_view::npos)
    return std::nullopt;
  return line.substr(at + mark.size());
}

std::optional<std::string> textOf(std::string_view line, std::string_view key) {
  std::optional<std::string_view> value = valueOf(line, key);
  if (!value || !value->starts_with('"'))
    return std::nullopt;
  std::string text;
  for (std::size_t at = 1; at < value->size(); ++at) {
    char c = (*value)[at];
    if (c == '"')
      return text;
    if (c == '\\' && ++at == value->size())
      break;
    text += (*value)[at];
  }
  return std::nullopt;
}

template <class Number> std::optional<Number> numberOf(std::string_view line, const char *key) {
  std::optional<std::string_view> value = valueOf(line, key);
  Number number{};
  if (!value ||
      std::from_chars(value->data(), value->data() + value->size(), number).ec != std::errc())
    return std::nullopt;
  return number;
}

/// Enters the event of `line` into `trace`; false where the line is no event.
bool enter(ProcessTrace &trace, std::string_view line) {
  std::optional<std::string> phase = textOf(line, "ph"), name = textOf(line, "name");
  if (!phase || !name)
    return false;
  if (*phase == "M") {
    std::optional<std::string_view> arguments = valueOf(line, "args");
    if (*name == "process_name" && arguments) {
      trace.program = textOf(*arguments, "name").value_or("");
      trace.process = numberOf<std::uint64_t>(line, "pid").value_or(0);
    }
    return true;
  }
  auto start = numberOf<double>(line, "ts");
  auto track = numberOf<std::uint64_t>(line, "tid");
  if (!start || !track)
    return false;
  if (*phase == "i" && (*name == "asked to yield" || *name == "told to leave by the policy"))
    ++trace.requests;
  if (*phase != "X")
    return true;
  auto duration = numberOf<double>(line, "dur");
  if (!duration)
    return false;
  if (*track < runtime::FirstLane) {
    if (*name == "turnaround")
      trace.turnarounds.push_back({*start, *duration});
    if (*name == "active" && *track == runtime::HighTrack)
      trace.active.push_back({*start, *duration});
  } else if (*track < runtime::waitsOf && *name != "batch") {
    TracedWork work;
    work.start = *start;
    work.duration = *duration;
    work.name = std::move(*name);
    work.kind = textOf(line, "kind").value_or("");
    trace.work.push_back(std::move(work));
  }
  return true;
}

} // namespace

Result<ProcessTrace> parseTrace(const std::string &text) {
  ProcessTrace trace;
  std::size_t number = 0;
  bool isTrace = false;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line(text.data() + at, end - at);
    at = end + 1;
    if (++number == 1) {
      isTrace = textOf(line, "tool") == "tally";
      trace.lostEvents = numberOf<std::uint64_t>(line, "lost_events").value_or(0);
    } else if (line != "\"traceEvents\":[" && line != "]}" && !(isTrace && enter(trace, line))) {
      return Error{"line " + std::to_string(number) + " is no event of a trace"};
    }
    if (!isTrace)
      return Error{
          "not a trace as TALLY_TRACE writes it (files that were put together are read one "
          "by one)"};
  }
  if (!text.ends_with("]}\n"))
    return Error{"the trace ends behind line " + std::to_string(number) + ", before its end"};
  return trace;
}

Result<ProcessTrace> readTrace(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(file)), {});
  if (!file.is_open() || file.bad())
    return Error{path + ": cannot read: " + std::strerror(errno)};
  Result<ProcessTrace> trace = parseTrace(text);
  if (!trace)
    return Error{path + ": " + trace.error().message};
  return trace;
}

} // namespace tally::launcher
