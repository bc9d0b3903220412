#include "watch.h"

#include "frame.h"
#include "json.h"
#include "table.h"

#include <cstdio>
#include <deque>
#include <thread>
#include <unistd.h>

namespace tally::top {

namespace {

/// Number of intervals that the table's quantiles cover.
constexpr std::size_t window = 10;

/// Reads all arenas at the path; arenas may come and go. Fails where there is no arena at all.
Result<Look> look(const Options &options) {
  runtime::ArenaOptions place;
  place.path = options.arena;
  Result<std::vector<std::string>> paths = runtime::findArenas(place);
  if (!paths)
    return paths.error();
  Look all;
  Error last{"there is no arena: no process that uses tally has had work on a GPU"};
  for (const std::string &path : *paths) {
    Result<runtime::ArenaStatus> status = runtime::readArenaStatus(path);
    if (status)
      all.push_back(std::move(*status));
    else
      last = status.error();
  }
  if (all.empty())
    return last;
  return all;
}

double timeNow() {
  auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

bool show(const Options &options, const std::deque<Look> &looks, const Look &now) {
  if (options.output == Output::Json)
    return writeOut(toJson(compare(looks.back(), looks.back(), now), timeNow()));
  bool isLive = !options.once && isatty(STDOUT_FILENO) != 0;
  const char *clear = isLive ? "\x1b[H\x1b[J" : "";
  return writeOut(clear + toTable(compare(looks.front(), looks.back(), now)));
}

} // namespace

bool writeOut(const std::string &text) {
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() &&
         std::fflush(stdout) == 0;
}

Result<void> watch(const Options &options) {
  const Error unwritten{"standard output cannot be written"};
  Result<Look> first = look(options);
  if (!first)
    return first.error();
  if (options.output == Output::Prometheus)
    return writeOut(runtime::prometheusText(*first)) ? Result<void>() : unwritten;
  std::deque<Look> looks = {std::move(*first)};
  for (;;) {
    std::this_thread::sleep_for(options.interval);
    Result<Look> now = look(options);
    if (!now)
      return now.error();
    if (!show(options, looks, *now))
      return unwritten;
    if (options.once)
      return {};
    looks.push_back(std::move(*now));
    if (looks.size() > window)
      looks.pop_front();
  }
}

} // namespace tally::top
