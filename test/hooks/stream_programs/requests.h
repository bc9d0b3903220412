// The process's own high-priority work beside a program: short requests on a stream of the highest
// priority, from a separate thread.
#ifndef TALLY_TEST_HOOKS_STREAM_PROGRAMS_REQUESTS_H
#define TALLY_TEST_HOOKS_STREAM_PROGRAMS_REQUESTS_H

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace tally::programs {

class Requests {
public:
  /// Starts at once; waits up to `most` between two requests.
  explicit Requests(std::chrono::microseconds most);
  /// Stops after the request in progress.
  ~Requests();

  /// Returns whether every answer so far was right.
  bool allRight() const { return !wrong; }
  /// Returns the latencies since the last call, sorted.
  std::vector<std::chrono::nanoseconds> takeLatencies();

private:
  void loop();
  void serve(std::uint32_t *words, std::uint32_t *answer, void *stream, std::uint32_t value);

  std::chrono::microseconds most;
  std::atomic<bool> stopping{false}, wrong{false};
  std::mutex mutex;
  std::vector<std::chrono::nanoseconds> latencies;
  std::thread thread;
};

} // namespace tally::programs

#endif
