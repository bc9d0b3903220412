// The server: a pool of threads that serves requests arriving as a Poisson process.
#ifndef INFERENCE_SERVER_SERVER_H
#define INFERENCE_SERVER_SERVER_H

#include "encoder.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace inference_server {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

/// One request's intended arrival, counted from the start of the cell, and its input.
struct Arrival {
  Seconds at{0};
  int input = 0;
};

/// Draws exponential gaps with the given mean: open loop, so arrivals do not wait for answers.
std::vector<Arrival> poissonArrivals(int count, Seconds meanGap, int inputs, std::uint64_t seed);

/// One served request, in seconds from the start of the cell.
struct Served {
  int input = 0;
  double intended = 0, begin = 0, end = 0;
  std::vector<float> logits;

  /// Latency from the intended arrival, so time spent waiting for a free worker counts.
  double latency() const { return end - intended; }
};

/// Seconds in which at least one request was being served.
double activeSeconds(std::vector<Served> served);

/// The pool of workers. They keep their encoders and streams from one serve() to the next.
class Server {
public:
  /// `spin`: wait for the last moments before an arrival without sleeping (where cores are free).
  Server(const Session &session, const EncoderShape &shape, std::span<const float> weights,
         int workers, bool spin);

  /// Serves all arrivals in their order, and returns when the last one is answered. `afterRequest`,
  /// if any, runs on the worker's stream outside of the timed part.
  std::vector<Served> serve(std::span<const Arrival> arrivals,
                            std::span<const std::vector<std::int32_t>> inputs,
                            Clock::time_point start,
                            const std::function<void(Stream)> &afterRequest = {});

private:
  struct Worker {
    Stream stream;
    Encoder encoder;
  };
  Served serveOne(Worker &worker, const Arrival &arrival, std::span<const std::int32_t> tokens,
                  Clock::time_point start);
  void waitUntil(Clock::time_point time) const;

  const Session &session;
  EncoderShape shape;
  bool spin;
  Client client; ///< the owner of the workers' streams
  std::vector<Worker> workers;
};

} // namespace inference_server

#endif
