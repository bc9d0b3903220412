// The hooks' own copy and fill within the memory of one device (own_kernels.h). Each block moves a
// piece of a fixed size and waits for no other block, so that a launch may stop between any two
// blocks.
//
// A range is `head` bytes, units, and a tail. `head` is the number of bytes up to the first address
// of `to` that is a multiple of the unit; the address of `from` is a multiple there, too. Block 0
// moves both ends.
#include "copy_shape.h"

using tally::hooks::copyBlockBytes;
using tally::hooks::copyThreads;

namespace {

/// The block's part of `bytes`, which are whole units: its begin, and its number of units.
struct Part {
  unsigned long long begin;
  unsigned count;
};
template <class Unit> __device__ __forceinline__ Part partOf(unsigned long long bytes) {
  unsigned long long begin = blockIdx.x * static_cast<unsigned long long>(copyBlockBytes);
  unsigned long long left = bytes > begin ? bytes - begin : 0;
  unsigned count = (left < copyBlockBytes ? left : copyBlockBytes) / sizeof(Unit);
  return {begin, count};
}

/// Each thread has `inFlight` loads under way before its first store: the compiler cannot know that
/// the two ranges are apart.
template <class Unit, unsigned inFlight>
__device__ __forceinline__ void copyPart(char *to, const char *from, unsigned long long bytes) {
  Part part = partOf<Unit>(bytes);
  Unit *target = reinterpret_cast<Unit *>(to + part.begin);
  const Unit *source = reinterpret_cast<const Unit *>(from + part.begin);
#pragma unroll 1
  for (unsigned first = threadIdx.x; first < part.count; first += copyThreads * inFlight) {
    Unit units[inFlight];
#pragma unroll
    for (unsigned i = 0; i < inFlight; ++i)
      if (first + i * copyThreads < part.count)
        units[i] = source[first + i * copyThreads];
#pragma unroll
    for (unsigned i = 0; i < inFlight; ++i)
      if (first + i * copyThreads < part.count)
        target[first + i * copyThreads] = units[i];
  }
}

} // namespace

/// `unit`: 16, 4 or 1.
extern "C" __global__ void __launch_bounds__(copyThreads)
    tally_copy(char *to, const char *from, unsigned long long bytes, unsigned head, unsigned unit) {
  unsigned long long body = (bytes - head) & ~static_cast<unsigned long long>(unit - 1);
  if (unit == 16)
    copyPart<uint4, 4>(to + head, from + head, body);
  else if (unit == 4)
    copyPart<unsigned, 8>(to + head, from + head, body);
  else
    copyPart<unsigned char, 8>(to, from, body);
  unsigned long long tail = head + body;
  if (blockIdx.x == 0 && threadIdx.x < head)
    to[threadIdx.x] = from[threadIdx.x];
  if (blockIdx.x == 0 && threadIdx.x < bytes - tail)
    to[tail + threadIdx.x] = from[tail + threadIdx.x];
}

/// Fills in units of 16 bytes. `value`: the byte in each of the unit's four words.
extern "C" __global__ void __launch_bounds__(copyThreads)
    tally_fill(char *to, unsigned long long bytes, unsigned head, unsigned value) {
  unsigned long long body = (bytes - head) & ~15ull;
  Part part = partOf<uint4>(body);
  uint4 *target = reinterpret_cast<uint4 *>(to + head + part.begin);
#pragma unroll 4
  for (unsigned i = threadIdx.x; i < part.count; i += copyThreads)
    target[i] = make_uint4(value, value, value, value);
  unsigned long long tail = head + body;
  if (blockIdx.x == 0 && threadIdx.x < head)
    to[threadIdx.x] = static_cast<char>(value);
  if (blockIdx.x == 0 && threadIdx.x < bytes - tail)
    to[tail + threadIdx.x] = static_cast<char>(value);
}
