// Marks a thread that is inside of a call of the hooks, so that the driver-level hook leaves alone
// what the CUDA runtime then asks of the driver.
#ifndef TALLY_LIB_HOOKS_IN_HOOK_H
#define TALLY_LIB_HOOKS_IN_HOOK_H

namespace tally::hooks {

class InHook {
public:
  InHook() { ++depth(); }
  ~InHook() { --depth(); }
  InHook(const InHook &) = delete;
  InHook &operator=(const InHook &) = delete;

  static bool any() { return depth() != 0; }

private:
  static int &depth() {
    static thread_local int value = 0;
    return value;
  }
};

} // namespace tally::hooks

#endif
