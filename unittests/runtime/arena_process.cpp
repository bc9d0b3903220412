// A process for the tests of the arena to start, and to kill:
//
//   arena_process high ARENA NAME [DEVICE BUNDLE]
//                                            requests, one after the other
//   arena_process best-effort ARENA NAME [DEVICE BUNDLE]
//                                            launches; checks that each block ran exactly once
//   arena_process both ARENA NAME [DEVICE BUNDLE]
//                                            best-effort launches, with requests in between
//   arena_process claim ARENA NAME           holds a slot with two open scopes
//   arena_process fork ARENA NAME the same, and forks a child that lives on; prints its pid
//
// It ends at the end of its input. Its slot's statistics show its work. After an error it prints
// the error and exits with 3. Kernels run on the fake device, or on the device given (cuda,
// emulator) from the bundle of accumulate.ptx.
#include "fake_device.h"

#include "arena/arena.h"
#include "tally/bundle/bundle_reader.h"
#include "tally/runtime/runtime.h"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <poll.h>
#include <random>
#include <string>
#include <sys/prctl.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace tally;
using namespace tally::runtime;

namespace {

[[noreturn]] void fail(const std::string &what) {
  std::fprintf(stderr, "arena_process: %s\n", what.c_str());
  std::exit(3);
}

template <class T> T must(Result<T> result) {
  if (!result)
    fail(result.error().message);
  return std::move(*result);
}
void must(const Result<void> &result) {
  if (!result)
    fail(result.error().message);
}

bool inputEnded() {
  pollfd input{0, POLLIN, 0};
  char ignored = 0;
  return poll(&input, 1, 0) > 0 && read(0, &ignored, 1) <= 0;
}

void awaitEnd() {
  while (!inputEnded())
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
}

/// accumulate(out, rounds): out[block] += 1, which takes about a microsecond per block.
std::unique_ptr<Device> fakeDevice(bundle::Bundle &bundle) {
  auto device = std::make_unique<FakeDevice>(static_cast<std::uint64_t>(getpid()));
  device->setUuid("gpu");
  bundle::Kernel kernel{"accumulate", {{0, 8}, {8, 4}}, 12, 0, true, {}};
  for (Kind kind : allKinds)
    kernel.verdicts.push_back({kind, Status::Emitted, "", "", 0});
  bundle.kernels.push_back(kernel);
  device->define("accumulate", [](const FakeBlock &block) {
    ++reinterpret_cast<std::uint64_t *>(block.argument<std::uint64_t>(0))[block.linear];
    for (auto i = block.argument<std::uint32_t>(8); i > 0; --i)
      std::atomic_signal_fence(std::memory_order_seq_cst);
  });
  device->startThread();
  return device;
}

struct Tenant {
  Tenant(const std::string &arena, std::string name, std::uint32_t bestEffortClass,
         const std::string &device, const char *bundlePath)
      : name(std::move(name)) {
    RuntimeOptions options;
    options.arena.emplace().path = arena;
    options.arena->bestEffortClass = bestEffortClass;
    options.device = device;
    options.emulator.uuid = "gpu";
    bundle::Bundle bundle;
    if (device.empty()) {
      rounds = 2000;
      runtime = must(Runtime::openOn(fakeDevice(bundle), options));
    } else {
      // On a GPU: many waves of blocks of about 20 us.
      blocks = device == "cuda" ? 1 << 16 : blocks;
      rounds = device == "cuda" ? 2000 : 20;
      runtime = must(Runtime::open(options));
      bundle = must(bundle::readFile(bundlePath));
    }
    kernel = must(runtime->kernel(must(runtime->load(bundle)), "accumulate"));
  }

  std::uint32_t blocks = 1024, rounds = 0;
  std::string name;
  std::unique_ptr<Runtime> runtime;
  Kernel kernel{};
};

/// Launches until the input ends, and calls `each` after every launch.
template <class Each> void launchOn(Tenant &tenant, const Each &each) {
  Runtime &runtime = *tenant.runtime;
  Client client = must(runtime.createClient(Class::BestEffort, tenant.name));
  Stream stream = must(runtime.createStream(client));
  std::vector<std::uint64_t> counts(tenant.blocks);
  DevicePtr out = must(runtime.allocate(counts.size() * 8));
  must(runtime.fill(stream, out, std::byte{0}, counts.size() * 8));
  for (std::uint64_t launches = 1; !inputEnded(); ++launches) {
    must(runtime.launch(stream, tenant.kernel, {{tenant.blocks, 1, 1}, {32, 1, 1}, 0},
                        Arguments(out, tenant.rounds)));
    each(launches);
    if (launches % 4 != 0)
      continue;
    must(runtime.copyToHost(stream, std::as_writable_bytes(std::span(counts)), out));
    must(runtime.synchronize(stream));
    for (std::uint64_t count : counts)
      if (count != launches)
        fail("a block ran " + std::to_string(count) + " times in " + std::to_string(launches) +
             " launches");
  }
}

void serve(Tenant &tenant) {
  Runtime &runtime = *tenant.runtime;
  Client client = must(runtime.createClient(Class::High, tenant.name));
  std::mt19937_64 random(static_cast<std::uint64_t>(getpid()));
  Stream stream = must(runtime.createStream(client));
  DevicePtr out = must(runtime.allocate(8 * 8));
  auto pause = [&] { std::this_thread::sleep_for(std::chrono::microseconds(random() % 2000)); };
  while (!inputEnded()) {
    must(runtime.beginRequest(client));
    must(runtime.launch(stream, tenant.kernel, {{8, 1, 1}, {32, 1, 1}, 0},
                        Arguments(out, tenant.rounds)));
    pause();
    must(runtime.synchronize(stream));
    must(runtime.endRequest(client));
    pause();
  }
}

void both(Tenant &tenant) {
  Client high = must(tenant.runtime->createClient(Class::High, tenant.name + "-high"));
  launchOn(tenant, [&](std::uint64_t launches) {
    if (launches % 3 != 0)
      return;
    must(tenant.runtime->beginRequest(high));
    std::this_thread::sleep_for(std::chrono::microseconds(300));
    must(tenant.runtime->endRequest(high));
  });
}

void claim(const std::string &arena, const std::string &name, bool withChild) {
  auto slot = must(must(Arena::open({arena, "gpu", {}, false}))->claim(0, name));
  slot->raise();
  slot->raise();
  pid_t child = withChild ? fork() : 0;
  if (withChild && child == 0) {
    slot->withdraw(); // has no effect: the claim belongs to the parent
    slot->release();
    std::printf("alive\n");
    std::fflush(stdout);
    pause();
  }
  std::printf("%d\n", static_cast<int>(child)); // one write, so that lines of processes do not mix
  std::fflush(stdout);
  awaitEnd();
}

} // namespace

int main(int count, char **arguments) {
  // The process dies with the test, even when the test is killed.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (count < 4)
    fail("usage: arena_process high|best-effort|best-effort-2|both|claim|fork ARENA NAME "
         "[DEVICE BUNDLE]");
  std::string mode = arguments[1], arena = arguments[2], name = arguments[3];
  if (mode == "claim" || mode == "fork") {
    claim(arena, name, mode == "fork");
    return 0;
  }
  Tenant tenant(arena, name, mode == "best-effort-2" ? 2 : 1, count > 5 ? arguments[4] : "",
                count > 5 ? arguments[5] : nullptr);
  if (mode == "high")
    serve(tenant);
  else if (mode == "best-effort" || mode == "best-effort-2")
    launchOn(tenant, [](std::uint64_t) {});
  else if (mode == "both")
    both(tenant);
  else
    fail("unknown mode " + mode);
}
