// Marks a thread that is inside a call of the hooks. The driver-level hook ignores driver calls
// that the CUDA runtime makes on such a thread.
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
