// A policy of one's own: any copyable struct with `Decision decide(const Snapshot &)`. This one is
// strict priority with a budget: in each window best-effort work may use the device for a fixed
// time, even when the device is otherwise idle.
//
//   custom_policy          on the emulator
//   custom_policy cuda     on the first GPU
#include "tally/tally.hpp"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

using namespace std::chrono_literals;

namespace {

/// Times that the budget was used up. The count lies outside of the policy, since the runtime
/// copies the policy.
std::atomic<int> windowsUsedUp{0};

struct BudgetPolicy {
  static constexpr bool limitsSms = false;
  std::chrono::nanoseconds window{20ms}, budget{2ms};

  tally::Decision decide(const tally::Snapshot &now) {
    if (now.now >= windowEnd) {
      windowEnd = now.now + window;
      ranBefore = now.bestEffortRan;
      usedUp = false;
    }
    // Running kernels count in bestEffortRan once they have ended. So the budget may be overrun by
    // the kernels that are already sent: about 250 us of kernels, or one longer kernel.
    if (!usedUp && now.bestEffortRan - ranBefore >= budget) {
      usedUp = true;
      ++windowsUsedUp;
    }
    tally::Decision decision;
    decision.runBestEffort = now.highPriorityActive == 0 && !usedUp;
    return decision;
  }

private:
  std::chrono::nanoseconds windowEnd{0}, ranBefore{0};
  bool usedUp = false;
};

template <class T> T must(tally::Result<T> &&result) {
  if (!result) {
    std::fprintf(stderr, "custom_policy: %s\n", result.error().message.c_str());
    std::exit(1);
  }
  if constexpr (!std::is_void_v<T>)
    return std::move(*result);
}

} // namespace

int main(int count, char **arguments) {
  tally::Options options;
  options.device = count > 1 ? arguments[1] : "emulator";
  options.policy = BudgetPolicy{};
  tally::Runtime runtime = must(tally::Runtime::open(options));
  tally::Module module = must(runtime.load(QUICKSTART_BUNDLE));
  tally::Kernel scaleAdd = must(module.kernel("scale_add"));
  tally::Client trainer = must(runtime.createClient(tally::Class::BestEffort, "trainer"));
  tally::Stream background = must(trainer.createStream());

  constexpr int size = 20'000, rounds = 60;
  const tally::Shape shape((size + 255) / 256, 256);
  std::vector<float> values(size, 1), ones(size, 1);
  auto x = must(runtime.allocate<float>(size));
  auto one = must(runtime.allocate<float>(size));
  must(background.copyToDevice(x, values));
  must(background.copyToDevice(one, ones));
  auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < rounds; ++i)
    must(background.launch(scaleAdd, shape, x.device(), one.device(), 1.0f, size));
  must(background.copyToHost(values, x));
  must(background.synchronize());
  std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;

  bool right = values == std::vector<float>(size, 1 + rounds);
  std::printf("%d launches in %.0f ms; the budget was used up in %d windows; the result is %s\n",
              rounds, took.count(), windowsUsedUp.load(), right ? "right" : "wrong");
  return right ? 0 : 1;
}
