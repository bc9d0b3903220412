// Included first by the headers of the C++ API: what is wrong with an older dialect, in one line.
//
// Nothing that Tally exports to build systems asks for C++20, since that would change the dialect
// in which a program that only opted in is compiled.
#ifndef TALLY_SUPPORT_DIALECT_H
#define TALLY_SUPPORT_DIALECT_H

#if __cplusplus < 202002L
#error                                                                                             \
    "Tally's C++ API needs C++20 (-std=c++20; CMake: target_compile_features(<target> PRIVATE cxx_std_20)). tally/runtime/hooks.h and the C API, tally/runtime/tally.h, are for any dialect."
#endif

#endif
