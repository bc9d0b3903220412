#include "process/process_end.h"

#include "api/termination.h"
#include "process/hooks.h"

#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>

namespace tally::hooks {

void endWorkAtExit() {
  static const int atEnd = std::atexit([] {
    Hooks *process = tallySharedHooks4.load();
    if (BestEffortEngine *last = process ? process->served().engine() : nullptr) {
      process->loadedImages().stop();
      last->queue().drain(true);
      last->end();
    }
  });
  static_cast<void>(atEnd);
}

void endJoiningAtExit() {
  static const int atEnd = std::atexit([] {
    if (Hooks *process = tallySharedHooks4.load())
      process->served().endJoining();
  });
  static_cast<void>(atEnd);
}

/// The wait applies for as long as the process lives.
void drainOnTermination(const ServedDevice &device, std::uint32_t milliseconds) {
  Hooks *owner = tallySharedHooks4.load();
  if (!owner || &owner->served() != &device)
    return;
  auto drain = [] {
    Hooks *process = tallySharedHooks4.load();
    if (BestEffortEngine *last = process->served().engine())
      last->quiesce();
    process->writeTrace();
    process->writeStatistics();
  };
  auto tooLate = [milliseconds] {
    warn(Warning::Termination, "SIGTERM: the device is not done after " +
                                   std::to_string(milliseconds) +
                                   " ms; the process ends with work on it");
  };
  static auto *const registered = new std::shared_ptr<void>(
      runtime::drainOnTermination({drain, std::chrono::milliseconds(milliseconds), tooLate}));
  static_cast<void>(registered);
}

} // namespace tally::hooks
