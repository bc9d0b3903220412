// Ends processes of an arena at random moments, by SIGKILL or SIGTERM: the surviving processes go
// on, and no claim stays.
//
//   arena_kill_test [--kills=N] [--seed=S] [--signal=kill|term] [--started] [PROCESSES]
//
// PROCESSES: those of the API, on a device of the test's own
//   --device=cuda|emulator --bundle=accumulate.tally      the same on that device
//   --hooked=PROGRAM [--device=cuda]     test/hooks/processes.cu, relinked; else on the emulator
// --started: kills only processes that have begun their work. --process=PATH: the path of
// arena_process, if it is not in the build tree.
//
// Three kinds of rounds: one of two high-priority and two best-effort processes dies; both
// high-priority processes die, after which no claim may be left; one of two processes that make an
// arena dies.
#include "arena_children.h"

#include <array>
#include <cstdlib>
#include <memory>
#include <random>
#include <string_view>

using namespace tally;
using namespace tally::runtime;

namespace {

/// The program of the processes, and the signal that ends them.
struct Setting {
  std::string process, device, bundle, hooked, uuid;
  int signal = SIGKILL;
  bool started = false;

  std::vector<std::string> words(bool isHigh, const std::string &arena,
                                 const std::string &name) const {
    if (hooked.empty()) {
      std::vector<std::string> all = {process, isHigh ? "high" : "best-effort", arena, name};
      if (!device.empty())
        all.insert(all.end(), {device, bundle});
      return all;
    }
    std::vector<std::string> all = {"env", "TALLY_ARENA=" + arena,
                                    std::string("TALLY_CLASS=") +
                                        (isHigh ? "high" : "best-effort")};
    if (device != "cuda")
      all.insert(all.end(),
                 {"TALLY_DEVICE=emulator", "TALLY_EMULATOR_SMS=2", "TALLY_EMULATOR_UUID=" + uuid});
    all.insert(all.end(), {hooked, isHigh ? "serve" : "train"});
    return all;
  }
  /// Returns the counter that grows while such a process works.
  ArenaCounter progress(bool isHigh) const {
    return !isHigh          ? ArenaCounter::Launches
           : hooked.empty() ? ArenaCounter::Requests
                            : ArenaCounter::HighCalls;
  }
};

class Storm {
public:
  Storm(std::uint64_t seed, const Setting &setting)
      : setting(setting), folder(setting.uuid), random(seed) {
    for (std::size_t i = 0; i < names.size(); ++i)
      start(i);
  }

  void killOne() {
    // Kills a process mostly during its work, and sometimes during its start, which takes a second
    // on a GPU.
    if (random() % 4 != 0 || setting.started)
      expectProgress(names.size(), names.size());
    std::size_t victim = random() % names.size();
    somewhen(15000);
    end(*children[victim]);
    expectProgress(victim, victim);
    start(victim);
  }

  void killBothHigh() {
    // Waits until both processes are in the arena: earlier, they would leave no claims behind.
    expectProgress(names.size(), names.size());
    somewhen(4000);
    inRequest += claims() != 0;
    end(*children[0]);
    end(*children[1]);
    if (!within([&] { return claims() == 0; }))
      fail("a claim stays");
    expectProgress(0, 1);
    start(0);
    start(1);
  }

  /// Two processes make another arena; one of the two dies during that.
  void killMaker() {
    ArenaFolder other;
    std::vector<std::string> words = {setting.process, "claim", other.file(), "survivor"};
    Child survivor(words);
    words.back() = "victim";
    Child victim(words);
    somewhen(4000);
    victim.kill();
    if (survivor.line().empty())
      fail("the survivor found no arena");
    if (!find(*other.open(), "survivor"))
      fail("the survivor has no slot");
    ++ended;
  }

  /// After the end of all processes no claim is left.
  void end() {
    for (auto &child : children)
      child->kill();
    std::vector<std::unique_ptr<ArenaSlot>> slots;
    for (std::uint32_t i = 0; i < arenaSlots; ++i)
      if (auto slot = arena->claim(0, "end"))
        slots.push_back(std::move(*slot));
    if (slots.size() != arenaSlots || claims() != 0)
      fail("slots or claims are lost");
  }

  std::uint64_t kills() const { return ended; }
  std::uint64_t killedInRequest() const { return inRequest; }

private:
  void start(std::size_t which) {
    children[which] =
        std::make_unique<Child>(setting.words(which < 2, folder.file(), names[which]));
  }

  void end(Child &child) {
    ++ended;
    if (setting.signal == SIGKILL)
      return child.kill();
    child.send(setting.signal);
    if (child.endingSignal() != setting.signal)
      fail("a process did not die by the signal");
  }

  [[noreturn]] void fail(const std::string &what) const {
    std::printf("FAILED after %llu kills: %s\n", static_cast<unsigned long long>(ended),
                what.c_str());
    for (const ArenaSlotView &each : arena->view())
      std::printf("  slot %u: %s, process %u, %s, class %u, active %llu\n", each.index,
                  each.name.c_str(), each.pid, each.isHeld ? "held" : "not held", each.slotClass,
                  static_cast<unsigned long long>(each.active));
    for (std::size_t i = 0; i < names.size(); ++i)
      std::printf("  %s: process %d, %s, progress %llu\n", names[i].c_str(), children[i]->id(),
                  children[i]->hasEnded() ? "has ended" : "runs",
                  static_cast<unsigned long long>(children[i]->id() ? progressOf(i) : 0));
    std::exit(1);
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
    return counterOf(*arena, children[which]->id(), setting.progress(which < 2));
  }

  /// Waits until each process except the two given ones has made progress.
  void expectProgress(std::size_t dead, std::size_t alsoDead) {
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (i == dead || i == alsoDead)
        continue;
      std::uint64_t before = progressOf(i);
      bool goesOn = within([&] { return progressOf(i) > before || children[i]->hasEnded(); });
      if (!goesOn || children[i]->hasEnded())
        fail(names[i] + (goesOn ? " has ended" : " is stuck"));
    }
  }

  const std::array<std::string, 4> names = {"high-0", "high-1", "best-effort-0", "best-effort-1"};
  const Setting setting;
  ArenaFolder folder;
  std::shared_ptr<Arena> arena = folder.open();
  std::array<std::unique_ptr<Child>, 4> children;
  std::mt19937_64 random;
  std::uint64_t inRequest = 0, ended = 0;
};

std::string option(int count, char **arguments, std::string_view name, std::string otherwise) {
  for (int i = 1; i < count; ++i)
    if (std::string_view(arguments[i]).substr(0, name.size()) == name)
      return arguments[i] + name.size();
  return otherwise;
}

/// Returns the UUID of the processes' device.
std::string uuidOf(const Setting &setting) {
  if (setting.device != "cuda")
    return setting.hooked.empty() ? "gpu" : "00112233-4455-6677-8899-aabbccddeeff";
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
  Setting setting;
  setting.process = option(count, arguments, "--process=", TALLY_ARENA_PROCESS);
  setting.device = option(count, arguments, "--device=", "");
  setting.bundle = option(count, arguments, "--bundle=", "accumulate.tally");
  setting.hooked = option(count, arguments, "--hooked=", "");
  setting.uuid = uuidOf(setting);
  setting.signal = option(count, arguments, "--signal=", "kill") == "term" ? SIGTERM : SIGKILL;
  for (int i = 1; i < count; ++i)
    setting.started |= std::string_view(arguments[i]) == "--started";
  Storm storm(seed, setting);
  for (std::uint64_t round = 0; storm.kills() < kills; ++round) {
    if (round % 8 == 7)
      storm.killMaker();
    else if (round % 4 == 3)
      storm.killBothHigh();
    else
      storm.killOne();
  }
  storm.end();
  std::printf("%llu kills: nobody stuck, no claim left; both high-priority processes died in a "
              "request %llu times\n",
              static_cast<unsigned long long>(storm.kills()),
              static_cast<unsigned long long>(storm.killedInRequest()));
  // Else nothing was tested.
  return kills < 50 || storm.killedInRequest() > 0 ? 0 : 1;
}
