// Streams, clients and modules are destroyed and made again, with all of the runtime's threads.
#include "harness.h"
#include "opened.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

using namespace tally;
using namespace tally::runtime;
using namespace std::chrono_literals;

namespace {

constexpr std::array<Sharing, 3> allSharings = {Sharing::Tally, Sharing::LowPriority,
                                                Sharing::SamePriority};
constexpr std::uint64_t blocksOfLaunch = 24;

RuntimeOptions sharedBy(Sharing sharing) {
  RuntimeOptions options;
  options.sharing = sharing;
  return options;
}

Result<void> launchOne(Opened &opened, Stream stream, Kernel kernel, DevicePtr memory) {
  return opened.runtime->launch(stream, kernel,
                                {{static_cast<std::uint32_t>(blocksOfLaunch), 1, 1}, {64, 1, 1}, 0},
                                Arguments(memory, memory, blocksOfLaunch, std::uint64_t{1}));
}

DevicePtr someMemory(Opened &opened) { return *opened.runtime->allocate(Program::words * 8); }

/// Waits a while, in which another thread could wrongly set the flag.
bool comesSoon(const std::atomic<bool> &flag) {
  for (int i = 0; i < 30 && !flag; ++i)
    std::this_thread::sleep_for(1ms);
  return flag;
}

} // namespace

TEST_CASE("the handle of what is destroyed is an error, also when its place is another's") {
  for (Sharing sharing : allSharings)
    for (Class clientClass : {Class::High, Class::BestEffort}) {
      Opened opened = openFake(sharedBy(sharing));
      Runtime &runtime = *opened.runtime;
      DevicePtr memory = someMemory(opened);
      Client client = opened.client(clientClass);
      Stream stream = *runtime.createStream(client);
      REQUIRE(launchOne(opened, stream, opened.kernels[0], memory));
      REQUIRE(runtime.destroyStream(stream));
      REQUIRE(runtime.destroyClient(client));
      REQUIRE(runtime.unload(opened.module));
      Client another = opened.client(clientClass);
      Stream anothers = *runtime.createStream(another);
      LoadedModule module = *runtime.load(opened.bundle);
      Kernel kernel = *runtime.kernel(module, "mix");
      CHECK(anothers != stream);
      CHECK(another != client);
      CHECK(module != opened.module);
      CHECK(kernel != opened.kernels[0]);

      std::array<std::byte, 8> host{};
      std::string gone = "no such stream: 1, which was destroyed";
      CHECK(errorOf(launchOne(opened, stream, kernel, memory)) == gone);
      CHECK(errorOf(runtime.synchronize(stream)) == gone);
      CHECK(errorOf(runtime.copyToDevice(stream, memory, host)) == gone);
      CHECK(errorOf(runtime.copyToHost(stream, host, memory)) == gone);
      CHECK(errorOf(runtime.fill(stream, memory, std::byte{}, 8)) == gone);
      CHECK(errorOf(runtime.destroyStream(stream)) == gone);
      gone = "no such client: 1, which was destroyed";
      CHECK(errorOf(runtime.createStream(client)) == gone);
      CHECK(errorOf(runtime.adoptStream(client, 1)) == gone);
      CHECK(errorOf(runtime.beginRequest(client)) == gone);
      CHECK(errorOf(runtime.endRequest(client)) == gone);
      CHECK(errorOf(runtime.destroyClient(client)) == gone);
      gone = "no such module: 1, which was destroyed";
      CHECK(errorOf(runtime.kernel(opened.module, "mix")) == gone);
      CHECK(errorOf(runtime.unload(opened.module)) == gone);
      CHECK(errorOf(launchOne(opened, anothers, opened.kernels[0], memory))
                .starts_with("no such kernel: "));
      CHECK(errorOf(runtime.forget(opened.kernels[0])).ends_with(", which was destroyed"));
      CHECK(errorOf(runtime.destroyStream(Stream{77})) == "no such stream: 77");
      CHECK(errorOf(runtime.destroyClient(Client{77})) == "no such client: 77");
      CHECK(errorOf(runtime.unload(LoadedModule{77})) == "no such module: 77");

      CHECK(launchOne(opened, anothers, kernel, memory));
      CHECK(runtime.synchronize(anothers));
      CHECK(opened.device->endedBusy == 0);
    }
}

TEST_CASE("to destroy a stream waits for what is on it, and what it did stays counted") {
  for (Sharing sharing : allSharings)
    for (Class clientClass : {Class::High, Class::BestEffort}) {
      Opened opened = openFake(sharedBy(sharing));
      std::size_t streamsBefore = opened.device->streamsHeld();
      DevicePtr memory = someMemory(opened);
      for (int round = 1; round <= 3; ++round) {
        Stream stream = opened.stream(clientClass);
        for (int i = 0; i < 20; ++i)
          REQUIRE(launchOne(opened, stream, opened.kernels[0], memory));
        REQUIRE(opened.runtime->destroyStream(stream));
        CHECK(opened.device->blocksRun() == round * 20 * blocksOfLaunch);
        Statistics statistics = opened.runtime->statistics();
        std::uint64_t launches = std::uint64_t(round) * 20;
        bool isHigh = clientClass == Class::High;
        CHECK(statistics.highPriorityLaunches == (isHigh ? launches : 0));
        CHECK(statistics.bestEffortLaunches == (isHigh ? 0 : launches));
      }
      CHECK(opened.device->streamsHeld() == streamsBefore);
      CHECK(opened.device->endedBusy == 0);
    }
}

TEST_CASE("a client with streams or open requests stays") {
  Opened opened = openFake();
  Runtime &runtime = *opened.runtime;
  Client trainer = *runtime.createClient(Class::BestEffort, "trainer");
  Client server = opened.client(Class::High);
  Stream first = *runtime.createStream(trainer), second = *runtime.createStream(trainer);
  CHECK(errorOf(runtime.destroyClient(trainer)) ==
        "destroyClient: client 'trainer' has 2 streams; destroy its streams first");
  REQUIRE(runtime.destroyStream(first));
  CHECK(errorOf(runtime.destroyClient(trainer)) ==
        "destroyClient: client 'trainer' has 1 stream; destroy its streams first");
  REQUIRE(runtime.destroyStream(second));
  CHECK(runtime.destroyClient(trainer));
  REQUIRE(runtime.beginRequest(server));
  CHECK(errorOf(runtime.destroyClient(server)) ==
        "destroyClient: client 2 has 1 open request; end its requests first");
  REQUIRE(runtime.endRequest(server));
  CHECK(runtime.destroyClient(server));
}

TEST_CASE("to unload waits for the kernels, and takes the module from the device") {
  for (Sharing sharing : allSharings) {
    Opened opened = openFake(sharedBy(sharing));
    Runtime &runtime = *opened.runtime;
    Stream training = opened.stream(Class::BestEffort), serving = opened.stream(Class::High);
    DevicePtr memory = someMemory(opened), others = someMemory(opened);
    std::size_t functionsBefore = opened.device->functionsHeld();
    LoadedModule module = *runtime.load(opened.bundle);
    Kernel kernel = *runtime.kernel(module, "mix");
    for (int i = 0; i < 20; ++i) {
      REQUIRE(launchOne(opened, training, kernel, memory));
      REQUIRE(launchOne(opened, serving, kernel, others));
    }
    REQUIRE(runtime.unload(module));
    CHECK(opened.device->blocksRun() == 40 * blocksOfLaunch);
    CHECK(opened.device->modulesHeld() == 1);
    CHECK(opened.device->functionsHeld() == functionsBefore);
    CHECK(opened.device->endedBusy == 0);
    CHECK_FALSE(launchOne(opened, training, kernel, memory));
    CHECK(launchOne(opened, training, opened.kernels[0], memory));
    CHECK(runtime.synchronize(training));
  }
}

TEST_CASE("free waits for a stream that another thread destroys") {
  Opened opened = openFake();
  Runtime &runtime = *opened.runtime;
  Client server = opened.client(Class::High);
  Stream training = opened.stream(Class::BestEffort);
  DevicePtr memory = someMemory(opened);
  REQUIRE(runtime.beginRequest(server));
  REQUIRE(launchOne(opened, training, opened.kernels[0], memory));
  std::thread destroyer([&] { CHECK(runtime.destroyStream(training)); });
  // Its handle is invalid by now; otherwise free() would see one more stream.
  std::this_thread::sleep_for(10ms);
  std::atomic<bool> isFree{false};
  std::thread owner([&] {
    CHECK(runtime.free(memory));
    isFree = true;
  });
  CHECK_FALSE(comesSoon(isFree));
  REQUIRE(runtime.endRequest(server));
  destroyer.join();
  owner.join();
  CHECK(opened.device->blocksRun() == blocksOfLaunch);
}

TEST_CASE("streams and clients are destroyed while another thread waits for all of them") {
  Opened opened = openFake();
  Runtime &runtime = *opened.runtime;
  Client server = opened.client(Class::High);
  Stream training = opened.stream(Class::BestEffort), idle = opened.stream(Class::BestEffort);
  Stream serving = *runtime.createStream(server);
  DevicePtr memory = someMemory(opened);
  REQUIRE(runtime.beginRequest(server));
  REQUIRE(launchOne(opened, training, opened.kernels[0], memory));
  REQUIRE(launchOne(opened, serving, opened.kernels[0], memory));
  std::atomic<bool> isFree{false};
  std::thread owner([&] {
    CHECK(runtime.free(memory));
    isFree = true;
  });
  std::this_thread::sleep_for(10ms); // it waits by now; otherwise it would see fewer streams
  CHECK(runtime.destroyStream(idle));
  CHECK(runtime.destroyStream(serving));
  CHECK(runtime.destroyClient(opened.client(Class::BestEffort)));
  CHECK_FALSE(isFree);
  REQUIRE(runtime.endRequest(server));
  CHECK(runtime.destroyClient(server));
  owner.join();
  CHECK(opened.device->endedBusy == 0);
}

TEST_CASE("the device is not asked about a stream that was released, whose scope ends by itself") {
  Harness harness(1);
  RequestScopeTracker &high = *harness.high;
  auto adopt = [&] { return *high.adopt(*harness.device.createStream(StreamPriority::High)); };
  HighStream *stream = adopt();
  auto call = [&] {
    REQUIRE(high.beginCall(*stream));
    high.endCall(*stream);
  };
  call();
  std::atomic<int> asked{0};
  std::atomic<bool> goesOn{false}, isReleased{false};
  harness.device.onDriverCall = [&] {
    ++asked;
    while (!goesOn)
      std::this_thread::sleep_for(1ms);
  };
  std::thread monitor([&] {
    while (asked == 0)
      CHECK(high.monitor());
  });
  while (asked == 0)
    std::this_thread::sleep_for(1ms);
  std::thread owner([&] {
    high.release(*stream);
    isReleased = true;
  });
  CHECK_FALSE(comesSoon(isReleased)); // while it is being asked
  goesOn = true;
  monitor.join();
  owner.join();

  CHECK(adopt() == stream);
  CHECK(high.beginRequest());
  CHECK(high.endRequest(std::span(&stream, 1)));
  high.release(*stream);
  CHECK(adopt() == stream);
  CHECK_FALSE(stream->isNamed); // no request has named the new stream
  call();
  high.release(*stream);
  asked = 0;
  CHECK(high.hasImplicit());
  for (int i = 0; i < 4; ++i) {
    harness.now += 1s;
    CHECK(high.monitor());
  }
  CHECK(asked == 0);
  CHECK_FALSE(high.hasImplicit());
  CHECK(harness.word->snapshot().highPriorityActive == 0);
}

TEST_CASE("a fault ends streams, clients and modules too, and nothing hangs") {
  for (Sharing sharing : allSharings) {
    Opened opened = openFake(sharedBy(sharing));
    Runtime &runtime = *opened.runtime;
    Client trainer = opened.client(Class::BestEffort), server = opened.client(Class::High);
    Stream training = *runtime.createStream(trainer), serving = *runtime.createStream(server);
    DevicePtr memory = someMemory(opened);
    opened.device->breakAfter(10, "an illegal memory access was encountered");
    static_cast<void>(launchOne(opened, serving, opened.kernels[0], memory));
    static_cast<void>(launchOne(opened, training, opened.kernels[0], memory));
    CHECK(errorOf(runtime.destroyStream(serving)).find("illegal memory") != std::string::npos);
    CHECK(errorOf(runtime.destroyStream(training)).find("illegal memory") != std::string::npos);
    CHECK(errorOf(runtime.destroyStream(training)) == "no such stream: 1, which was destroyed");
    CHECK(runtime.destroyClient(trainer));
    CHECK(runtime.destroyClient(server));
    CHECK(errorOf(runtime.unload(opened.module)).find("illegal memory") != std::string::npos);
    CHECK(errorOf(runtime.unload(opened.module)) == "no such module: 1, which was destroyed");
  }
}

namespace {

/// Permits all work, and records the progress that it saw of client 0.
struct Watching {
  static constexpr bool usesClients = true, limitsSms = false;
  struct Seen {
    std::mutex mutex;
    /// By generation: the first and the last progress of each.
    std::vector<ClientProgress> progress;
  };
  std::shared_ptr<Seen> seen = std::make_shared<Seen>();

  Decision decide(const Snapshot &now) const {
    if (now.clients.size() != 0) {
      std::unique_lock lock(seen->mutex);
      const ClientProgress &client = now.clients[0];
      if (seen->progress.size() == 2 * std::size_t{client.generation})
        seen->progress.insert(seen->progress.end(), 2, client);
      if (2 * std::size_t{client.generation} + 1 < seen->progress.size())
        seen->progress[2 * std::size_t{client.generation} + 1] = client;
    }
    return PriorityPolicy().decide(now);
  }
};

} // namespace

TEST_CASE("the number of a client that has gone is the next one's, whose time begins at 0") {
  Watching policy;
  RuntimeOptions options;
  options.policy = policy;
  Opened opened = openFake(options);
  Runtime &runtime = *opened.runtime;
  DevicePtr memory = someMemory(opened);
  Client stays{};
  for (std::uint32_t generation = 0; generation < 3; ++generation) {
    Client client = opened.client(Class::BestEffort);
    if (generation == 0)
      stays = opened.client(Class::BestEffort); // number 1
    Stream stream = *runtime.createStream(client);
    for (int i = 0; i < 20; ++i) {
      REQUIRE(launchOne(opened, stream, opened.kernels[0], memory));
      REQUIRE(runtime.synchronize(stream));
    }
    REQUIRE(runtime.destroyStream(stream));
    REQUIRE(runtime.destroyClient(client));
  }
  CHECK(runtime.destroyClient(stays));
  std::unique_lock lock(policy.seen->mutex);
  REQUIRE(policy.seen->progress.size() == 6);
  for (std::size_t generation = 0; generation < 3; ++generation) {
    CHECK(policy.seen->progress[2 * generation].generation == generation);
    CHECK(policy.seen->progress[2 * generation].ran == 0ns);
    CHECK(policy.seen->progress[2 * generation + 1].ran > 0ns);
  }
}

TEST_CASE("a stream of the program's carries high priority, and stays the program's") {
  for (Sharing sharing : allSharings) {
    Opened opened = openFake(sharedBy(sharing));
    Runtime &runtime = *opened.runtime;
    Client server = opened.client(Class::High);
    Client trainer = *runtime.createClient(Class::BestEffort, "trainer");
    DevicePtr memory = someMemory(opened);
    StreamId native = *opened.device->createStream(StreamPriority::High);
    auto handle = static_cast<std::uint64_t>(native);
    Stream stream = *runtime.adoptStream(server, handle);
    std::size_t streams = opened.device->streamsHeld();
    CHECK(opened.device->adoptedHeld() == 1);
    for (int i = 0; i < 20; ++i)
      REQUIRE(launchOne(opened, stream, opened.kernels[0], memory));
    CHECK(runtime.statistics().highPriorityLaunches == 20);
    REQUIRE(runtime.destroyStream(stream));
    CHECK(opened.device->blocksRun() == 20 * blocksOfLaunch);
    CHECK(opened.device->endedBusy == 0);
    CHECK(opened.device->adoptedHeld() == 0);
    CHECK(opened.device->streamsHeld() == streams);
    CHECK(*opened.device->isIdle(native));
    // The runtime's record of the stream serves another stream.
    CHECK(runtime.destroyStream(*runtime.createStream(server)));
    REQUIRE(opened.device->destroyStream(native));

    CHECK(errorOf(runtime.adoptStream(trainer, handle)) ==
          "adoptStream: client 'trainer' is best effort, whose work waits in queues of the "
          "runtime's own; give it a stream by createStream()");
    CHECK(errorOf(runtime.adoptStream(server, 7777)) ==
          "adoptStream: client 1: no stream of the program's");
    CHECK(opened.device->adoptedHeld() == 0);
  }
}

TEST_CASE("a function of the program's is launched as it is, in both classes") {
  for (Sharing sharing : allSharings)
    for (bool tellsParameters : {true, false}) {
      Opened opened = openFake(sharedBy(sharing));
      Runtime &runtime = *opened.runtime;
      opened.device->tellsParameters = tellsParameters;
      DevicePtr memory = someMemory(opened);
      ModuleId module = *opened.device->loadModule(opened.bundle);
      FunctionId function = *opened.device->function(module, "mix");
      Kernel kernel = *runtime.adoptFunction(static_cast<std::uint64_t>(function), "theirs");
      for (Class clientClass : {Class::High, Class::BestEffort}) {
        Stream stream = opened.stream(clientClass);
        std::uint64_t before = opened.device->blocksRun();
        for (int i = 0; i < 20; ++i)
          REQUIRE(launchOne(opened, stream, kernel, memory));
        CHECK(errorOf(runtime.launch(stream, kernel, {{0, 1, 1}, {1, 1, 1}, 0}, Arguments())) ==
              "theirs: a grid of 0x1x1 blocks is outside of the device's limits");
        if (tellsParameters)
          CHECK(errorOf(runtime.launch(stream, kernel, {{1, 1, 1}, {1, 1, 1}, 0}, Arguments(1))) ==
                "theirs: takes 32 bytes of arguments, got 4");
        REQUIRE(runtime.synchronize(stream));
        CHECK(opened.device->blocksRun() - before == 20 * blocksOfLaunch);
        CHECK(opened.device->newestParameterBytes == 32);
      }
      Stream training = opened.stream(Class::BestEffort), serving = opened.stream(Class::High);
      for (Stream each : {training, serving})
        REQUIRE(launchOne(opened, each, kernel, memory));
      CHECK(runtime.statistics().launchesByKind == KindCounts{});
      REQUIRE(runtime.forget(kernel));
      CHECK(opened.device->endedBusy == 0);
      CHECK(opened.device->blocksRun() == 42 * blocksOfLaunch);
      CHECK(opened.device->adoptedHeld() == 0);
      CHECK(errorOf(runtime.forget(kernel)).ends_with(", which was destroyed"));
      CHECK(errorOf(runtime.forget(opened.kernels[0])) ==
            "forget: kernel 'mix' is of a loaded module, and ends with unload() of that");
      CHECK(launchOne(opened, opened.stream(Class::High), opened.kernels[0], memory));
      CHECK(errorOf(runtime.adoptFunction(7777, "none")) ==
            "adoptFunction: no function of the program's");
    }
}

TEST_CASE("the emulator has no streams and functions of a program's") {
  RuntimeOptions options;
  options.device = "emulator";
  auto runtime = std::move(*Runtime::open(options));
  Client server = *runtime->createClient(Class::High, "server");
  CHECK(errorOf(runtime->adoptStream(server, 1)) ==
        "adoptStream: client 'server': this device has no streams but those that it makes");
  CHECK(errorOf(runtime->adoptFunction(1, "theirs")) ==
        "adoptFunction: this device has no functions but those of modules that it loads");
  CHECK(runtime->destroyClient(server));
}

namespace {

/// Makes, uses and destroys objects; the thread's number selects their kind.
void comeAndGo(Opened &opened, std::size_t thread, int rounds, const std::atomic<bool> &stop) {
  Runtime &runtime = *opened.runtime;
  Class clientClass = thread % 2 == 0 ? Class::BestEffort : Class::High;
  for (int round = 0; round < rounds && !stop; ++round) {
    Client client = *runtime.createClient(clientClass, "client " + std::to_string(thread));
    DevicePtr memory = *runtime.allocate(Program::words * 8);
    LoadedModule module = *runtime.load(opened.bundle);
    Kernel own = *runtime.kernel(module, mixNames[round % mixNames.size()]);
    Stream stream = *runtime.createStream(client), other = *runtime.createStream(client);
    bool scope = clientClass == Class::High && round % 2 == 0;
    bool fine = !scope || runtime.beginRequest(client);
    for (int i = 0; i < 3; ++i)
      fine = fine && launchOne(opened, stream, own, memory) &&
             launchOne(opened, other, opened.kernels[0], memory);
    fine = fine && runtime.destroyStream(other);
    if (scope)
      fine = fine && runtime.endRequest(client);
    fine = fine && runtime.free(memory);
    // In both orders.
    fine = round % 3 == 0 ? fine && runtime.unload(module) && runtime.destroyStream(stream)
                          : fine && runtime.destroyStream(stream) && runtime.unload(module);
    fine = fine && runtime.destroyClient(client);
    CHECK(fine);
  }
}

} // namespace

TEST_CASE("threads make and destroy beside each other, and beside work, requests and statistics") {
  Opened opened = openFake();
  Runtime &runtime = *opened.runtime;
  std::size_t streams = opened.device->streamsHeld();
  std::size_t functions = opened.device->functionsHeld();
  std::atomic<bool> stop{false}, never{false};
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < 4; ++i)
    threads.emplace_back([&, i] { comeAndGo(opened, i, 40, never); });
  std::thread steady([&] {
    Stream stream = opened.stream(Class::BestEffort);
    DevicePtr memory = someMemory(opened);
    while (!stop)
      if (!launchOne(opened, stream, opened.kernels[1], memory) || !runtime.synchronize(stream))
        return;
    CHECK(runtime.destroyStream(stream));
  });
  std::thread onlooker([&] {
    while (!stop) {
      Statistics statistics = runtime.statistics();
      CHECK(statistics.physicalLaunches >= statistics.bestEffortLaunches);
      CHECK_FALSE(runtime.synchronize(Stream{std::uint64_t{1} << 62 | 1}));
      DevicePtr memory = *runtime.allocate(64);
      CHECK(runtime.free(memory));
    }
  });
  for (std::thread &thread : threads)
    thread.join();
  stop = true;
  steady.join();
  onlooker.join();
  CHECK(opened.device->endedBusy == 0);
  CHECK(opened.device->streamsHeld() == streams);
  CHECK(opened.device->functionsHeld() == functions);
  CHECK(opened.device->modulesHeld() == 1);
}
