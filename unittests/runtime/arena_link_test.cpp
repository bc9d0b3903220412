// The link between the arena and the control word.
#include "arena_folder.h"
#include "dispatch/arena_link.h"
#include "fake_device.h"

#include "tally/runtime/arena_status.h"

#include <doctest/doctest.h>

#include <array>
#include <atomic>

#include <future>
#include <thread>

using namespace tally;
using namespace tally::runtime;
using namespace std::chrono_literals;

TEST_CASE("memory is shown once, at the client of high priority where there are both") {
  ArenaFolder folder;
  FakeDevice device(1);
  StreamId stream = *device.createStream(StreamPriority::Control);
  DevicePtr address = *device.allocate(64);
  DeviceControl control(ControlWriter{&device, stream, address},
                        [] { return Nanoseconds(SteadyClock{}()); });
  RequestScopeTracker highPriority(device, control);
  auto link = ArenaLink::open({folder.file(), {}, {}}, "gpu", control, highPriority, [] {});
  REQUIRE(link);
  auto shownBy = [&](const char *name) {
    auto status = readArenaStatus(folder.file());
    REQUIRE(status);
    for (const ClientStatus &each : status->clients)
      if (each.name == name)
        return MemoryStatus{each.memoryUsed, each.memoryPeak, each.memoryQuota, each.memoryReserve,
                            each.memoryRefusals};
    FAIL("no such client");
    return MemoryStatus{};
  };
  (*link)->noteMemory({10, 20, 30, 40, 50});
  REQUIRE((*link)->join(Class::BestEffort, "trainer"));
  MemoryStatus trainer = shownBy("trainer");
  CHECK(trainer.used == 10);
  CHECK(trainer.peak == 20);
  CHECK(trainer.quota == 30);
  CHECK(trainer.reserve == 40);
  CHECK(trainer.refusals == 50);
  REQUIRE((*link)->join(Class::High, "server"));
  CHECK(shownBy("server").used == 10);
  CHECK(shownBy("trainer").used == 0);
  (*link)->noteMemory({11, 20, 30, 40, 50});
  CHECK(shownBy("server").used == 11);
  CHECK(prometheusText(std::array{*readArenaStatus(folder.file())})
            .find("tally_memory_bytes{gpu=\"gpu\",class=\"high\",name=\"server\"") !=
        std::string::npos);
}

TEST_CASE("a request of another process is written, though the thread that listens got no core") {
  ArenaFolder folder;
  FakeDevice device(1);
  device.startThread();
  StreamId stream = *device.createStream(StreamPriority::Control);
  DevicePtr address = *device.allocate(64);
  REQUIRE(device.writeValue(stream, address, DeviceControl::initialWord()));
  REQUIRE(device.synchronize(stream));
  DeviceControl control(ControlWriter{&device, stream, address},
                        [] { return Nanoseconds(SteadyClock{}()); });
  RequestScopeTracker highPriority(device, control);
  auto link = ArenaLink::open({folder.file(), {}, {}}, "gpu", control, highPriority, [] {});
  REQUIRE(link);
  REQUIRE((*link)->join(Class::BestEffort, "trainer"));
  (*link)->setBusy(true); // otherwise other processes do not concern this one
  auto other = folder.open();
  auto server = claimed(other, 0, "server");

  std::promise<void> listens, mayGoOn;
  std::thread listener([&, first = true]() mutable {
    static_cast<void>(control.listen([&] {
      if (std::exchange(first, false)) {
        listens.set_value();
        mayGoOn.get_future().wait();
      }
    }));
  });
  listens.get_future().wait();
  server->raise();
  auto end = std::chrono::steady_clock::now() + 10s;
  auto written = [&] {
    REQUIRE(device.synchronize(stream));
    auto &word = *reinterpret_cast<std::uint64_t *>(address);
    return decodeControl(std::atomic_ref(word).load()).epoch;
  };
  while (written() == 0 && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(1ms);
  CHECK(written() == 1);
  mayGoOn.set_value();
  listener.join();
  server->withdraw();
  link->reset();
}

TEST_CASE("best-effort work is claimed for while there is any and shortly after it") {
  ArenaFolder folder;
  FakeDevice device(1);
  DeviceControl control(ControlWriter{&device, {}, 0}, ClockFunction(SteadyClock()));
  RequestScopeTracker highPriority(device, control);
  ArenaOptions options;
  options.path = folder.file();
  options.bestEffortClass = 2;
  auto link = ArenaLink::open(options, "gpu", control, highPriority, [] {});
  REQUIRE(link);
  REQUIRE((*link)->join(Class::BestEffort, "batch"));
  auto others = folder.open();
  auto isClaimed = [&](std::uint32_t seenBy) { return others->higherActive(seenBy) != 0; };
  auto above = claimed(others, 1, "trainer");
  (*link)->setBusy(true);
  CHECK_FALSE(isClaimed(3)); // no process is below it
  auto below = claimed(others, 3, "scavenger");
  (*link)->setBusy(true);
  CHECK(isClaimed(3));
  CHECK_FALSE(isClaimed(2));
  CHECK_FALSE(isClaimed(1));
  std::this_thread::sleep_for(2ms);
  (*link)->setBusy(false);
  CHECK_FALSE(isClaimed(3));
  (*link)->setBusy(true);
  CHECK(isClaimed(3));
  // Other processes see two bursts of this one within a millisecond as one.
  for (bool tried = false; !tried;) {
    Nanoseconds begin = SteadyClock{}();
    (*link)->setBusy(true);
    (*link)->setBusy(false);
    bool still = isClaimed(3);
    tried = SteadyClock{}() - begin < 1ms; // the system may have taken the core away
    CHECK((still || !tried));
  }
  below.reset();
  (*link)->setBusy(true);
  CHECK_FALSE(isClaimed(3));
}
