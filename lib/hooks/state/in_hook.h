// Marks a thread that is inside of a call of the hooks, so that the driver-level hook leaves alone
// what the CUDA runtime then asks of the driver.
#ifndef TALLY_LIB_HOOKS_STATE_IN_HOOK_H
#define TALLY_LIB_HOOKS_STATE_IN_HOOK_H

#include "state/thread_state.h"

namespace tally::hooks {

class InHook {
public:
  InHook() { ++threadState.hooksEntered; }
  ~InHook() { --threadState.hooksEntered; }
  InHook(const InHook &) = delete;
  InHook &operator=(const InHook &) = delete;

  static bool any() { return threadState.hooksEntered != 0; }
};

} // namespace tally::hooks

#endif
