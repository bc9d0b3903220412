// The least that a program does to share a device with Tally: open it, load a bundle, put the
// best-effort work of one client on a stream and a high-priority request of another on another.
//
//   quickstart             on the emulator
//   quickstart cuda        on the first GPU
#include "tally/runtime/runtime.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

using namespace tally::runtime;

namespace {

template <class T> T must(tally::Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "quickstart: %s\n", result.error().message.c_str());
    std::exit(1);
  }
  return std::move(*result);
}
void must(const tally::Result<void> &result) {
  if (!result) {
    std::fprintf(stderr, "quickstart: %s\n", result.error().message.c_str());
    std::exit(1);
  }
}

} // namespace

int main(int count, char **arguments) {
  auto runtime = must(Runtime::open({.device = count > 1 ? arguments[1] : "emulator"}));
  Kernel scaleAdd = must(runtime->kernel(must(runtime->load(QUICKSTART_BUNDLE)), "scale_add"));
  Client trainer = must(runtime->createClient(Class::BestEffort, "trainer"));
  Client server = must(runtime->createClient(Class::High, "server"));
  Stream background = must(runtime->createStream(trainer));
  Stream requests = must(runtime->createStream(server));

  constexpr int size = 100'000, rounds = 20;
  const tally::LaunchShape shape{{(size + 255) / 256}, {256}};
  std::vector<float> batch(size, 1), answer(size, 2), ones(size, 1);
  DevicePtr x = must(runtime->allocate(size * sizeof(float)));
  DevicePtr y = must(runtime->allocate(size * sizeof(float)));
  DevicePtr one = must(runtime->allocate(size * sizeof(float)));
  must(runtime->copyToDevice(background, x, std::as_bytes(std::span(batch))));
  must(runtime->copyToDevice(background, one, std::as_bytes(std::span(ones))));
  must(runtime->copyToDevice(requests, y, std::as_bytes(std::span(answer))));
  must(runtime->synchronize(background));
  must(runtime->synchronize(requests));

  // Best effort: 20 launches that depend on one another, x = x + 1.
  for (int i = 0; i < rounds; ++i)
    must(runtime->launch(background, scaleAdd, shape, Arguments(x, one, 1.0f, size)));

  // A little later comes a request, y = 3 y + 1: what of the best-effort work is running makes way
  // for it.
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  must(runtime->beginRequest(server));
  must(runtime->launch(requests, scaleAdd, shape, Arguments(y, one, 3.0f, size)));
  must(runtime->copyToHost(requests, std::as_writable_bytes(std::span(answer)), y));
  must(runtime->synchronize(requests));
  must(runtime->endRequest(server));

  must(runtime->copyToHost(background, std::as_writable_bytes(std::span(batch)), x));
  must(runtime->synchronize(background));
  Statistics seen = runtime->statistics();
  std::printf(
      "request: %g (7 expected); best effort: %g (%d expected), %llu of its launches yielded\n",
      answer.back(), batch.back(), 1 + rounds, (unsigned long long)seen.yields);
  return answer == std::vector<float>(size, 7) && batch == std::vector<float>(size, 1 + rounds) ? 0
                                                                                                : 1;
}
