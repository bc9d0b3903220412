// The kernel of the `__device__` variable, in a separate object: under `tally run`, code with
// variables has no variants.
#include "kernels.h"

#include "program.h"

namespace tally::programs {

namespace {

__device__ std::uint32_t table[symbolWords];

__global__ void changeTable(std::uint32_t value, std::uint32_t rounds) {
  for (std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < symbolWords;
       i += gridDim.x * blockDim.x)
    for (std::uint32_t r = 0; r < rounds; ++r)
      table[i] = table[i] * 22695477u + value + i;
}

} // namespace

const void *tableSymbol() { return table; }
const void *tableFunction() { return reinterpret_cast<const void *>(&changeTable); }

} // namespace tally::programs
