// Programs that other programs drive. Each line of the input is a command, each line of the output
// an answer in JSON. Instants are nanoseconds of CLOCK_MONOTONIC, which all processes of a machine
// share.
#ifndef TALLY_BENCHMARKS_COLOCATION_COMMANDS_CUH
#define TALLY_BENCHMARKS_COLOCATION_COMMANDS_CUH

#include "loads.cuh"
#include "options.h"

#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <string>

namespace colocation {

inline long long nanoseconds(Clock::time_point at) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(at.time_since_epoch()).count();
}
inline Clock::time_point instant(long long nanoseconds) {
  return Clock::time_point(std::chrono::nanoseconds(nanoseconds));
}

/// Of at least one value.
inline double percentile(std::vector<double> values, double fraction) {
  auto place = static_cast<std::ptrdiff_t>(static_cast<double>(values.size()) * fraction);
  auto at = values.begin() + std::min(place, static_cast<std::ptrdiff_t>(values.size()) - 1);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}
inline double median(const std::vector<double> &values) { return percentile(values, 0.5); }

/// Reads the words behind the command's name, and prints the command's answer.
using Command = void (*)(std::istream &words);

/// Obeys commands until the input ends. Returns the program's exit status.
inline int obey(const std::map<std::string, Command> &commands) {
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    auto command = commands.find(name);
    if (command == commands.end()) {
      std::fprintf(stderr, "%s: what is '%s'?\n", program_invocation_short_name, line.c_str());
      return 2;
    }
    command->second(words);
    std::fflush(stdout);
  }
  return 0;
}

/// Returns one server per requested kind and keeps it, since a server never frees its memory.
template <class Kind> Kind &serverOf(const ServerOptions &options) {
  struct Known {
    unsigned layers;
    bool graph;
    std::unique_ptr<Kind> server;
  };
  static std::vector<Known> all;
  for (const Known &known : all)
    if (known.layers == options.layers && known.graph == options.graph)
      return *known.server;
  all.push_back({options.layers, options.graph, std::make_unique<Kind>(options)});
  return *all.back().server;
}

inline void printRequests(const RequestLog &log) {
  std::printf("{\"begin\": %lld, \"end\": %lld, \"active\": %.5f", nanoseconds(log.begin),
              nanoseconds(log.end), log.activeFraction());
  print("latency_us", log.latencies);
  print("service_us", log.services);
  print("first_launch_us", log.firstLaunches);
  std::printf("}\n");
}

} // namespace colocation

#endif
