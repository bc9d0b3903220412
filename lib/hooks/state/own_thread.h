// The start of every thread that the hooks make.
#ifndef TALLY_LIB_HOOKS_STATE_OWN_THREAD_H
#define TALLY_LIB_HOOKS_STATE_OWN_THREAD_H

#include "state/in_hook.h"
#include "tables/cuda_api.h"

#include <csignal>

namespace tally::hooks {

/// Sets up the calling thread for its whole life: its calls count as the hooks' own, a capture by
/// another thread does not forbid them, signals are handled on the program's threads, and the
/// device is `number`.
inline void beOnOwnThread(const CudaApi &api, int number) {
  static thread_local InHook inside;
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  cudaStreamCaptureMode relaxed = cudaStreamCaptureModeRelaxed;
  api.cudaThreadExchangeStreamCaptureMode(&relaxed);
  api.cudaSetDevice(number);
}

} // namespace tally::hooks

#endif
