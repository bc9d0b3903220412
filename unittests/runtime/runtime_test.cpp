// The runtime's interface, with all its threads, on the fake device.
#include "arena_folder.h"
#include "opened.h"

#include "tally/runtime/runtime.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <memory>
#include <thread>

using namespace tally;
using namespace tally::runtime;

namespace {

/// Runs a one-stream program through the interface; returns the final contents of memory.
Outcome runThrough(Opened &opened, const Program &program, Class clientClass) {
  Runtime &runtime = *opened.runtime;
  Outcome outcome = initialOutcome(program);
  Stream stream = opened.stream(clientClass);
  std::array<DevicePtr, Program::buffers> memory{};
  std::size_t bytes = Program::words * 8;
  bool fine = true;
  for (std::size_t b = 0; b < Program::buffers; ++b) {
    memory[b] = *runtime.allocate(bytes);
    fine = fine &&
           runtime.copyToDevice(stream, memory[b], std::as_bytes(std::span(outcome.buffers[0][b])));
  }
  for (std::size_t n = 0; n < program.steps.size(); ++n) {
    const Step &step = program.steps[n];
    Result<void> done;
    switch (step.type) {
    case Step::Type::Launch:
      done = runtime.launch(
          stream, opened.kernels[step.kernel], {step.grid, {64, 1, 1}, 0},
          Arguments(memory[step.to], memory[step.from], std::uint64_t{Program::words}, step.key));
      break;
    case Step::Type::CopyIn:
      done = runtime.copyToDevice(stream, memory[step.to],
                                  std::as_bytes(std::span(program.hostIn[n])));
      break;
    case Step::Type::CopyOut:
      done = runtime.copyToHost(stream, std::as_writable_bytes(std::span(outcome.hostOut[n])),
                                memory[step.to]);
      break;
    case Step::Type::Fill:
      done = runtime.fill(stream, memory[step.to], static_cast<std::byte>(step.key & 0xff), bytes);
      break;
    }
    fine = fine && done;
    if (n % 25 == 24)
      fine = fine && runtime.synchronize(stream);
  }
  for (std::size_t b = 0; b < Program::buffers; ++b)
    fine = fine && runtime.copyToHost(
                       stream, std::as_writable_bytes(std::span(outcome.buffers[0][b])), memory[b]);
  fine = fine && runtime.synchronize(stream);
  if (!fine)
    outcome.buffers.clear();
  return outcome;
}

/// Makes requests from another thread until `stop`: some with scopes, and some that only launch.
void serve(Opened &opened, const std::atomic<bool> &stop, std::atomic<int> &served) {
  Runtime &runtime = *opened.runtime;
  Client client = opened.client(Class::High);
  Stream stream = *runtime.createStream(client);
  DevicePtr memory = *runtime.allocate(Program::words * 8);
  std::mt19937_64 random(9);
  while (!stop) {
    bool scope = random() % 2 == 0, fine = true;
    if (scope)
      fine = static_cast<bool>(runtime.beginRequest(client));
    for (std::uint64_t i = random() % 3; i > 0; --i)
      fine = fine && runtime.launch(stream, opened.kernels[0], {{6, 1, 1}, {64, 1, 1}, 0},
                                    Arguments(memory, memory, std::uint64_t{6}, i));
    if (random() % 2 == 0)
      fine = fine && runtime.synchronize(stream);
    if (scope)
      fine = fine && runtime.endRequest(client);
    if (!fine)
      return;
    ++served;
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 400));
  }
}

} // namespace

TEST_CASE("several threads of best-effort work and one of requests") {
  Opened opened = openFake();
  std::atomic<bool> stop{false};
  std::atomic<int> served{0};
  std::thread server([&] { serve(opened, stop, served); });
  std::array<bool, 3> right{};
  std::uint64_t launches = 0;
  std::vector<Program> programs;
  for (std::size_t i = 0; i < right.size(); ++i) {
    std::mt19937_64 random(100 + i);
    programs.push_back(Program::make(random, 1, 150, mixNames.size()));
    for (const Step &step : programs.back().steps)
      launches += step.type == Step::Type::Launch;
  }
  std::vector<std::thread> trainers;
  for (std::size_t i = 0; i < right.size(); ++i)
    trainers.emplace_back([&, i] {
      right[i] = runThrough(opened, programs[i], Class::BestEffort) == runInOrder(programs[i]);
    });
  for (std::thread &trainer : trainers)
    trainer.join();
  stop = true;
  server.join();
  CHECK(right == std::array<bool, 3>{true, true, true});
  CHECK(served > 0);
  Statistics statistics = opened.runtime->statistics();
  CHECK(statistics.bestEffortLaunches == launches);
  CHECK(statistics.physicalLaunches >= launches);
  CHECK(statistics.requestsToYield > 0);
  CHECK(statistics.requestsToYield >= statistics.turnaroundNanoseconds.size());
}

TEST_CASE("the same calls give the same result under every way of sharing and class") {
  std::mt19937_64 random(4);
  Program program = Program::make(random, 1, 100, mixNames.size());
  std::uint64_t launches = 0;
  for (const Step &step : program.steps)
    launches += step.type == Step::Type::Launch;
  for (Sharing sharing : {Sharing::Tally, Sharing::LowPriority, Sharing::SamePriority})
    for (Class clientClass : {Class::High, Class::BestEffort}) {
      RuntimeOptions options;
      options.sharing = sharing;
      Opened opened = openFake(options);
      CHECK((runThrough(opened, program, clientClass) == runInOrder(program)));
      Statistics statistics = opened.runtime->statistics();
      CHECK(statistics.highPriorityLaunches == (clientClass == Class::High ? launches : 0));
      CHECK(statistics.bestEffortLaunches == (clientClass == Class::High ? 0 : launches));
      Client client = opened.client(Class::High);
      CHECK(opened.runtime->beginRequest(client));
      CHECK(opened.runtime->endRequest(client));
      CHECK_FALSE(opened.runtime->endRequest(client));
      if (sharing != Sharing::Tally)
        CHECK(opened.runtime->statistics().requestsToYield == 0);
    }
}

TEST_CASE("what is wrong with a launch is said at the call") {
  Opened opened = openFake();
  Runtime &runtime = *opened.runtime;
  for (Class clientClass : {Class::High, Class::BestEffort}) {
    Stream stream = opened.stream(clientClass);
    auto launch = [&](Dim3 grid, Dim3 block, std::uint32_t shared, const Arguments &arguments) {
      return errorOf(runtime.launch(stream, opened.kernels[0], {grid, block, shared}, arguments));
    };
    Arguments good(DevicePtr{0}, DevicePtr{0}, std::uint64_t{1}, std::uint64_t{1});
    CHECK(launch({0, 1, 1}, {1, 1, 1}, 0, good) ==
          "mix: a grid of 0x1x1 blocks is outside of the device's limits");
    CHECK(launch({1, 65536, 1}, {1, 1, 1}, 0, good).find("1x65536x1 blocks") != std::string::npos);
    CHECK(launch({1, 1, 1}, {1025, 1, 1}, 0, good) ==
          "mix: a block of 1025x1x1 threads is outside of this kernel's limits");
    CHECK(launch({1, 1, 1}, {1, 1, 1}, 49152, good).find("shared memory") != std::string::npos);
    CHECK(launch({1, 1, 1}, {1, 1, 1}, 0, Arguments(1)) ==
          "mix: takes 32 bytes of arguments, got 4");
  }
  Stream none{77};
  CHECK(errorOf(runtime.synchronize(none)) == "no such stream: 77");
  CHECK(errorOf(runtime.launch(opened.stream(Class::High), Kernel{0}, {}, Arguments())) ==
        "no such kernel: 0");
  Result<Kernel> missing = runtime.kernel(LoadedModule{1}, "nothing");
  REQUIRE_FALSE(missing);
  CHECK(missing.error().message == "no kernel 'nothing' in the module");
  CHECK_FALSE(runtime.kernel(LoadedModule{2}, "mix"));
  Result<LoadedModule> absent = runtime.load("/nonexistent/x.tally");
  REQUIRE_FALSE(absent);
  CHECK(absent.error().message.find("cannot open") != std::string::npos);
  RuntimeOptions options;
  options.device = "abacus";
  Result<std::unique_ptr<Runtime>> unknown = Runtime::open(options);
  REQUIRE_FALSE(unknown);
  CHECK(unknown.error().message == "unknown device 'abacus'; there are 'cuda' and 'emulator'");
}

TEST_CASE("a client's class decides for all its streams") {
  Opened opened = openFake();
  Runtime &runtime = *opened.runtime;
  DevicePtr memory = *runtime.allocate(Program::words * 8);
  Client trainer = *runtime.createClient(Class::BestEffort, "trainer");
  Client server = *runtime.createClient(Class::High, "server");
  auto launchOnNewStream = [&](Client client) {
    Stream stream = *runtime.createStream(client);
    return runtime.launch(stream, opened.kernels[0], {{24, 1, 1}, {64, 1, 1}, 0},
                          Arguments(memory, memory, std::uint64_t{24}, std::uint64_t{1})) &&
           runtime.synchronize(stream);
  };
  for (Client client : {trainer, server, trainer})
    CHECK(launchOnNewStream(client));
  Statistics statistics = runtime.statistics();
  CHECK(statistics.bestEffortLaunches == 2);
  CHECK(statistics.highPriorityLaunches == 1);
}

TEST_CASE("best-effort clients of every class get their work done, beside each other") {
  Opened opened = openFake();
  Runtime &runtime = *opened.runtime;
  for (std::uint32_t number : {0u, 5u}) {
    auto refused = runtime.createBestEffortClient(number);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().message == "createBestEffortClient: the class is " +
                                         std::to_string(number) + "; allowed are 1 to 4");
  }
  struct Tenant {
    Stream stream;
    DevicePtr memory;
  };
  std::vector<Tenant> tenants;
  for (std::uint32_t number : {4u, 1u, 3u, 2u, 1u})
    tenants.push_back({*runtime.createStream(*runtime.createBestEffortClient(number)),
                       *runtime.allocate(Program::words * 8)});
  for (const Tenant &each : tenants)
    REQUIRE(runtime.fill(each.stream, each.memory, std::byte{1}, Program::words * 8));
  for (std::uint64_t key = 0; key < 20; ++key)
    for (const Tenant &each : tenants)
      REQUIRE(runtime.launch(each.stream, opened.kernels[0], {{24, 1, 1}, {64, 1, 1}, 0},
                             Arguments(each.memory, each.memory, std::uint64_t{24}, key)));
  for (const Tenant &each : tenants)
    CHECK(runtime.synchronize(each.stream));
  CHECK(runtime.statistics().bestEffortLaunches == 100);
  RuntimeOptions options;
  options.sharing = Sharing::LowPriority;
  auto refused = openFake(options).runtime->createBestEffortClient(1);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message == "createBestEffortClient: classes are for sharing by tally only");
}

TEST_CASE("requests are for high-priority clients, each of which ends its own") {
  for (Sharing sharing : {Sharing::Tally, Sharing::LowPriority, Sharing::SamePriority}) {
    RuntimeOptions options;
    options.sharing = sharing;
    Opened opened = openFake(options);
    Runtime &runtime = *opened.runtime;
    Client trainer = *runtime.createClient(Class::BestEffort, "trainer");
    Client unnamed = *runtime.createClient(Class::BestEffort);
    Client server = *runtime.createClient(Class::High, "server");
    Client other = *runtime.createClient(Class::High, "other");
    CHECK(errorOf(runtime.beginRequest(trainer)) ==
          "beginRequest: client 'trainer' is best effort; requests are for high-priority clients");
    CHECK(errorOf(runtime.endRequest(unnamed)) ==
          "endRequest: client 2 is best effort; requests are for high-priority clients");
    CHECK(errorOf(runtime.endRequest(server)) == "endRequest: client 'server' has no open request");
    REQUIRE(runtime.beginRequest(server));
    CHECK(errorOf(runtime.endRequest(other)) == "endRequest: client 'other' has no open request");
    CHECK(runtime.endRequest(server));
    CHECK_FALSE(runtime.endRequest(server));
    for (Client unknown : {Client{0}, Client{5}, Client{~std::uint64_t{0}}}) {
      std::string expected =
          "no such client: " + std::to_string(static_cast<std::uint64_t>(unknown));
      CHECK(errorOf(runtime.beginRequest(unknown)) == expected);
      CHECK(errorOf(runtime.endRequest(unknown)) == expected);
      Result<Stream> stream = runtime.createStream(unknown);
      REQUIRE_FALSE(stream);
      CHECK(stream.error().message == expected);
    }
  }
}

TEST_CASE("best-effort work goes on only when the requests of all clients have ended") {
  Opened opened = openFake();
  Runtime &runtime = *opened.runtime;
  Stream training = opened.stream(Class::BestEffort);
  Client first = opened.client(Class::High), second = opened.client(Class::High);
  DevicePtr memory = *runtime.allocate(Program::words * 8);
  REQUIRE(runtime.beginRequest(first));
  REQUIRE(runtime.beginRequest(second));
  REQUIRE(runtime.launch(training, opened.kernels[0], {{24, 1, 1}, {64, 1, 1}, 0},
                         Arguments(memory, memory, std::uint64_t{24}, std::uint64_t{1})));
  // No event shows that work does not start, so the test waits for as long as a start could take.
  auto hasStarted = [&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    return opened.device->blocksRun() != 0;
  };
  CHECK_FALSE(hasStarted());
  REQUIRE(runtime.endRequest(first));
  CHECK_FALSE(hasStarted());
  CHECK_FALSE(runtime.endRequest(first));
  CHECK_FALSE(hasStarted());
  REQUIRE(runtime.endRequest(second));
  CHECK(runtime.synchronize(training));
  CHECK(opened.device->blocksRun() == 24);
}

TEST_CASE("a fault on the device ends all calls with its message, and nothing hangs") {
  Opened opened = openFake();
  Runtime &runtime = *opened.runtime;
  Client server = opened.client(Class::High);
  Stream training = opened.stream(Class::BestEffort);
  Stream serving = *runtime.createStream(server);
  DevicePtr memory = *runtime.allocate(Program::words * 8);
  opened.device->breakAfter(200, "launch: an illegal memory access was encountered");
  std::string trainingError;
  for (int i = 0; i < 10000 && trainingError.empty(); ++i) {
    Result<void> launched =
        runtime.launch(training, opened.kernels[i % 4], {{24, 1, 1}, {64, 1, 1}, 0},
                       Arguments(memory, memory, std::uint64_t{24}, std::uint64_t{1}));
    if (!launched)
      trainingError = launched.error().message;
  }
  CHECK(trainingError.find("illegal memory access") != std::string::npos);
  CHECK(errorOf(runtime.synchronize(serving)).find("illegal memory access") != std::string::npos);
  // A request itself asks the device for nothing; its launches do.
  static_cast<void>(runtime.beginRequest(server));
  Result<void> launched =
      runtime.launch(serving, opened.kernels[0], {{1, 1, 1}, {64, 1, 1}, 0},
                     Arguments(memory, memory, std::uint64_t{1}, std::uint64_t{1}));
  CHECK(errorOf(launched).find("illegal memory access") != std::string::npos);
}

TEST_CASE("best-effort work that is held back for ever by a fault is told of it") {
  Opened opened = openFake();
  Runtime &runtime = *opened.runtime;
  Stream training = opened.stream(Class::BestEffort);
  DevicePtr memory = *runtime.allocate(Program::words * 8);
  REQUIRE(runtime.beginRequest(opened.client(Class::High)));
  REQUIRE(runtime.launch(training, opened.kernels[0], {{24, 1, 1}, {64, 1, 1}, 0},
                         Arguments(memory, memory, std::uint64_t{24}, std::uint64_t{1})));
  opened.device->breakNow("an illegal memory access was encountered");
  CHECK(errorOf(runtime.synchronize(training)).find("illegal memory access") != std::string::npos);
}

TEST_CASE("the runtime ends with work and requests still open") {
  std::mt19937_64 random(6);
  Program program = Program::make(random, 1, 0, 1);
  auto device = std::make_unique<FakeDevice>(5);
  FakeDevice *raw = device.get();
  bundle::Bundle bundle = mixBundle(*device);
  device->startThread();
  std::uint64_t blocks = 0;
  {
    std::unique_ptr<Runtime> runtime = std::move(*Runtime::openOn(std::move(device), {}));
    Kernel kernel = *runtime->kernel(*runtime->load(bundle), "mix");
    Stream stream = *runtime->createStream(*runtime->createClient(Class::BestEffort));
    Client server = *runtime->createClient(Class::High);
    DevicePtr memory = *runtime->allocate(Program::words * 8);
    REQUIRE(runtime->beginRequest(server));
    REQUIRE(runtime->beginRequest(server));
    for (int i = 0; i < 5; ++i)
      REQUIRE(runtime->launch(stream, kernel, {{24, 1, 1}, {64, 1, 1}, 0},
                              Arguments(memory, memory, std::uint64_t{24}, std::uint64_t{1})));
    raw->blocksRunAtEnd = &blocks;
  }
  CHECK(blocks == 5 * 24);
}

TEST_CASE("while best-effort work runs its next wake is armed, and nothing waits when it is over") {
  Opened opened = openFake();
  Runtime &runtime = *opened.runtime;
  Stream training = opened.stream(Class::BestEffort);
  Client server = opened.client(Class::High);
  DevicePtr memory = *runtime.allocate(Program::words * 8);
  std::atomic<bool> slow{true};
  opened.device->onBlock = [&](auto) {
    if (slow)
      std::this_thread::sleep_for(std::chrono::microseconds(50));
  };
  auto train = [&](int launches = 10) {
    for (int i = 0; i < launches; ++i)
      REQUIRE(runtime.launch(training, opened.kernels[0], {{24, 1, 1}, {64, 1, 1}, 0},
                             Arguments(memory, memory, std::uint64_t{24}, std::uint64_t{1})));
  };
  train();
  REQUIRE(runtime.synchronize(training));
  CHECK(opened.device->writesArmed() > 0);
  CHECK(runtime.statistics().requestsToYield == 0);
  std::uint64_t before = opened.device->writesArmed();
  // An armed write may still be armed, where the dispatcher has not seen the empty queue.
  while (opened.device->writesArmed() == before) {
    train();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  train(800); // a second of work, so that the request meets it even when the system delays the
              // request
  REQUIRE(runtime.beginRequest(server));
  slow = false;
  REQUIRE(runtime.endRequest(server));
  REQUIRE(runtime.synchronize(training));
  CHECK(runtime.statistics().requestsToYield == 1);
  CHECK(runtime.statistics().yields > 0);
}

TEST_CASE("what is armed is let go though the dispatcher's thread is kept inside of the driver") {
  Opened opened = openFake();
  Runtime &runtime = *opened.runtime;
  Stream training = opened.stream(Class::BestEffort);
  DevicePtr memory = *runtime.allocate(Program::words * 8);
  opened.device->onBlock = [](auto) { std::this_thread::sleep_for(std::chrono::microseconds(50)); };
  // A thread of the program holds the driver's lock until the device is idle; a waiting stream
  // keeps the device busy.
  std::atomic<bool> isKept{false}, isLetGo{true};
  std::thread::id program = std::this_thread::get_id();
  opened.device->onDriverCall = [&] {
    std::uint64_t armed = opened.device->writesArmed();
    if (armed == 0 || std::this_thread::get_id() == program || isKept.exchange(true))
      return;
    auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (opened.device->trigger()->load() < armed && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    isLetGo = opened.device->trigger()->load() >= armed;
  };
  while (!isKept) {
    for (int i = 0; i < 10; ++i)
      REQUIRE(runtime.launch(training, opened.kernels[0], {{24, 1, 1}, {64, 1, 1}, 0},
                             Arguments(memory, memory, std::uint64_t{24}, std::uint64_t{1})));
    REQUIRE(runtime.synchronize(training));
  }
  CHECK(isLetGo);
  CHECK(runtime.statistics().requestsToYield == 0);
}

TEST_CASE("nothing is armed beside short launches, which a write that waits would slow") {
  Opened opened = openFake();
  Runtime &runtime = *opened.runtime;
  Stream training = opened.stream(Class::BestEffort);
  DevicePtr memory = *runtime.allocate(Program::words * 8);
  auto isArmedInRound = [&]() -> int {
    std::uint64_t before = opened.device->writesArmed();
    for (int i = 0; i < 1000; ++i)
      REQUIRE(runtime.launch(training, opened.kernels[0], {{1, 1, 1}, {1, 1, 1}, 0},
                             Arguments(memory, memory, std::uint64_t{1}, std::uint64_t{1})));
    REQUIRE(runtime.synchronize(training));
    return opened.device->writesArmed() != before;
  };
  // On a busy machine launches take long, and the runtime still takes them for long ones in the
  // next round: writes armed in such rounds do not count. If arming paid for all launches, more
  // than a fifth of the rounds would arm.
  constexpr int rounds = 200;
  constexpr Nanoseconds longest = std::chrono::milliseconds(20);
  int armed = 0;
  bool wasShort = false;
  for (int i = 0; i < rounds; ++i) {
    Nanoseconds begin = SteadyClock{}();
    int isArmed = isArmedInRound();
    bool isShort = SteadyClock{}() - begin < longest;
    armed += wasShort && isShort ? isArmed : 0;
    wasShort = isShort;
  }
  CHECK(armed < rounds / 10);
}

TEST_CASE("free waits for the work that may use the memory") {
  Opened opened = openFake();
  Runtime &runtime = *opened.runtime;
  Stream stream = opened.stream(Class::BestEffort);
  DevicePtr memory = *runtime.allocate(Program::words * 8);
  std::uint64_t before = opened.device->blocksRun();
  for (int i = 0; i < 20; ++i)
    REQUIRE(runtime.launch(stream, opened.kernels[0], {{24, 1, 1}, {64, 1, 1}, 0},
                           Arguments(memory, memory, std::uint64_t{24}, std::uint64_t{1})));
  CHECK(runtime.free(memory));
  CHECK(opened.device->blocksRun() - before == 20 * 24);
  CHECK(errorOf(runtime.free(memory)) == "free: not an allocation");
}

TEST_CASE(
    "a process that is best effort only has the lower priority under MPS, and no other class") {
  ArenaFolder folder;
  RuntimeOptions options;
  options.arena = ArenaOptions{folder.file(), {}, true};
  unsetenv("CUDA_MPS_CLIENT_PRIORITY");
  options.device = "emulator";
  auto runtime = Runtime::open(options);
  REQUIRE(runtime);
  CHECK(std::getenv("CUDA_MPS_CLIENT_PRIORITY") == nullptr);
  auto refused = (*runtime)->createClient(Class::High, "server");
  REQUIRE(!refused);
  CHECK(refused.error().message ==
        "createClient: the process is in the arena for best effort only");
  CHECK((*runtime)->createClient(Class::BestEffort, "trainer"));

  // Without a GPU this call fails, but only after it has set the variable.
  options.device = "cuda";
  auto tried = Runtime::open(options);
  CHECK(std::string_view(std::getenv("CUDA_MPS_CLIENT_PRIORITY")) == "1");
  setenv("CUDA_MPS_CLIENT_PRIORITY", "0", 1);
  tried = Runtime::open(options);
  CHECK(std::string_view(std::getenv("CUDA_MPS_CLIENT_PRIORITY")) == "0");
  unsetenv("CUDA_MPS_CLIENT_PRIORITY");
}
