// tally-top: what the processes that share a GPU do, live.
#include "frame.h"
#include "json.h"
#include "options.h"
#include "table.h"

#include <cstdio>
#include <deque>
#include <thread>
#include <unistd.h>

namespace {

using namespace tally;
using top::Look;

/// Quantiles of the table are those of so many intervals.
constexpr std::size_t window = 10;

int fail(const std::string &message) {
  std::fprintf(stderr, "tally-top: error: %s\n", message.c_str());
  return 1;
}

/// All arenas at the place, which may come and go. Fails where there is none at all.
Result<Look> look(const top::Options &options) {
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

/// Whether it was written.
bool write(const std::string &text) {
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() &&
         std::fflush(stdout) == 0;
}

bool show(const top::Options &options, const std::deque<Look> &looks, const Look &now) {
  if (options.output == top::Output::Json)
    return write(top::toJson(top::compare(looks.back(), looks.back(), now), timeNow()));
  bool isLive = !options.once && isatty(STDOUT_FILENO) != 0;
  const char *clear = isLive ? "\x1b[H\x1b[J" : "";
  return write(clear + top::toTable(top::compare(looks.front(), looks.back(), now)));
}

int run(const top::Options &options) {
  Result<Look> first = look(options);
  if (!first)
    return fail(first.error().message);
  if (options.output == top::Output::Prometheus)
    return write(runtime::prometheusText(*first)) ? 0 : fail("standard output cannot be written");
  std::deque<Look> looks = {std::move(*first)};
  for (;;) {
    std::this_thread::sleep_for(options.interval);
    Result<Look> now = look(options);
    if (!now)
      return fail(now.error().message);
    if (!show(options, looks, *now))
      return fail("standard output cannot be written");
    if (options.once)
      return 0;
    looks.push_back(std::move(*now));
    if (looks.size() > window)
      looks.pop_front();
  }
}

} // namespace

int main(int count, char **arguments) {
  std::vector<std::string_view> words(arguments + 1, arguments + count);
  Result<top::Options> options = top::parseOptions(words);
  if (!options)
    return fail(options.error().message);
  if (options->help)
    return write(top::helpText) ? 0 : 1;
  if (options->version)
    return write("tally-top " TALLY_VERSION "\n") ? 0 : 1;
  return run(*options);
}
