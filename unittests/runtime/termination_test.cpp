// SIGTERM in programs that use the API: with the option no block is cut short.
#include "fake_device.h"
#include "program.h"

#include "tally/runtime/runtime.h"

#include <doctest/doctest.h>

#include <csignal>
#include <thread>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace tally;
using namespace tally::runtime;
using namespace std::chrono_literals;

namespace {

/// Seen by parent and child.
struct Shared {
  std::atomic<std::uint64_t> begun{0}, ended{0};
  std::atomic<bool> stuck{false};
  static Shared &make() {
    void *memory =
        mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(memory != MAP_FAILED);
    return *new (memory) Shared;
  }
};

struct Process {
  std::unique_ptr<Runtime> runtime;
  Kernel kernel{};
  DevicePtr memory = 0;

  Result<void> launch(Stream stream) const {
    return runtime->launch(
        stream, kernel, {{16, 1, 1}, {64, 1, 1}, 0},
        Arguments(memory, memory, std::uint64_t{Program::words}, std::uint64_t{7}));
  }
};

/// Opens a runtime for a process whose blocks take a few hundred microseconds.
Process openIn(Shared &shared, std::chrono::milliseconds drain) {
  std::signal(SIGTERM, SIG_DFL); // the test framework has its own handler
  auto device = std::make_unique<FakeDevice>(5);
  bundle::Bundle bundle = mixBundle(*device);
  device->onBlock = [&](std::optional<Kind>) {
    shared.begun.fetch_add(1);
    do
      std::this_thread::sleep_for(300us);
    while (shared.stuck.load());
    shared.ended.fetch_add(1);
  };
  device->startThread();
  RuntimeOptions options;
  options.drainOnTermination = drain;
  Process process;
  process.runtime = std::move(*Runtime::openOn(std::move(device), options));
  process.kernel = *process.runtime->kernel(*process.runtime->load(bundle), mixNames[0]);
  process.memory = *process.runtime->allocate(Program::words * 8);
  return process;
}

/// A process with endless best-effort work.
[[noreturn]] void train(Shared &shared, std::chrono::milliseconds drain) {
  Process process = openIn(shared, drain);
  Runtime &runtime = *process.runtime;
  Stream stream = *runtime.createStream(*runtime.createClient(Class::BestEffort));
  for (;;)
    if (!process.launch(stream))
      _exit(3);
}

/// A process that creates and destroys streams and clients, and frees memory meanwhile.
[[noreturn]] void comeAndGo(Shared &shared, std::chrono::milliseconds drain) {
  Process process = openIn(shared, drain);
  Runtime &runtime = *process.runtime;
  auto goOn = [&] {
    for (;;) {
      Client client = *runtime.createClient(Class::BestEffort);
      Stream stream = *runtime.createStream(client), idle = *runtime.createStream(client);
      if (!process.launch(stream) || !runtime.destroyStream(idle) ||
          !runtime.destroyStream(stream) || !runtime.destroyClient(client) ||
          !runtime.free(*runtime.allocate(64)))
        _exit(3);
    }
  };
  std::thread other(goOn);
  goOn();
  _exit(3);
}

/// Terminates such a process; returns the number of its blocks that were cut short.
std::uint64_t cutShort(std::chrono::milliseconds drain, std::chrono::microseconds after,
                       void (*run)(Shared &, std::chrono::milliseconds) = train) {
  Shared &shared = Shared::make();
  pid_t child = fork();
  if (child == 0)
    run(shared, drain);
  while (shared.begun.load() == 0)
    std::this_thread::sleep_for(100us);
  std::this_thread::sleep_for(after);
  kill(child, SIGTERM);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGTERM);
  std::uint64_t cut = shared.begun.load() - shared.ended.load();
  munmap(&shared, sizeof shared);
  return cut;
}

} // namespace

TEST_CASE("SIGTERM ends a process when nothing of it runs any more") {
  for (int round = 0; round < 10; ++round)
    CHECK(cutShort(5s, std::chrono::microseconds(round * 731)) == 0);
}

TEST_CASE("SIGTERM ends a process whose streams are being made and destroyed") {
  for (int round = 0; round < 10; ++round)
    CHECK(cutShort(5s, std::chrono::microseconds(round * 731), comeAndGo) == 0);
}

TEST_CASE("without the option it cuts blocks short") {
  std::uint64_t cut = 0;
  for (int round = 0; round < 50 && cut == 0; ++round)
    cut = cutShort(0ms, std::chrono::microseconds(round * 731));
  CHECK(cut != 0);
}

TEST_CASE("a device that does not come to rest is waited for so long and no longer") {
  Shared &shared = Shared::make();
  pid_t child = fork();
  if (child == 0) {
    shared.stuck = true;
    train(shared, 200ms);
  }
  while (shared.begun.load() == 0)
    std::this_thread::sleep_for(100us);
  auto start = std::chrono::steady_clock::now();
  kill(child, SIGTERM);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WTERMSIG(status) == SIGTERM);
  CHECK(std::chrono::steady_clock::now() - start >= 200ms);
}

TEST_CASE("a process whose runtime is closed dies at once, and so does a forked child") {
  Shared &shared = Shared::make();
  pid_t child = fork();
  if (child == 0) {
    std::signal(SIGTERM, SIG_DFL);
    {
      RuntimeOptions options;
      options.drainOnTermination = 60s;
      auto device = std::make_unique<FakeDevice>(5);
      device->startThread();
      auto runtime = std::move(*Runtime::openOn(std::move(device), options));
      pid_t grandchild = fork();
      if (grandchild == 0)
        for (shared.begun = 1;;)
          pause();
#ifdef __SANITIZE_THREAD__
      // The sanitizer delays signals, and drops a signal whose handler is reset meanwhile, as a
      // forked child does.
      while (shared.begun.load() == 0)
        std::this_thread::sleep_for(100us);
#endif
      kill(grandchild, SIGTERM);
      int status = 0;
      if (waitpid(grandchild, &status, 0) != grandchild || !WIFSIGNALED(status))
        _exit(4);
    }
    raise(SIGTERM);
    std::this_thread::sleep_for(20s);
    _exit(5);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGTERM);
}
