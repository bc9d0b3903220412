// A gate before the CUDA calls of the hooks' threads. The hooks shut it at the process's end, when
// the CUDA runtime may be gone; a stream that is being destroyed must not be queried either.
#ifndef TALLY_LIB_HOOKS_STATE_CALL_GATE_H
#define TALLY_LIB_HOOKS_STATE_CALL_GATE_H

#include <atomic>
#include <cstdint>
#include <thread>

namespace tally::hooks {

/// Thread-safe.
class CallGate {
public:
  /// Counts the thread as inside for as long as it may call the CUDA runtime; converts to false
  /// once the gate is shut.
  class Passage {
  public:
    explicit Passage(CallGate &gate) : gate(gate) {
      gate.inCalls.fetch_add(1);
      may = !gate.isShut.load();
    }
    ~Passage() { gate.inCalls.fetch_sub(1); }
    Passage(const Passage &) = delete;
    Passage &operator=(const Passage &) = delete;
    explicit operator bool() const { return may; }

  private:
    CallGate &gate;
    bool may = false;
  };

  /// From now on no thread passes. Returns when no thread is inside.
  void shut() {
    isShut = true;
    awaitCalls();
  }
  /// Returns when no thread is inside. A thread is inside for no longer than one call of the CUDA
  /// runtime.
  void awaitCalls() const {
    while (inCalls.load() != 0)
      std::this_thread::yield();
  }

private:
  std::atomic<bool> isShut{false};
  std::atomic<std::uint32_t> inCalls{0};
};

} // namespace tally::hooks

#endif
