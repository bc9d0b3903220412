// High-priority work of the process's own beside a program: short requests on a stream of the
// highest priority, from a thread of its own.
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
  /// Begins at once; between two requests it waits up to `most`.
  explicit Requests(std::chrono::microseconds most);
  /// Ends after the request that is under way.
  ~Requests();

  /// Whether each answer so far was right.
  bool allRight() const { return !wrong; }
  /// The latencies since the last call, sorted.
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
