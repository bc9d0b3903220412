// A server that loads its kernels itself: the first program of docs/guide/embed.md. Two workers
// answer requests of a model with four layers.
//
//   server BUNDLE           on the emulator
//   server BUNDLE cuda      on the first GPU
#include "tally/tally.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

using namespace std::chrono_literals;

namespace {

template <class T> T must(tally::Result<T> &&result) {
  if (!result) {
    std::fprintf(stderr, "server: %s\n", result.error().message.c_str());
    std::exit(1);
  }
  if constexpr (!std::is_void_v<T>)
    return std::move(*result);
}

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::duration<double, std::milli>;
using Floats = tally::DevicePointer<float>;
using Layer = tally::Function<Floats, Floats, float, int>; // x = a x + y for `int` floats

constexpr int size = 20'000, layers = 4, workers = 2, requests = 40;
constexpr Clock::duration interval = 5ms; // between two requests
const tally::Shape shape((size + 255) / 256, 256);

/// A stream and the model's memory, for one thread.
class Worker {
public:
  Worker(tally::Runtime &runtime, tally::Client &server, Layer layer)
      : layer(layer), stream(must(server.createStream())), x(must(runtime.allocate<float>(size))),
        ones(must(runtime.allocate<float>(size))) {
    std::vector<float> values(size, 1);
    must(stream.copyToDevice(ones, values));
    must(stream.synchronize());
  }

  /// The model: four times x = 2 x + 1.
  float answer(float question) {
    std::vector<float> values(size, question);
    must(stream.copyToDevice(x, values));
    for (int i = 0; i < layers; ++i)
      must(stream.launch(layer, shape, x.device(), ones.device(), 2.0f, size));
    must(stream.copyToHost(values, x));
    must(stream.synchronize());
    return values.back();
  }

private:
  Layer layer;
  tally::Stream stream;
  tally::Buffer<float> x, ones;
};

/// Queue of requests that arrive one after another; any free worker takes the next one.
class Load {
public:
  void serve(Worker &worker) {
    for (int i = next++; i < requests; i = next++) {
      Clock::time_point arrival = begin + i * interval;
      std::this_thread::sleep_until(arrival);
      auto question = static_cast<float>(i % 10);
      if (worker.answer(question) != 16 * question + 15)
        ++wrong;
      took[i] = Clock::now() - arrival;
    }
  }

  bool report() {
    std::sort(took.begin(), took.end());
    std::printf("%d requests: half within %.1f ms, all within %.1f ms; %d answers are wrong\n",
                requests, took[requests / 2].count(), took.back().count(), wrong.load());
    return wrong == 0;
  }

private:
  const Clock::time_point begin = Clock::now();
  std::atomic<int> next{0}, wrong{0};
  std::vector<Milliseconds> took = std::vector<Milliseconds>(requests);
};

} // namespace

int main(int count, char **arguments) {
  if (count < 2)
    return 2;
  tally::Options options;
  options.device = count > 2 ? arguments[2] : "emulator";
  tally::Runtime runtime = must(tally::Runtime::open(options));
  tally::Module module = must(runtime.load(arguments[1]));
  auto layer = must(module.function<Floats, Floats, float, int>("scale_add"));
  tally::Client server = must(runtime.createClient(tally::Class::High, "server"));

  std::vector<Worker> pool;
  for (int i = 0; i < workers; ++i)
    pool.emplace_back(runtime, server, layer);
  Load load;
  std::vector<std::thread> threads;
  for (Worker &worker : pool)
    threads.emplace_back([&load, &worker] { load.serve(worker); });
  for (std::thread &each : threads)
    each.join();
  return load.report() ? 0 : 1;
}
