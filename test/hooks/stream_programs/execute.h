// Runs a program by the CUDA runtime that it is linked with.
#ifndef TALLY_TEST_HOOKS_STREAM_PROGRAMS_EXECUTE_H
#define TALLY_TEST_HOOKS_STREAM_PROGRAMS_EXECUTE_H

#include "program.h"

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace tally::programs {

/// Threads that stay from one program to the next, like a server's threads. One thread at a time
/// may use this.
class Workers {
public:
  Workers();
  ~Workers();
  /// Runs `work(0)` to `work(count - 1)`, each by a thread of its own, and returns when all have.
  void run(int count, const std::function<void(int)> &work);

private:
  void loop(int number);

  std::mutex mutex;
  std::condition_variable changed;
  const std::function<void(int)> *current = nullptr;
  int wanted = 0, generation = 0, running = 0;
  bool stopping = false;
  std::vector<std::thread> threads;
};

enum class Priorities : std::uint8_t {
  None,   ///< streams are created without one
  Mixed,  ///< with the priorities of the program
  Lowest, ///< all with the device's lowest
};

struct ExecuteOptions {
  Priorities priorities = Priorities::None;
  bool keepText = false;
};

/// The result of a run: every return code that CUDA's rules determine, the values that the threads
/// read, and all memory at the end.
struct Outcome {
  std::uint64_t hash = 0;
  std::vector<std::string> text; ///< with keepText, one line for each operation and buffer
};

/// Exits the process where the environment of the program fails, which is no result of the program.
Outcome execute(const Program &program, Workers &workers, const ExecuteOptions &options);

} // namespace tally::programs

#endif
