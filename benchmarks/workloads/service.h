// A model that serves requests in an open loop, and a model that trains from a thread of its own.
#ifndef TALLY_BENCHMARKS_WORKLOADS_SERVICE_H
#define TALLY_BENCHMARKS_WORKLOADS_SERVICE_H

#include "workload.h"

#include <atomic>
#include <thread>

namespace workloads {

using colocation::Clock;
using colocation::Microseconds;
using colocation::RequestLog;

/// A hash of the bits of values: FNV-1a.
class Digest {
public:
  void add(const void *data, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i)
      value = (value ^ static_cast<const unsigned char *>(data)[i]) * 0x100000001b3ull;
  }
  std::uint64_t get() const { return value; }

private:
  std::uint64_t value = 0xcbf29ce484222325ull;
};

/// Serves on one stream. A request copies its answer to the host, and the server compares the bits
/// of each answer with those of the first.
class Server {
public:
  /// `graph`: a request is one graph, which the constructor captures.
  Server(std::unique_ptr<Inference> model, cudaStream_t stream, bool graph);
  ~Server();
  Server(const Server &) = delete;
  Server &operator=(const Server &) = delete;

  /// Requests one behind the other, at least `least` requests and for at least `seconds`; returns
  /// the time of each.
  std::vector<double> serveClosedLoop(std::size_t least, double seconds);
  /// As serveOpenLoop(); `flush`: the server overwrites the L2 behind each request, unless the next
  /// one waits.
  RequestLog serve(const std::vector<double> &arrivals, double limit, bool flush);
  /// A request's kernels and copies.
  std::size_t nodes() const { return nodeCount; }
  /// Number of answers so far that differ from the first answer.
  std::size_t wrongAnswers() const { return wrong; }
  std::uint64_t digest() const { return first; }
  Checked checkModel();

private:
  void enqueue();
  void compare();
  cudaGraph_t capture();

  std::unique_ptr<Inference> model;
  cudaStream_t stream;
  cudaGraphExec_t graph = nullptr;
  float *answer = nullptr; // pinned
  void *flushed = nullptr;
  std::size_t nodeCount = 0, wrong = 0;
  std::uint64_t first = 0;
};

/// Trains on one stream. A step ends with its figure on the host, as in a program that reads its
/// loss.
class Trainer {
public:
  Trainer(std::unique_ptr<Training> model, cudaStream_t stream);
  ~Trainer();
  Trainer(const Trainer &) = delete;
  Trainer &operator=(const Trainer &) = delete;

  /// Starts from the beginning; returns when the first step is done.
  void start();
  void stop();
  /// Steps done since start().
  std::size_t steps() const { return ends.size(); }
  /// Steps that the instants cut count in proportion to the time. Call it after stop() has
  /// returned.
  double stepsPerSecond(Clock::time_point begin, Clock::time_point end) const;
  /// The figures of the steps since start(), in order.
  const std::vector<float> &figures() const { return found; }
  Checked checkModel() { return model->check(stream); }

private:
  void step();
  double progress(Clock::time_point at) const;

  std::unique_ptr<Training> model;
  cudaStream_t stream;
  float *figure = nullptr; // pinned
  std::atomic<bool> stopping{false};
  std::atomic<std::size_t> done{0};
  std::vector<Clock::time_point> ends;
  std::vector<float> found;
  std::thread thread;
};

} // namespace workloads

#endif
