// A folder for one test, with the path of an arena in it.
#ifndef TALLY_UNITTESTS_RUNTIME_ARENA_FOLDER_H
#define TALLY_UNITTESTS_RUNTIME_ARENA_FOLDER_H

#include "../support/files.h"
#include "arena/arena.h"

namespace tally::runtime {

struct ArenaFolder : test::TemporaryFolder {
  explicit ArenaFolder(std::string uuid = "gpu") : uuid(std::move(uuid)) {}

  std::string file() const { return path / "arena"; }
  ArenaPlace place() const { return {file(), uuid, {}, false}; }
  /// Each call opens the file anew, so two results act like two processes.
  std::shared_ptr<Arena> open() const { return *Arena::open(place()); }

  std::string uuid;
};

/// Claims a slot; the claim must succeed.
inline std::unique_ptr<ArenaSlot> claimed(const std::shared_ptr<Arena> &arena,
                                          std::uint32_t slotClass, std::string_view name) {
  auto slot = arena->claim(slotClass, name);
  return std::move(*slot);
}

} // namespace tally::runtime

#endif
