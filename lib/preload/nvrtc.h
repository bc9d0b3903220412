// NVRTC, CUDA's compiler at run time (PyTorch's jiterator, CuPy): of machine code that it gives out
// it has the PTX as well, of which variants can be made.
#ifndef TALLY_LIB_PRELOAD_NVRTC_H
#define TALLY_LIB_PRELOAD_NVRTC_H

namespace tally::preload {

/// Leads nvrtcGetCUBIN to the hooks, in each libnvrtc that is loaded by now. Thread-safe.
void meetNvrtc();

} // namespace tally::preload

#endif
