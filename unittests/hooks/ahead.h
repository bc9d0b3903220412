// A process with best-effort work that goes to CUDA at once.
#ifndef TALLY_UNITTESTS_HOOKS_AHEAD_H
#define TALLY_UNITTESTS_HOOKS_AHEAD_H

#include "built_graphs.h"

#include "../support/files.h"
#include "../support/variable.h"
#include "arena/arena.h"

#include <functional>
#include <memory>
#include <string>

namespace tally::test {

/// A process with best-effort work alone. It joins an arena of the test's with its first work.
struct Ahead : Harness {
  explicit Ahead(const std::function<void(hooks::Settings &)> &change = [](hooks::Settings &) {})
      : Harness(settingsWith(change)) {}

  static hooks::Settings settingsWith(const std::function<void(hooks::Settings &)> &change) {
    hooks::Settings made = settings(true, 0, hooks::Settings().variants.kinds, true, 1);
    made.runAheadMicroseconds = 5000;
    change(made);
    return made;
  }
  std::uint64_t ahead() { return hooks.totals().ahead; }
  std::uint64_t queued() { return hooks.totals().throughVariants + hooks.totals().nonPreemptible; }
  /// Joins the arena as another process, as seen from this one.
  std::unique_ptr<runtime::ArenaSlot> join(std::uint32_t slotClass) {
    auto arena = runtime::Arena::open({path, std::string(), {}, false});
    REQUIRE(arena);
    auto slot = (*arena)->claim(slotClass, "other");
    REQUIRE(slot);
    return std::move(*slot);
  }

  TemporaryFolder folder;
  std::string path = folder.file("arena");
  Variable variable{"TALLY_ARENA", path};
};

} // namespace tally::test

#endif
