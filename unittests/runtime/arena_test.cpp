// Slots and watchers in one process. The process opens the arena several times; for the locks, each
// opened arena is another process.
#include "arena/arena_watcher.h"
#include "arena_folder.h"

#include <doctest/doctest.h>

#include <fcntl.h>
#include <random>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

using namespace tally;
using namespace tally::runtime;
using namespace std::chrono_literals;

namespace {

/// Far above the time of any step here, and below the time that a lost wake would cost.
constexpr auto deadline = 10s;

template <class Condition> bool within(const Condition &condition, Nanoseconds limit = deadline) {
  auto end = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end)
      return false;
    std::this_thread::yield();
  }
  return true;
}

/// A watcher that records its notifications.
struct Watched {
  explicit Watched(std::shared_ptr<Arena> arena, ArenaWatcherOptions options = {}) {
    options.onRaise = [this] {
      ++raises;
      active = true;
      return true;
    };
    options.onWithdraw = [this] {
      ++withdraws;
      active = false;
    };
    watcher.emplace(std::move(arena), std::move(options));
  }
  std::atomic<bool> active{false};
  std::atomic<int> raises{0}, withdraws{0};
  std::optional<ArenaWatcher> watcher;
};

/// Only a notification wakes the watcher: its own intervals are long.
ArenaWatcherOptions asleep() {
  ArenaWatcherOptions options;
  options.spin = 0ns;
  options.spinWhileBusy = false;
  options.deathInterval = options.longestSleep = 100s;
  return options;
}

/// The file as seen by a process that breaks the protocol.
struct Raw {
  explicit Raw(const std::string &path) {
    int file = open(path.c_str(), O_RDWR);
    data = static_cast<ArenaData *>(
        mmap(nullptr, sizeof(ArenaData), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
    close(file);
  }
  ~Raw() { munmap(data, sizeof(ArenaData)); }
  ArenaData *data;
};

} // namespace

TEST_CASE("64 slots, then an error that says so") {
  ArenaFolder folder;
  std::vector<std::unique_ptr<ArenaSlot>> slots;
  auto shared = folder.open();
  for (std::uint32_t i = 0; i < arenaSlots; ++i) {
    // Some slots come from the same file description, whose locks the process could take again.
    auto slot = (i % 3 == 0 ? shared : folder.open())->claim(1, "x");
    REQUIRE(slot);
    CHECK((*slot)->index() == i);
    slots.push_back(std::move(*slot));
  }
  auto refused = folder.open()->claim(0, "one too many");
  REQUIRE(!refused);
  CHECK(refused.error().message ==
        folder.file() + ": all 64 slots of the arena are held by living processes");
  CHECK(!shared->claim(0, "one too many"));

  slots[17].reset();
  slots[33]->release();
  slots[33]->release();
  CHECK((*shared->claim(0, "y"))->index() == 17);
  auto again = shared->claim(0, "y");
  REQUIRE(again);
  CHECK((*again)->index() == 17);
  // After a second release the slot may belong to another owner.
  auto other = folder.open()->claim(0, "z");
  REQUIRE(other);
  CHECK((*other)->index() == 33);
  (*other)->raise();
  slots[33]->release();
  slots[33]->withdraw();
  slots[33]->add(ArenaCounter::Requests);
  CHECK(!folder.open()->claim(0, "one too many"));
  CHECK(folder.open()->higherActive(1) == std::uint64_t{1} << 33);
  CHECK(folder.open()->view()[33].active == 1);
  CHECK(folder.open()->view()[33].statistics[0] == 0);
}

TEST_CASE("what a slot shows") {
  ArenaFolder folder;
  auto arena = folder.open(), other = folder.open();
  CHECK(arena->view().empty());
  CHECK(!other->bestEffortPresent());
  auto first = claimed(arena, 0, "a name that has more than thirty-two characters");
  CHECK(!other->bestEffortPresent());
  auto second = claimed(arena, 3, "b");
  CHECK(other->bestEffortPresent());
  first->raise();
  first->raise();
  first->add(ArenaCounter::Requests, 2);
  second->set(ArenaCounter::Launches, 7);
  for (Nanoseconds took : {0ns, 1151ns, 1152ns, 100000000000ns})
    second->addTurnaround(took);

  for (const auto &each : {arena, other}) {
    auto views = each->view();
    REQUIRE(views.size() == 2);
    CHECK(views[0].name == "a name that has more than thirty");
    CHECK(views[0].isHeld);
    CHECK(views[0].slotClass == 0);
    CHECK(views[0].pid == static_cast<std::uint32_t>(getpid()));
    CHECK(views[0].active == 2);
    CHECK(SteadyClock{}() - views[0].changedAt < deadline);
    CHECK(views[0].statistics[static_cast<int>(ArenaCounter::Requests)] == 2);
    CHECK(views[1].slotClass == 3);
    CHECK(views[1].active == 0);
    CHECK(views[1].statistics[static_cast<int>(ArenaCounter::Launches)] == 7);
    std::size_t turnaround = static_cast<std::size_t>(ArenaCounter::Turnaround);
    CHECK(views[1].statistics[turnaround] == 2);
    CHECK(views[1].statistics[turnaround + 1] == 1);
    CHECK(views[1].statistics[turnaround + Histogram::buckets - 1] == 1);
    CHECK(views[1].statistics[static_cast<int>(ArenaCounter::TurnaroundSum)] == 100000002303);
  }
  std::uint64_t generation = arena->view()[0].generation;
  first.reset();
  CHECK(other->view().size() == 1);
  first = claimed(arena, 0, "c");
  CHECK(other->view()[0].generation == generation + 1);
  CHECK(other->view()[0].active == 0);
  CHECK(other->view()[0].statistics[0] == 0);
}

TEST_CASE("waits for high-priority work in other processes") {
  ArenaFolder folder;
  auto arena = folder.open(), other = folder.open();
  auto server = std::move(*other->claim(0, "server")), batch = std::move(*other->claim(1, "batch")),
       own = std::move(*arena->claim(0, "own"));
  server->add(ArenaCounter::HighWaits, 3);
  batch->add(ArenaCounter::HighWaits, 100);
  own->add(ArenaCounter::HighWaits, 1000);
  CHECK(arena->highWaits() == 3);
  CHECK(other->highWaits() == 1000);
  server->release();
  CHECK(arena->highWaits() == 0);
}

TEST_CASE("a watcher follows higher classes of others, and nothing else") {
  ArenaFolder folder;
  auto mine = folder.open(), others = folder.open();
  auto own = claimed(mine, 0, "own"), high = claimed(others, 0, "high");
  auto middle = claimed(others, 1, "middle");
  high->raise();
  Watched seen(mine);
  CHECK(seen.active); // before the constructor was done
  high->withdraw();
  CHECK(within([&] { return !seen.active; }));

  ArenaWatcherOptions low;
  low.slotClass = 2;
  Watched lowest(mine, low);
  own->raise();
  middle->raise();
  CHECK(within([&] { return lowest.active.load(); }));
  std::this_thread::sleep_for(5ms);
  CHECK(!seen.active);
  high->raise();
  CHECK(within([&] { return seen.active.load(); }));
  middle->withdraw();
  high->raise();
  high->withdraw();
  std::this_thread::sleep_for(5ms);
  CHECK(lowest.raises == 1);
  CHECK(lowest.active);
  CHECK(seen.active);
  high->withdraw();
  CHECK(within([&] { return !seen.active && !lowest.active; }));
  CHECK(seen.raises == 2);
  CHECK(lowest.raises == 1);
}

TEST_CASE("what could not be acted on is said again") {
  ArenaFolder folder;
  auto high = claimed(folder.open(), 0, "high");
  std::atomic<int> said{0}, withdrawn{0};
  ArenaWatcherOptions options;
  options.onRaise = [&] { return ++said > 3; };
  options.onWithdraw = [&] { ++withdrawn; };
  ArenaWatcher watcher(folder.open(), options);
  high->raise();
  CHECK(within([&] { return said == 4; }));
  high->withdraw();
  CHECK(within([&] { return withdrawn == 1; }));
  CHECK(said == 4);
}

TEST_CASE("no wake is lost") {
  ArenaFolder folder;
  // Several threads raise and several sleep: one thread's wake may look like the end of another's.
  auto arena = folder.open();
  std::array<std::unique_ptr<ArenaSlot>, 2> slots = {claimed(folder.open(), 0, "x"),
                                                     claimed(folder.open(), 0, "y")};
  Watched one(folder.open(), asleep()), two(arena, asleep());
  std::atomic<int> stuck{0};
  std::mt19937_64 seeds(7);
  for (int round = 0; round < 1500 && stuck == 0; ++round) {
    std::array<std::uint64_t, 2> waits = {seeds() % 2000, seeds() % 2000};
    auto both = [&](bool up) {
      std::array<std::thread, 2> threads;
      for (std::size_t i = 0; i < 2; ++i)
        threads[i] = std::thread([&, i] {
          for (std::uint64_t n = 0; n < waits[i]; ++n)
            std::atomic_signal_fence(std::memory_order_seq_cst);
          up ? slots[i]->raise() : slots[i]->withdraw();
        });
      for (std::thread &each : threads)
        each.join();
      if (!within([&] { return one.active == up && two.active == up; }))
        ++stuck;
    };
    both(true);
    both(false);
  }
  CHECK(stuck == 0);
}

TEST_CASE("a change in a process's own slot is no call where only its own watcher sleeps") {
  ArenaFolder folder;
  auto arena = folder.open();
  auto high = claimed(arena, 0, "high");
  ArenaWatcherOptions options = asleep();
  options.longestSleep = 20ms;
  Watched own(arena, options);
  Raw raw(folder.file());
  ArenaSleepers &sleepers = raw.data->header.sleepers;
  // The sleeper takes one ticket after another.
  REQUIRE(within([&] { return sleepers.slept > 3; }));
  std::uint32_t before = sleepers.sequence;
  for (int i = 0; i < 20; ++i) {
    // Within one sleep: while the sleeper takes a ticket, a change cannot know the ticket's owner,
    // and wakes it.
    std::uint64_t taken = sleepers.slept;
    REQUIRE(within([&] { return sleepers.slept > taken; }));
    std::this_thread::sleep_for(1ms);
    for (int j = 0; j < 500; ++j) {
      high->raise();
      high->withdraw();
    }
  }
  CHECK(sleepers.sequence == before);
  CHECK(own.raises == 0);

  Watched other(folder.open(), asleep());
  REQUIRE(within([&] { return sleepers.slept > sleepers.woken + 1; }));
  // The newest ticket is the sleeper's own again; the one before is not.
  std::uint64_t known = sleepers.slept;
  REQUIRE(within([&] { return sleepers.slept > known; }));
  high->raise();
  CHECK(within([&] { return other.active.load(); }));
  CHECK(sleepers.sequence != before);
}

TEST_CASE("a watcher without work sleeps where nobody wakes it, and knows all once there is work") {
  ArenaFolder folder;
  auto high = claimed(folder.open(), 0, "high");
  ArenaWatcherOptions options = asleep();
  options.sleepsWhileIdle = true;
  options.deathInterval = 1ms; // while it gets notifications it checks again and again
  Watched seen(folder.open(), options);
  Raw raw(folder.file());
  ArenaSleepers &sleepers = raw.data->header.sleepers;
  std::mt19937_64 seeds(13);
  for (int round = 0; round < 2000; ++round) {
    // Some of these changes meet the watcher on its way to sleep.
    for (std::uint64_t n = seeds() % 20000; n != 0; --n)
      std::atomic_signal_fence(std::memory_order_seq_cst);
    bool sleeps = round % 100 == 0;
    if (sleeps) {
      // The last change may have to wake a watcher that fell asleep while there was work.
      high->raise();
      high->withdraw();
      REQUIRE(within([&] { return seen.watcher->isIdle(); }));
      std::uint32_t before = sleepers.sequence;
      std::uint64_t tickets = sleepers.slept;
      high->raise();
      high->withdraw();
      CHECK(sleepers.sequence == before);
      CHECK(sleepers.slept == tickets);
      CHECK(!seen.active);
    }
    high->raise();
    seen.watcher->setBusy(true);
    if (sleeps) // otherwise it checks within one turn
      CHECK(seen.active);
    REQUIRE(within([&] { return seen.active.load(); }));
    if (round % 2 == 0)
      seen.watcher->setBusy(false); // the watcher still learns of the end
    if (sleeps)
      std::this_thread::sleep_for(3ms);
    high->withdraw();
    REQUIRE(within([&] { return !seen.active; }));
    seen.watcher->setBusy(false);
  }
  for (int i = 0; i < 10; ++i) { // they stop where they sleep
    Watched other(folder.open(), options);
    std::this_thread::sleep_for(std::chrono::microseconds(300 * i));
  }
}

TEST_CASE("no wake is lost between processes that watch each other") {
  ArenaFolder folder;
  std::array<std::shared_ptr<Arena>, 2> arenas = {folder.open(), folder.open()};
  std::array<std::unique_ptr<ArenaSlot>, 2> slots = {claimed(arenas[0], 0, "x"),
                                                     claimed(arenas[1], 0, "y")};
  Watched first(arenas[0], asleep()), second(arenas[1], asleep());
  std::array<Watched *, 2> watchers = {&first, &second};
  std::mt19937_64 seeds(11);
  for (int round = 0; round < 3000; ++round) {
    std::size_t mine = seeds() % 2;
    for (bool up : {true, false}) {
      for (std::uint64_t n = seeds() % 3000; n != 0; --n)
        std::atomic_signal_fence(std::memory_order_seq_cst);
      up ? slots[mine]->raise() : slots[mine]->withdraw();
      REQUIRE(within([&] { return watchers[1 - mine]->active == up; }));
    }
  }
}

TEST_CASE("a sleeping watcher stops, and hears that there is work") {
  ArenaFolder folder;
  auto high = claimed(folder.open(), 0, "high");
  ArenaWatcherOptions options = asleep();
  options.spinWhileBusy = true;
  for (int round = 0; round < 50; ++round) {
    Watched seen(folder.open(), options);
    if (round % 2 == 0)
      std::this_thread::sleep_for(1ms);
    seen.watcher->setBusy(true);
    // Now the watcher checks without a wake: it finds a claim that was made without a notification.
    Raw raw(folder.file());
    raw.data->slots[high->index()].active = 1;
    CHECK(within([&] { return seen.active.load(); }));
    raw.data->slots[high->index()].active = 0;
    CHECK(within([&] { return !seen.active; }));
    seen.watcher->setBusy(false);
  }
}

TEST_CASE("the dead one's claim goes, the living one's stays") {
  ArenaFolder folder;
  auto arena = folder.open();
  auto living = claimed(folder.open(), 0, "living");
  Raw raw(folder.file());
  // Sets the slot as a process leaves it that dies with two open scopes; its bit in the mask stays
  // set.
  raw.data->slots[5].active = 2;
  raw.data->header.masks.occupied |= 1 << 5;
  raw.data->header.masks.bestEffort |= 1 << 5;
  Watched seen(arena);
  CHECK(seen.raises == 1); // the watcher may have found the dead one since
  CHECK(within([&] { return !seen.active; }));
  CHECK(raw.data->slots[5].active == 0);
  CHECK(!arena->bestEffortPresent());

  living->raise();
  CHECK(within([&] { return seen.active.load(); }));
  std::this_thread::sleep_for(30ms);
  CHECK(seen.active);
  CHECK(!arena->clearIfDead(living->index()));
  living->withdraw();
  CHECK(within([&] { return !seen.active; }));

  // A new owner finds no data of the old owner.
  raw.data->slots[1].active = 2;
  raw.data->slots[1].statistics[3] = 9;
  auto next = claimed(folder.open(), 0, "next");
  CHECK(next->index() == 1);
  CHECK(raw.data->slots[1].active == 0);
  CHECK(raw.data->slots[1].statistics[3] == 0);
}

TEST_CASE("claims, releases and watchers from many threads at once") {
  ArenaFolder folder;
  std::atomic<bool> wrong{false};
  Watched seen(folder.open());
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {
      std::mt19937_64 random(i);
      auto arena = folder.open();
      for (int round = 0; round < 200; ++round) {
        auto slot = arena->claim(static_cast<std::uint32_t>(random() % 2), "x");
        if (!slot) {
          wrong = true;
          return;
        }
        for (std::uint64_t n = random() % 5; n > 0; --n) {
          (*slot)->raise();
          (*slot)->withdraw();
        }
        if (random() % 3 == 0)
          (*slot)->raise(); // given back with the slot
        static_cast<void>(arena->view());
      }
    });
  for (std::thread &each : threads)
    each.join();
  CHECK(!wrong);
  CHECK(within([&] { return !seen.active; }));
  CHECK(seen.raises == seen.withdraws);
  CHECK(folder.open()->view().empty());
}
