// A folder of a test's own, with an arena's place in it.
#ifndef TALLY_UNITTESTS_RUNTIME_ARENA_FOLDER_H
#define TALLY_UNITTESTS_RUNTIME_ARENA_FOLDER_H

#include "arena.h"

#include <cstdlib>
#include <filesystem>
#include <string>

namespace tally::runtime {

struct ArenaFolder {
  explicit ArenaFolder(std::string uuid = "gpu") : uuid(std::move(uuid)) {
    std::string name = std::filesystem::temp_directory_path() / "tally-arena-XXXXXX";
    path = mkdtemp(name.data());
  }
  ~ArenaFolder() { std::filesystem::remove_all(path); }
  ArenaFolder(const ArenaFolder &) = delete;
  ArenaFolder &operator=(const ArenaFolder &) = delete;

  std::string file() const { return path / "arena"; }
  ArenaPlace place() const { return {file(), uuid, {}, false}; }
  /// Each call opens the file anew, so that two are to each other as two processes are.
  std::shared_ptr<Arena> open() const { return *Arena::open(place()); }

  std::string uuid;
  std::filesystem::path path;
};

/// A slot that there must be.
inline std::unique_ptr<ArenaSlot> claimed(const std::shared_ptr<Arena> &arena,
                                          std::uint32_t slotClass, std::string_view name) {
  auto slot = arena->claim(slotClass, name);
  return std::move(*slot);
}

} // namespace tally::runtime

#endif
