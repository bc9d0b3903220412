// Threads whose first exception reaches the caller of join().
#ifndef INFERENCE_SERVER_THREAD_GROUP_H
#define INFERENCE_SERVER_THREAD_GROUP_H

#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace inference_server {

class ThreadGroup {
public:
  ThreadGroup() = default;
  ThreadGroup(const ThreadGroup &) = delete;
  ThreadGroup &operator=(const ThreadGroup &) = delete;
  ~ThreadGroup() { wait(); }

  template <class Body> void run(Body body) {
    threads.emplace_back([this, body = std::move(body)] {
      try {
        body();
      } catch (...) {
        std::lock_guard lock(mutex);
        if (!failure)
          failure = std::current_exception();
      }
    });
  }

  /// Waits for all threads; throws the first exception of any of them.
  void join() {
    wait();
    if (failure)
      std::rethrow_exception(failure);
  }

private:
  void wait() {
    for (std::thread &thread : threads)
      thread.join();
    threads.clear();
  }

  std::mutex mutex;
  std::exception_ptr failure;
  std::vector<std::thread> threads;
};

} // namespace inference_server

#endif
