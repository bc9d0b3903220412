// A kernel in an object that tally-ptxopt does not rewrite.
#include "kernels.h"

namespace {

__global__ void bare(std::uint32_t *to, std::uint32_t words, std::uint32_t value) {
  for (std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < words;
       i += gridDim.x * blockDim.x)
    to[i] = to[i] * 747796405u + (value ^ i);
}

} // namespace

const void *tally::programs::bareFunction() { return reinterpret_cast<const void *>(&bare); }
