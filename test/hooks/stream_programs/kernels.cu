#include "kernels.h"

#include "program.h"

#include <cooperative_groups.h>

#include <cstring>

namespace tally::programs {

namespace {

using Word = std::uint32_t;

__device__ Word indexOfThread() { return blockIdx.x * blockDim.x + threadIdx.x; }
__device__ Word turned(Word word, int by) { return word << by | word >> (32 - by); }

__global__ void mix(Word *to, Word words, Word value, Word rounds) {
  for (Word i = indexOfThread(); i < words; i += gridDim.x * blockDim.x) {
    Word word = to[i];
    for (Word r = 0; r < rounds; ++r)
      word = word * 1664525u + value + i;
    to[i] = word;
  }
}

__global__ void combine(Word *to, const Word *from, Word words, Word value, Word rounds) {
  for (Word i = indexOfThread(); i < words; i += gridDim.x * blockDim.x) {
    Word word = to[i];
    for (Word r = 0; r < rounds; ++r)
      word = turned(word, 7) * (value | 1) + from[(i + r * 37 + words / 2) % words];
    to[i] = word;
  }
}

struct Weights {
  Word first;
  unsigned char small;
  unsigned long long second;
};

__global__ void combine3(Weights weights, Word *to, const Word *from, const Word *also,
                         Word words) {
  Word i = indexOfThread();
  if (i >= words)
    return;
  to[i] = (to[i] ^ from[words - 1 - i]) * (weights.first | 1) +
          also[(i * 5) % words] * static_cast<Word>(weights.second) + weights.small;
}

__global__ void reverse(Word *to, Word words, Word value) {
  extern __shared__ Word tile[];
  Word first = blockIdx.x * blockDim.x;
  if (first + blockDim.x > words)
    return;
  tile[threadIdx.x] = to[first + threadIdx.x] * 3 + value;
  __syncthreads();
  Word other = tile[blockDim.x - 1 - threadIdx.x];
  __syncthreads();
  tile[threadIdx.x] = other + threadIdx.x;
  __syncthreads();
  to[first + threadIdx.x] = tile[(threadIdx.x + 1) % blockDim.x] ^ other;
}

__global__ void count(Word *to, const Word *from, Word words, Word value) {
  for (Word i = indexOfThread(); i < words; i += gridDim.x * blockDim.x)
    atomicAdd(&to[from[i] % (words / 4)], value + i);
}

__global__ void tiles(Word *to, const Word *from, Word words, Word value) {
  Word row = blockIdx.y * blockDim.y + threadIdx.y, column = indexOfThread();
  Word i = row * gridDim.x * blockDim.x + column;
  if (i < words)
    to[i] = turned(to[i], 3) + from[(i ^ 16) % words] * (value + gridDim.y * row + column);
}

/// Four blocks that run on the device at the same time.
__global__ void meet(Word *to, Word words, Word value, Word *meeting) {
  for (Word i = indexOfThread(); i < words; i += gridDim.x * blockDim.x)
    to[i] = to[i] * 5 + value;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    Word goal = (atomicAdd(meeting, 1) / gridDim.x + 1) * gridDim.x;
    while (*static_cast<volatile Word *>(meeting) < goal)
      ;
  }
  __syncthreads();
  __threadfence();
  for (Word i = indexOfThread(); i < words / 2; i += gridDim.x * blockDim.x)
    to[i] += static_cast<volatile Word *>(to)[words - 1 - i] * 9;
}

__global__ void __cluster_dims__(2, 1, 1) cluster(Word *to, Word words, Word value) {
  __shared__ Word given[64];
  Word i = indexOfThread();
  Word own = i < words ? to[i] : 0;
  given[threadIdx.x] = own + value;
  auto pair = cooperative_groups::this_cluster();
  pair.sync();
  Word other = pair.map_shared_rank(given, pair.block_rank() ^ 1)[threadIdx.x];
  pair.sync();
  if (i < words)
    to[i] = own * 11 + other;
}

/// Puts the arguments into the call, one after another.
class Arguments {
public:
  explicit Arguments(PackedCall &packed) : packed(packed) {}
  template <class Value> Arguments &operator<<(const Value &value) {
    static_assert(sizeof value <= sizeof packed.storage[0].bytes);
    std::memcpy(packed.storage[used].bytes, &value, sizeof value);
    packed.arguments[used] = packed.storage[used].bytes;
    ++used;
    return *this;
  }

private:
  PackedCall &packed;
  int used = 0;
};

template <class... Parameters> const void *addressOf(void (*function)(Parameters...)) {
  return reinterpret_cast<const void *>(function);
}

} // namespace

int sourcesOf(KernelId kernel) {
  switch (kernel) {
  case KernelId::Combine:
  case KernelId::Count:
  case KernelId::Tiles:
    return 1;
  case KernelId::Combine3:
    return 2;
  default:
    return 0;
  }
}

void pack(const KernelCall &call, PackedCall &packed) {
  packed.block = dim3(call.value % 3 == 0 ? 64 : 32);
  unsigned blocks = (call.words + packed.block.x - 1) / packed.block.x;
  packed.grid = dim3(blocks);
  Arguments arguments(packed);
  switch (call.kernel) {
  case KernelId::Mix:
    packed.function = addressOf(mix);
    arguments << call.to << call.words << call.value << call.rounds;
    break;
  case KernelId::Combine:
    packed.function = addressOf(combine);
    // Some launches have fewer threads than words.
    packed.grid = dim3(call.value % 2 == 0 ? blocks : (blocks + 2) / 3);
    arguments << call.to << call.from << call.words << call.value << call.rounds;
    break;
  case KernelId::Combine3:
    packed.function = addressOf(combine3);
    arguments << Weights{call.value, static_cast<unsigned char>(call.value), call.value * 3ull}
              << call.to << call.from << call.also << call.words;
    break;
  case KernelId::Reverse:
    packed.function = addressOf(reverse);
    packed.grid = dim3(blocks + 2);
    packed.sharedBytes = packed.block.x * sizeof(Word) + call.value % 5 * 1024;
    arguments << call.to << call.words << call.value;
    break;
  case KernelId::Count:
    packed.function = addressOf(count);
    arguments << call.to << call.from << call.words << call.value;
    break;
  case KernelId::Tiles:
    packed.function = addressOf(tiles);
    packed.block = dim3(16, 2);
    packed.grid = dim3(4, (call.words + 127) / 128);
    arguments << call.to << call.from << call.words << call.value;
    break;
  case KernelId::Meet:
    packed.function = addressOf(meet);
    packed.grid = dim3(4);
    packed.cooperative = true;
    arguments << call.to << call.words << call.value << call.meeting;
    break;
  case KernelId::Bare:
    packed.function = bareFunction();
    arguments << call.to << call.words << call.value;
    break;
  case KernelId::Cluster:
    packed.function = addressOf(cluster);
    packed.grid = dim3(blocks + blocks % 2);
    arguments << call.to << call.words << call.value;
    break;
  case KernelId::Table:
    packed.function = tableFunction();
    packed.grid = dim3(symbolWords / packed.block.x);
    arguments << call.value << call.rounds;
    break;
  }
}

} // namespace tally::programs
