// The end of what threads of the hooks call CUDA for: at the process's end the CUDA runtime may be
// gone, and a stream that is being destroyed must not be asked.
#ifndef TALLY_LIB_HOOKS_STATE_CALL_GATE_H
#define TALLY_LIB_HOOKS_STATE_CALL_GATE_H

#include <atomic>
#include <cstdint>
#include <thread>

namespace tally::hooks {

/// Thread-safe.
class CallGate {
public:
  /// Counts the thread in for as long as it may call the CUDA runtime; false once the gate is shut.
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

  /// Nobody passes any more. Returns when nobody is inside.
  void shut() {
    isShut = true;
    awaitCalls();
  }
  /// Returns when nobody is inside: none is for longer than a call of the CUDA runtime takes.
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
