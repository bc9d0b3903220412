// The phases of a measurement: requests alone, the other load alone, both.
#ifndef TALLY_BENCHMARKS_COLOCATION_PHASES_CUH
#define TALLY_BENCHMARKS_COLOCATION_PHASES_CUH

#include "loads.cuh"
#include "options.h"

#include <algorithm>
#include <array>
#include <cstdlib>

namespace colocation {

/// Runs a phase, and prints its line of JSON: `alone` and `untrained` (the same phase under another
/// name), `flushed`, `train`, `both`; `launches` and `launches-beside` print the device time of a
/// request's kernel in a back-to-back sequence, without training and beside it. `both:50` has 50
/// requests whatever the options say. `Load` is a Trainer or has its start(), stop() and
/// kernelsPerSecond(). `more`: text for the line, `, "KEY": VALUE`.
template <class Load>
void runPhase(const std::string &asked, const Options &options, Server &server, Server &flushing,
              Load &trainer, const std::string &more) {
  std::size_t colon = asked.find(':');
  std::string phase = asked.substr(0, colon);
  std::size_t requests =
      colon == std::string::npos ? options.count("requests") : std::stoul(asked.substr(colon + 1));
  constexpr std::array known = {"alone", "untrained", "flushed",        "train",
                                "both",  "launches",  "launches-beside"};
  if (std::find(known.begin(), known.end(), phase) == known.end()) {
    std::fprintf(stderr, "colocation: %s is no phase\n", phase.c_str());
    std::exit(2);
  }
  bool launches = phase == "launches" || phase == "launches-beside";
  bool trains = phase == "train" || phase == "both" || phase == "launches-beside";
  bool serves = phase != "train" && !launches;
  auto begin = Clock::now();
  if (trains) {
    trainer.start();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    begin = Clock::now();
  }
  if (phase == "train")
    std::this_thread::sleep_for(std::chrono::duration<double>(options.number("seconds")));
  LaunchPace pace;
  if (launches)
    pace = server.backToBack();
  RequestLog log;
  if (serves)
    log = (phase == "flushed" ? flushing : server)
              .serve(requests, options.number("period-us"), options.count("seed"));
  auto end = Clock::now();
  if (trains)
    trainer.stop();
  std::printf("{\"phase\": \"%s\"%s", phase.c_str(), more.c_str());
  if (launches)
    std::printf(", \"launch_us\": %.3f, \"call_us\": %.3f", pace.kernel, pace.call);
  if (trains)
    std::printf(", \"kernels_per_s\": %.3f", trainer.kernelsPerSecond(begin, end));
  if (serves) {
    std::printf(", \"active\": %.5f, \"stalled\": %.6f", log.activeFraction(),
                log.stalledFraction());
    print("arrival_us", log.arrivals);
    print("latency_us", log.latencies);
    print("first_launch_us", log.firstLaunches);
  }
  std::printf("}\n");
}

} // namespace colocation

#endif
