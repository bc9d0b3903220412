// kill -9 of processes in an arena, at random moments: the survivors go on, and no claim stays.
//
//   arena_kill_test [--kills=N] [--seed=S] [--device=cuda|emulator --bundle=accumulate.tally]
//
// Three kinds of round: one of two high-priority and two best-effort processes dies; both
// high-priority ones do, after which no claim may be left; one of two dies that make an arena.
#include "arena_children.h"

#include <array>
#include <cstdlib>
#include <memory>
#include <random>
#include <string_view>

using namespace tally;
using namespace tally::runtime;

namespace {

[[noreturn]] void fail(const Arena &arena, const std::string &what) {
  std::printf("FAILED: %s\n", what.c_str());
  for (const ArenaSlotView &each : arena.view())
    std::printf("  slot %u: %s, %s, class %u, active %llu\n", each.index, each.name.c_str(),
                each.isHeld ? "held" : "not held", each.slotClass,
                static_cast<unsigned long long>(each.active));
  std::exit(1);
}

class Storm {
public:
  Storm(std::uint64_t seed, std::vector<std::string> deviceWords, std::string uuid)
      : folder(std::move(uuid)), deviceWords(std::move(deviceWords)), random(seed) {
    for (std::size_t i = 0; i < names.size(); ++i)
      start(i);
  }

  void killOne() {
    std::size_t victim = random() % names.size();
    somewhen(15000);
    children[victim]->kill();
    expectProgress(victim, victim);
    start(victim);
  }

  void killBothHigh() {
    // Not before both are in the arena, else there is nothing to leave behind.
    expectProgress(names.size(), names.size());
    somewhen(4000);
    inRequest += claims() != 0;
    children[0]->kill();
    children[1]->kill();
    if (!within([&] { return claims() == 0; }))
      fail(*arena, "a claim stays");
    expectProgress(0, 1);
    start(0);
    start(1);
  }

  /// Two processes make another arena; one of them dies meanwhile.
  void killMaker() {
    ArenaFolder other;
    std::vector<std::string> words = {TALLY_ARENA_PROCESS, "claim", other.file(), "survivor"};
    Child survivor(words);
    words.back() = "victim";
    Child victim(words);
    somewhen(4000);
    victim.kill();
    if (survivor.line().empty())
      fail(*arena, "the survivor found no arena");
    if (!find(*other.open(), "survivor"))
      fail(*other.open(), "the survivor has no slot");
  }

  /// What all leave behind when they end: nothing.
  void end() {
    for (auto &child : children)
      child->kill();
    std::vector<std::unique_ptr<ArenaSlot>> slots;
    for (std::uint32_t i = 0; i < arenaSlots; ++i)
      if (auto slot = arena->claim(0, "end"))
        slots.push_back(std::move(*slot));
    if (slots.size() != arenaSlots || claims() != 0)
      fail(*arena, "slots or claims are lost");
  }

  std::uint64_t killedInRequest() const { return inRequest; }

private:
  void start(std::size_t which) {
    const char *mode = which < 2 ? "high" : "best-effort";
    std::vector<std::string> words = {TALLY_ARENA_PROCESS, mode, folder.file(), names[which]};
    words.insert(words.end(), deviceWords.begin(), deviceWords.end());
    children[which] = std::make_unique<Child>(words);
  }

  void somewhen(std::uint64_t microseconds) {
    std::this_thread::sleep_for(std::chrono::microseconds(random() % microseconds));
  }

  std::uint64_t claims() const {
    std::uint64_t all = 0;
    for (const ArenaSlotView &each : arena->view())
      all += each.active;
    return all;
  }

  std::uint64_t progressOf(std::size_t which) const {
    return counter(*arena, names[which],
                   which < 2 ? ArenaCounter::Requests : ArenaCounter::Launches);
  }

  /// Each but the two given does something new.
  void expectProgress(std::size_t dead, std::size_t alsoDead) {
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (i == dead || i == alsoDead)
        continue;
      std::uint64_t before = progressOf(i);
      bool goesOn = within([&] { return progressOf(i) > before || children[i]->hasEnded(); });
      if (!goesOn || children[i]->hasEnded())
        fail(*arena, names[i] + (goesOn ? " has ended" : " is stuck"));
    }
  }

  const std::array<std::string, 4> names = {"high-0", "high-1", "best-effort-0", "best-effort-1"};
  ArenaFolder folder;
  std::vector<std::string> deviceWords;
  std::shared_ptr<Arena> arena = folder.open();
  std::array<std::unique_ptr<Child>, 4> children;
  std::mt19937_64 random;
  std::uint64_t inRequest = 0;
};

std::string option(int count, char **arguments, std::string_view name, std::string otherwise) {
  for (int i = 1; i < count; ++i)
    if (std::string_view(arguments[i]).substr(0, name.size()) == name)
      return arguments[i] + name.size();
  return otherwise;
}

/// What the processes' device calls itself.
std::string uuidOf(const std::string &device) {
  if (device != "cuda")
    return "gpu";
  auto opened = openCudaDevice();
  if (!opened) {
    std::printf("FAILED: %s\n", opened.error().message.c_str());
    std::exit(1);
  }
  return (*opened)->info().uuid;
}

} // namespace

int main(int count, char **arguments) {
  std::uint64_t kills = std::stoull(option(count, arguments, "--kills=", "95"));
  std::uint64_t seed = std::stoull(option(count, arguments, "--seed=", "1"));
  std::string device = option(count, arguments, "--device=", "");
  std::vector<std::string> words;
  if (!device.empty())
    words = {device, option(count, arguments, "--bundle=", "accumulate.tally")};
  Storm storm(seed, words, uuidOf(device));
  std::uint64_t killed = 0;
  for (std::uint64_t round = 0; killed < kills; ++round) {
    if (round % 8 == 7) {
      storm.killMaker();
      ++killed;
    } else if (round % 4 == 3) {
      storm.killBothHigh();
      killed += 2;
    } else {
      storm.killOne();
      ++killed;
    }
  }
  storm.end();
  std::printf("%llu kills: nobody stuck, no claim left; both high-priority processes died in a "
              "request %llu times\n",
              static_cast<unsigned long long>(killed),
              static_cast<unsigned long long>(storm.killedInRequest()));
  // Else nothing was tested.
  return kills < 50 || storm.killedInRequest() > 0 ? 0 : 1;
}
