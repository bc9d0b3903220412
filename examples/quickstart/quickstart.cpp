// The smallest program that shares a device by Tally: it opens the device, loads a bundle, puts
// best-effort work of one client on a stream, and a high-priority request of another client on
// another stream.
//
//   quickstart             on the emulator
//   quickstart cuda        on the first GPU
#include "tally/tally.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

template <class T> T must(tally::Result<T> &&result) {
  if (!result) {
    std::fprintf(stderr, "quickstart: %s\n", result.error().message.c_str());
    std::exit(1);
  }
  if constexpr (!std::is_void_v<T>)
    return std::move(*result);
}

using Floats = tally::DevicePointer<float>;

} // namespace

int main(int count, char **arguments) {
  tally::Options options;
  options.device = count > 1 ? arguments[1] : "emulator";
  tally::Runtime runtime = must(tally::Runtime::open(options));
  tally::Module module = must(runtime.load(QUICKSTART_BUNDLE));
  auto scaleAdd = must(module.function<Floats, Floats, float, int>("scale_add"));
  tally::Client trainer = must(runtime.createClient(tally::Class::BestEffort, "trainer"));
  tally::Client server = must(runtime.createClient(tally::Class::High, "server"));
  tally::Stream background = must(trainer.createStream());
  tally::Stream requests = must(server.createStream());

  constexpr int size = 100'000, rounds = 20;
  const tally::Shape shape((size + 255) / 256, 256);
  std::vector<float> batch(size, 1), answer(size, 2), ones(size, 1);
  auto x = must(runtime.allocate<float>(size));
  auto y = must(runtime.allocate<float>(size));
  auto one = must(runtime.allocate<float>(size));
  must(background.copyToDevice(x, batch));
  must(background.copyToDevice(one, ones));
  must(requests.copyToDevice(y, answer));
  must(background.synchronize());
  must(requests.synchronize());

  // Best effort: 20 launches that depend on one another, x = x + 1.
  for (int i = 0; i < rounds; ++i)
    must(background.launch(scaleAdd, shape, x.device(), one.device(), 1.0f, size));

  // A little later a request comes, y = 3 y + 1: the running best-effort work makes way for it.
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  {
    tally::ClientRequest request = must(server.beginRequest());
    must(requests.launch(scaleAdd, shape, y.device(), one.device(), 3.0f, size));
    must(requests.copyToHost(answer, y));
    must(requests.synchronize());
  }

  must(background.copyToHost(batch, x));
  must(background.synchronize());
  tally_statistics seen = runtime.statistics();
  std::printf(
      "request: %g (7 expected); best effort: %g (%d expected), %llu of its launches yielded\n",
      answer.back(), batch.back(), 1 + rounds, (unsigned long long)seen.yields);
  return answer == std::vector<float>(size, 7) && batch == std::vector<float>(size, 1 + rounds) ? 0
                                                                                                : 1;
}
