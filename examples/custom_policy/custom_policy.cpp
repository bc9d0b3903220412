// A policy of one's own: any copyable struct with `Decision decide(const Snapshot &)`. This one is
// strict priority with a budget: in each window best-effort work may have the device for so long
// and no longer, whatever else the device has to do.
//
//   custom_policy          on the emulator
//   custom_policy cuda     on the first GPU
#include "tally/runtime/runtime.h"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

using namespace tally::runtime;
using namespace std::chrono_literals;

namespace {

/// How often the budget was used up; the policy itself is copied into the runtime.
std::atomic<int> windowsUsedUp{0};

struct BudgetPolicy {
  static constexpr bool limitsSms = false;
  std::chrono::nanoseconds window{20ms}, budget{2ms};

  Decision decide(const Snapshot &now) {
    if (now.now >= windowEnd) {
      windowEnd = now.now + window;
      ranBefore = now.bestEffortRan;
      usedUp = false;
    }
    // What is under way is not in bestEffortRan until it has ended, so a budget may be overrun by
    // that: about 250 us of kernels are sent ahead, or one longer one.
    if (!usedUp && now.bestEffortRan - ranBefore >= budget) {
      usedUp = true;
      ++windowsUsedUp;
    }
    Decision decision;
    decision.runBestEffort = now.highPriorityActive == 0 && !usedUp;
    return decision;
  }

private:
  std::chrono::nanoseconds windowEnd{0}, ranBefore{0};
  bool usedUp = false;
};
static_assert(Policy<BudgetPolicy>);

template <class T> T must(tally::Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "custom_policy: %s\n", result.error().message.c_str());
    std::exit(1);
  }
  return std::move(*result);
}
void must(const tally::Result<void> &result) {
  if (!result) {
    std::fprintf(stderr, "custom_policy: %s\n", result.error().message.c_str());
    std::exit(1);
  }
}

} // namespace

int main(int count, char **arguments) {
  RuntimeOptions options;
  options.device = count > 1 ? arguments[1] : "emulator";
  options.policy = BudgetPolicy{};
  auto runtime = must(Runtime::open(options));
  Kernel scaleAdd = must(runtime->kernel(must(runtime->load(QUICKSTART_BUNDLE)), "scale_add"));
  Client trainer = must(runtime->createClient(Class::BestEffort, "trainer"));
  Stream background = must(runtime->createStream(trainer));

  constexpr int size = 20'000, rounds = 60;
  const tally::LaunchShape shape{{(size + 255) / 256}, {256}};
  std::vector<float> values(size, 1), ones(size, 1);
  DevicePtr x = must(runtime->allocate(size * sizeof(float)));
  DevicePtr one = must(runtime->allocate(size * sizeof(float)));
  must(runtime->copyToDevice(background, x, std::as_bytes(std::span(values))));
  must(runtime->copyToDevice(background, one, std::as_bytes(std::span(ones))));
  auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < rounds; ++i)
    must(runtime->launch(background, scaleAdd, shape, Arguments(x, one, 1.0f, size)));
  must(runtime->copyToHost(background, std::as_writable_bytes(std::span(values)), x));
  must(runtime->synchronize(background));
  std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;

  bool right = values == std::vector<float>(size, 1 + rounds);
  std::printf("%d launches in %.0f ms; the budget was used up in %d windows; the result is %s\n",
              rounds, took.count(), windowsUsedUp.load(), right ? "right" : "wrong");
  return right ? 0 : 1;
}
