// CUDA's compilers at run time, NVRTC (PyTorch's jiterator, CuPy) and nvJitLink (numba, nvmath): of
// machine code that they give out the hooks are told the PTX, of which variants can be made.
#ifndef TALLY_LIB_PRELOAD_COMPILERS_H
#define TALLY_LIB_PRELOAD_COMPILERS_H

namespace tally::preload {

/// Leads the functions of each libnvrtc and libnvJitLink that is loaded by now to the hooks.
/// Thread-safe.
void meetCompilers();
/// The same before the program calls dlopen(name, mode), with what that will load if it is a
/// compiler: its functions may be looked up at once afterwards. A name without a folder is left to
/// the program, whose own folders are searched for it; what it loads is met later.
void meetCompiler(const char *name, int mode);

// What it calls for a library that is new, by a handle of dlopen that stays open. One thread at a
// time.

/// nvrtcGetCUBIN.
void meetNvrtc(void *library);
/// What adds inputs to a link, completes it and ends it, in all versions that the library exports.
void meetJitLink(void *library);

} // namespace tally::preload

#endif
