// The server of server.cpp, with a best-effort job beside it: the last program of
// docs/guide/embed.md. It marks the begin and the end of its requests; a trainer uses the GPU
// between them, when the program's own policy permits it.
//
//   shared_server BUNDLE           on the emulator
//   shared_server BUNDLE cuda      on the first GPU
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
    std::fprintf(stderr, "shared_server: %s\n", result.error().message.c_str());
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

/// Strict priority; where requests take longer than `slow`, best-effort work also waits until none
/// has been open for `rest`.
struct CautiousPolicy {
  static constexpr bool limitsSms = false; // it never sets Decision::sms
  std::chrono::nanoseconds slow{20ms}, rest{1ms};

  constexpr tally::Decision decide(const tally::Snapshot &now) const {
    tally::PriorityPolicy strict;
    strict.hysteresis = now.busyHigh > slow ? rest : 0ns;
    return strict.decide(now);
  }
};

constexpr bool runsAfter(std::chrono::nanoseconds idle, std::chrono::nanoseconds busyHigh) {
  tally::Snapshot now;
  now.sinceHighPriorityEnded = idle;
  now.busyHigh = busyHigh;
  return CautiousPolicy{}.decide(now).runBestEffort;
}
static_assert(runsAfter(0ns, 5ms) && !runsAfter(0ns, 30ms) && runsAfter(1ms, 30ms));

/// A stream and the model's memory, for one thread.
class Worker {
public:
  Worker(tally::Runtime &runtime, tally::Client &server, Layer layer)
      : server(server), layer(layer), stream(must(server.createStream())),
        x(must(runtime.allocate<float>(size))), ones(must(runtime.allocate<float>(size))) {
    std::vector<float> values(size, 1);
    must(stream.copyToDevice(ones, values));
    must(stream.synchronize());
  }

  /// The model: four times x = 2 x + 1.
  float answer(float question) {
    tally::ClientRequest request = must(server.beginRequest());
    std::vector<float> values(size, question);
    must(stream.copyToDevice(x, values));
    for (int i = 0; i < layers; ++i)
      must(stream.launch(layer, shape, x.device(), ones.device(), 2.0f, size));
    must(stream.copyToHost(values, x));
    must(stream.synchronize());
    return values.back();
  }

private:
  tally::Client &server;
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

/// A best-effort job: steps of eight launches, x = x + 1 each.
class Trainer {
public:
  Trainer(tally::Runtime &runtime, Layer layer)
      : layer(layer), client(must(runtime.createClient(tally::Class::BestEffort, "trainer"))),
        stream(must(client.createStream())), x(must(runtime.allocate<float>(size))),
        ones(must(runtime.allocate<float>(size))) {
    std::vector<float> values(size, 1);
    must(stream.fill(x, 0));
    must(stream.copyToDevice(ones, values));
    must(stream.synchronize());
  }

  void train(const std::atomic<bool> &isOver) {
    do {
      for (int i = 0; i < 8; ++i)
        must(stream.launch(layer, shape, x.device(), ones.device(), 1.0f, size));
      must(stream.synchronize());
      ++steps;
    } while (!isOver);
  }

  bool report() {
    std::vector<float> values(size);
    must(stream.copyToHost(values, x));
    must(stream.synchronize());
    bool right = values == std::vector<float>(size, static_cast<float>(8 * steps));
    std::printf("%d steps of training; the result is %s\n", steps, right ? "right" : "wrong");
    return right;
  }

private:
  Layer layer;
  tally::Client client;
  tally::Stream stream;
  tally::Buffer<float> x, ones;
  int steps = 0;
};

} // namespace

int main(int count, char **arguments) {
  if (count < 2)
    return 2;
  tally::Options options;
  options.device = count > 2 ? arguments[2] : "emulator";
  options.policy = CautiousPolicy{};
  tally::Runtime runtime = must(tally::Runtime::open(options));
  tally::Module module = must(runtime.load(arguments[1]));
  auto layer = must(module.function<Floats, Floats, float, int>("scale_add"));
  tally::Client server = must(runtime.createClient(tally::Class::High, "server"));

  std::atomic<bool> isOver{false};
  Trainer trainer(runtime, layer);
  std::thread training([&] { trainer.train(isOver); });

  std::vector<Worker> pool;
  for (int i = 0; i < workers; ++i)
    pool.emplace_back(runtime, server, layer);
  Load load;
  std::vector<std::thread> threads;
  for (Worker &worker : pool)
    threads.emplace_back([&load, &worker] { load.serve(worker); });
  for (std::thread &each : threads)
    each.join();
  isOver = true;
  training.join();

  bool isRight = load.report();
  isRight = trainer.report() && isRight;
  return isRight ? 0 : 1;
}
