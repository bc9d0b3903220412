// Helpers of the programs here: checks that name their failure, and a verdict at the end.
#ifndef TALLY_TEST_HOOKS_CHECK_H
#define TALLY_TEST_HOOKS_CHECK_H

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

static int failures = 0;

/// Ends the program at a CUDA call that fails.
#define MUST(call)                                                                                 \
  do {                                                                                             \
    cudaError_t mustStatus = (call);                                                               \
    if (mustStatus != cudaSuccess) {                                                               \
      std::printf("FAILED line %d: %s: %s\n", __LINE__, #call, cudaGetErrorName(mustStatus));      \
      std::exit(1);                                                                                \
    }                                                                                              \
  } while (false)

#define EXPECT(condition)                                                                          \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      std::printf("FAILED line %d: %s\n", __LINE__, #condition);                                   \
      ++failures;                                                                                  \
    }                                                                                              \
  } while (false)

/// Checks that a call returns this cudaError_t.
#define EXPECT_STATUS(call, status)                                                                \
  do {                                                                                             \
    cudaError_t got = (call);                                                                      \
    if (got != (status)) {                                                                         \
      std::printf("FAILED line %d: %s gave %s\n", __LINE__, #call, cudaGetErrorName(got));         \
      ++failures;                                                                                  \
    }                                                                                              \
  } while (false)

inline int verdict() {
  std::printf(failures == 0 ? "all right\n" : "%d checks FAILED\n", failures);
  return failures != 0;
}

#endif
