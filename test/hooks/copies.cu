// Copies and fills within the device's memory, of all sizes and alignments, between kernels that
// change the copied and the filled memory: each copy and fill has its place in the stream. The
// program compares the result with the same operations on the host. It does not mention Tally.
//
//   copies [ROUNDS [MEBIBYTES]]      MEBIBYTES: the size of one more fill and copy
#include "check.h"

#include <cstdint>
#include <cstring>
#include <vector>

namespace {

constexpr std::size_t room = (std::size_t{3} << 20) + 4096;

/// A change of the bytes commutes neither with a copy nor with another change.
__global__ void stir(unsigned char *bytes, std::size_t count, unsigned value) {
  for (std::size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count;
       i += gridDim.x * blockDim.x)
    bytes[i] = static_cast<unsigned char>(bytes[i] * 5 + value + i);
}

void stirOnHost(unsigned char *bytes, std::size_t count, unsigned value) {
  for (std::size_t i = 0; i < count; ++i)
    bytes[i] = static_cast<unsigned char>(bytes[i] * 5 + value + i);
}

struct Buffers {
  cudaStream_t stream = nullptr;
  unsigned char *from = nullptr, *to = nullptr;
  std::vector<unsigned char> hostFrom, hostTo;
  unsigned step = 1;

  void stirAll(std::size_t count) {
    std::size_t bytes = count < 8192 ? 8192 : count;
    stir<<<16, 64, 0, stream>>>(from, bytes, step);
    stir<<<16, 64, 0, stream>>>(to, bytes, step + 1);
    MUST(cudaGetLastError());
    stirOnHost(hostFrom.data(), bytes, step);
    stirOnHost(hostTo.data(), bytes, step + 1);
    step += 2;
  }
  void copy(std::size_t toOffset, std::size_t fromOffset, std::size_t count, cudaMemcpyKind kind) {
    MUST(cudaMemcpyAsync(to + toOffset, from + fromOffset, count, kind, stream));
    std::memcpy(hostTo.data() + toOffset, hostFrom.data() + fromOffset, count);
  }
  /// CUDA does not define the result of overlapping ranges; the emulator copies as memmove() does.
  void copyWithin(std::size_t toOffset, std::size_t fromOffset, std::size_t count) {
    MUST(cudaMemcpyAsync(to + toOffset, to + fromOffset, count, cudaMemcpyDeviceToDevice, stream));
    std::memmove(hostTo.data() + toOffset, hostTo.data() + fromOffset, count);
  }
  void fill(std::size_t offset, int value, std::size_t count) {
    MUST(cudaMemsetAsync(from + offset, value, count, stream));
    std::memset(hostFrom.data() + offset, value, count);
  }
  /// On the default stream, where fills of and copies within the device's memory do not wait for
  /// it.
  void onDefaultStream(std::size_t offset) {
    MUST(cudaMemset(from + offset, 9, room / 2));
    stir<<<16, 64>>>(from, 8192, step);
    MUST(cudaMemcpy(to, from + offset, room / 2, cudaMemcpyDeviceToDevice));
    stir<<<16, 64>>>(to, 8192, step + 1);
    MUST(cudaMemcpy(to + room / 2 + offset, from, 8192, cudaMemcpyDefault));
    MUST(cudaGetLastError());
    std::memset(hostFrom.data() + offset, 9, room / 2);
    stirOnHost(hostFrom.data(), 8192, step);
    std::memcpy(hostTo.data(), hostFrom.data() + offset, room / 2);
    stirOnHost(hostTo.data(), 8192, step + 1);
    std::memcpy(hostTo.data() + room / 2 + offset, hostFrom.data(), 8192);
    step += 2;
    MUST(cudaDeviceSynchronize());
  }
  void compare(const char *when) {
    std::vector<unsigned char> got(room);
    for (bool second : {false, true}) {
      MUST(cudaMemcpyAsync(got.data(), second ? to : from, room, cudaMemcpyDeviceToHost, stream));
      MUST(cudaStreamSynchronize(stream));
      const std::vector<unsigned char> &wanted = second ? hostTo : hostFrom;
      std::size_t at = 0;
      while (at < room && got[at] == wanted[at])
        ++at;
      if (at != room) {
        std::printf("FAILED %s: byte %zu of `%s` is %u and not %u\n", when, at,
                    second ? "to" : "from", got[at], wanted[at]);
        ++failures;
        return;
      }
    }
  }
};

constexpr unsigned char filling = 7;

/// One byte in each mebibyte, each at another place.
__device__ std::size_t placeOf(std::size_t mebibyte) {
  return (mebibyte << 20) + mebibyte * 4099 % (1 << 20);
}
__device__ unsigned char markOf(std::size_t mebibyte) {
  return static_cast<unsigned char>(8 + mebibyte % 100);
}
__global__ void mark(unsigned char *bytes, std::size_t mebibytes) {
  for (std::size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < mebibytes;
       i += gridDim.x * blockDim.x)
    bytes[placeOf(i)] = markOf(i);
}
__global__ void countWrong(const unsigned char *bytes, std::size_t count, unsigned *wrong) {
  for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < count;
       i += std::size_t{gridDim.x} * blockDim.x) {
    std::size_t mebibyte = i >> 20;
    if (bytes[i] != (i == placeOf(mebibyte) ? markOf(mebibyte) : filling))
      atomicAdd(wrong, 1);
  }
}

/// A 32-bit offset does not reach all places of a large fill and copy.
void large(std::size_t mebibytes, cudaStream_t stream) {
  std::size_t bytes = mebibytes << 20;
  unsigned char *from = nullptr, *to = nullptr, last = 0;
  unsigned *wrong = nullptr, found = 0;
  MUST(cudaMalloc(&from, bytes));
  MUST(cudaMalloc(&to, bytes + 1));
  MUST(cudaMalloc(&wrong, sizeof *wrong));
  MUST(cudaMemsetAsync(to, 1, bytes + 1, stream));
  MUST(cudaMemsetAsync(wrong, 0, sizeof *wrong, stream));
  MUST(cudaMemsetAsync(from, filling, bytes, stream));
  mark<<<16, 64, 0, stream>>>(from, mebibytes);
  MUST(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream));
  countWrong<<<1024, 64, 0, stream>>>(to, bytes, wrong);
  MUST(cudaGetLastError());
  MUST(cudaMemcpyAsync(&found, wrong, sizeof found, cudaMemcpyDeviceToHost, stream));
  MUST(cudaMemcpyAsync(&last, to + bytes, 1, cudaMemcpyDeviceToHost, stream));
  MUST(cudaStreamSynchronize(stream));
  EXPECT(found == 0);
  EXPECT(last == 1);
  MUST(cudaFree(wrong));
  MUST(cudaFree(to));
  MUST(cudaFree(from));
}

} // namespace

int main(int argc, char **argv) {
  int rounds = argc > 1 ? std::atoi(argv[1]) : 2;
  Buffers b;
  MUST(cudaStreamCreateWithFlags(&b.stream, cudaStreamNonBlocking));
  MUST(cudaMalloc(&b.from, room));
  MUST(cudaMalloc(&b.to, room));
  MUST(cudaMemset(b.from, 1, room));
  MUST(cudaMemset(b.to, 2, room));
  MUST(cudaDeviceSynchronize());
  b.hostFrom.assign(room, 1);
  b.hostTo.assign(room, 2);
  const std::size_t sizes[] = {
      0, 1, 15, 16, 17, 31, 4095, 4096 + 3, 16383, 16384, 16385, 3 * 16384 + 7, 65536, 131072 + 12};
  const std::size_t offsets[][2] = {{0, 0}, {1, 1}, {15, 31}, {0, 4}, {7, 3}, {0, 1}, {2, 9}};
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t size : sizes)
      for (const auto &offset : offsets) {
        b.stirAll(size);
        b.copy(offset[0], offset[1], size,
               round % 2 == 0 ? cudaMemcpyDeviceToDevice : cudaMemcpyDefault);
        b.fill(offset[1], static_cast<int>(size + offset[0]), size);
        b.stirAll(size);
      }
    b.compare("sizes and alignments");
    // Several waves of blocks, so that some have run and others have not when the launch yields.
    for (std::size_t offset : {0, 5, 4}) {
      b.stirAll(8192);
      b.copy(offset, 0, room - 4096 - offset, cudaMemcpyDeviceToDevice);
      b.stirAll(8192);
      b.fill(offset, 77, (std::size_t{1} << 20) + 11);
      b.stirAll(8192);
    }
    b.compare("megabytes");
    const char *device = std::getenv("TALLY_DEVICE");
    b.stirAll(8192);
    b.copyWithin(room / 2, 0, room / 2); // they touch, and are apart
    b.stirAll(8192);
    if (device && std::strcmp(device, "emulator") == 0)
      b.copyWithin(16384 + 16, 0, room / 2);
    b.stirAll(8192);
    b.compare("one buffer");
    b.onDefaultStream(5 * round);
    b.compare("without a stream");
  }
  if (argc > 2)
    large(std::strtoull(argv[2], nullptr, 10), b.stream);
  return verdict();
}
