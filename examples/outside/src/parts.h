// The parts of the program. Each part computes on the device, compares the result with the CPU's
// and prints one line: its name, the comparison, and a hash of the result's bits.
#ifndef OUTSIDE_PARTS_H
#define OUTSIDE_PARTS_H

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

/// Hash of the device's results, so that the printed lines of two runs can be compared.
inline std::uint64_t hashOf(const void *data, std::size_t size) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (std::size_t i = 0; i < size; ++i)
    hash = (hash ^ static_cast<const unsigned char *>(data)[i]) * 0x100000001b3u;
  return hash;
}

/// Ends the program after a failed call.
inline void check(cudaError_t error, const char *what) {
  if (error == cudaSuccess)
    return;
  std::fprintf(stderr, "outside: %s: %s (%s)\n", what, cudaGetErrorString(error),
               cudaGetErrorName(error));
  std::exit(2);
}
#define CHECK(call) check((call), #call)

/// Prints a part's line. `worst` is the largest difference from the CPU, `allowed` its limit.
inline bool report(const char *part, const std::string &what, double worst, double allowed,
                   std::uint64_t hash) {
  bool right = worst <= allowed; // false for NaN
  std::printf("%s  %-11s %s, largest difference %.1e (allowed %.0e), bits %016llx\n",
              right ? "right" : "WRONG", part, what.c_str(), worst, allowed,
              static_cast<unsigned long long>(hash));
  return right;
}

// `size` is the side of the problem, at least 32.
bool runHeat(int size);       // __constant__ data and cudaMemcpyToSymbol, events
bool runFilters(int size);    // kernels of a shared library, on a stream of the program
bool runStatistics(int size); // managed and __device__ variables, atomics
bool runBodies(int size);     // device functions and variables across units
bool runTwoStreams(int size); // a low-priority stream beside one of high priority
bool runGemm(int size);       // cuBLAS

#endif
