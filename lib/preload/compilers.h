// CUDA's compilers at run time, NVRTC (PyTorch's jiterator, CuPy) and nvJitLink (numba, nvmath).
// When they return machine code, the hooks get its PTX, of which variants can be made.
#ifndef TALLY_LIB_PRELOAD_COMPILERS_H
#define TALLY_LIB_PRELOAD_COMPILERS_H

namespace tally::preload {

/// Redirects the functions of each loaded libnvrtc and libnvJitLink to the hooks. Thread-safe.
void meetCompilers();
/// Does the same before the program calls dlopen(name, mode), and includes the library that the
/// call will load if it is a compiler: the program may look up its functions right afterwards. A
/// name without a folder is left to the program, whose own folders are searched for it; the library
/// is met later.
void meetCompiler(const char *name, int mode);

// meetCompilers() calls these for a new library, with a handle of dlopen that stays open. One
// thread at a time.

/// Leads nvrtcGetCUBIN to the hooks.
void meetNvrtc(void *library);
/// Redirects the functions that add inputs to a link, complete it and end it, in all versions that
/// the library exports.
void meetJitLink(void *library);

} // namespace tally::preload

#endif
