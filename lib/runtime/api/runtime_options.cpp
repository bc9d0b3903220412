// Checks the options of a runtime, and adds the environment's values to them.
#include "api/environment.h"
#include "api/runtime_state.h"

namespace tally::runtime {

namespace {

Error wrong(std::string_view option, std::string_view what) {
  return {"the option " + std::string(option) + " " + std::string(what)};
}

} // namespace

Result<void> checkOptions(const RuntimeOptions &options) {
  using namespace std::chrono_literals;
  if (options.bound < 1us || options.bound > 1s)
    return wrong("bound",
                 "is " + std::to_string(options.bound.count()) + " ns; allowed are 1 us to 1 s");
  if (options.drainOnTermination < 0ms || options.drainOnTermination > 600s)
    return wrong("drainOnTermination", "is " + std::to_string(options.drainOnTermination.count()) +
                                           " ms; allowed are 0 to 600000 ms");
  if (options.pauseReserve > 90)
    return wrong("pauseReserve",
                 "is " + std::to_string(options.pauseReserve) + " %; allowed are 0 to 90");
  if (options.pauseDeadline < 10us || options.pauseDeadline > 10s)
    return wrong("pauseDeadline", "is " + std::to_string(options.pauseDeadline.count()) +
                                      " ns; allowed are 10 us to 10 s");
  if (options.profiling == Profiling::Off && !options.profilePath.empty())
    return wrong("profilePath", "means nothing without profiling");
  if (options.arena && (options.arena->bestEffortClass < 1 ||
                        options.arena->bestEffortClass > lowestBestEffortClass))
    return wrong("bestEffortClass", "is " + std::to_string(options.arena->bestEffortClass) +
                                        "; allowed are 1 to " +
                                        std::to_string(lowestBestEffortClass));
  if (options.sharing == Sharing::Tally)
    return {};
  constexpr std::string_view onlyTally = "is for Sharing::Tally only";
  if (options.arena)
    return wrong("arena", onlyTally);
  if (options.smsOfNonPreemptible != 0)
    return wrong("smsOfNonPreemptible", onlyTally);
  if (options.profiling != Profiling::Off)
    return wrong("profiling", onlyTally);
  if (!options.trace.empty())
    return wrong("trace", onlyTally);
  return {};
}

Result<void> addEnvironment(RuntimeOptions &options) {
  Result<EnvironmentSettings> environment = readEnvironment();
  if (!environment)
    return environment.error();
  if (options.trace.empty())
    options.trace = environment->trace.path;
  if (options.traceEvents == 0)
    options.traceEvents = environment->trace.events;
  return {};
}

Result<void> Runtime::State::openTrace() {
  if (options.trace.empty())
    return {};
  Result<std::unique_ptr<Trace>> opened = Trace::open(options.trace, options.traceEvents);
  if (!opened)
    return Error{"trace: " + opened.error().message};
  trace = std::move(*opened);
  return {};
}

} // namespace tally::runtime
