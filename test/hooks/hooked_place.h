// Processes of the hooked program on one emulated GPU, with an arena for the test.
#ifndef TALLY_TEST_HOOKS_HOOKED_PLACE_H
#define TALLY_TEST_HOOKS_HOOKED_PLACE_H

#include "arena_children.h"

#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

namespace tally::runtime {

struct HookedPlace : ArenaFolder {
  static constexpr const char *gpu = "00112233-4455-6677-8899-aabbccddeeff";
  HookedPlace() : ArenaFolder(gpu) {}

  /// Returns the command that starts the program in a role; `settings` as `env` takes them.
  std::vector<std::string> words(const char *role, std::vector<std::string> settings = {}) const {
    std::vector<std::string> all = {"env", "TALLY_DEVICE=emulator", "TALLY_EMULATOR_SMS=2",
                                    std::string("TALLY_EMULATOR_UUID=") + gpu,
                                    "TALLY_ARENA=" + file()};
    all.insert(all.end(), settings.begin(), settings.end());
    all.insert(all.end(), {TALLY_HOOKED_PROGRAM, role});
    return all;
  }
  std::vector<std::string> trainer() const { return words("train", {"TALLY_CLASS=best-effort"}); }
};

/// Returns the slot of the living process with work of a class.
inline std::optional<ArenaSlotView> slotOf(const Arena &arena, std::uint32_t slotClass) {
  for (ArenaSlotView &each : arena.view())
    if (each.isHeld && each.slotClass == slotClass)
      return std::move(each);
  return std::nullopt;
}

inline std::string ask(Child &child, const char *line) {
  child.say(std::string(line) + "\n");
  return child.line();
}

/// Returns the command with its standard error in a file.
inline std::vector<std::string> withErrorsIn(const std::string &path,
                                             std::vector<std::string> words) {
  words.insert(words.begin(), {"sh", "-c", "exec \"$@\" 2>'" + path + "'", "sh"});
  return words;
}

/// Returns the command in a new PID namespace; empty where the system forbids that.
inline std::vector<std::string> inNamespace(std::vector<std::string> words) {
  static const bool allowed = std::system("unshare -p -f -r --kill-child true 2>/dev/null") == 0;
  if (!allowed)
    return {};
  words.insert(words.begin(), {"unshare", "-p", "-f", "-r", "--kill-child"});
  return words;
}

} // namespace tally::runtime

#endif
