// Allocation in a process that may use a part of the memory only: an allocation beyond the part
// fails as on a full device, and freed memory can be allocated again.
//
//   memory QUOTA RESERVE    in bytes, 0: none; as TALLY_MEMORY_QUOTA and TALLY_MEMORY_RESERVE say
//
// Without arguments the program checks that the device's limit is the only one.
#include "check.h"

#include <cstddef>
#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

namespace {

std::size_t quota = 0, reserve = 0;

__global__ void fill(int *data, int n, int value) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    data[i] = value;
}

std::size_t freeBytes() {
  std::size_t free = 0, total = 0;
  MUST(cudaMemGetInfo(&free, &total));
  EXPECT(free <= total);
  EXPECT(quota == 0 || total == quota);
  return free;
}

/// Beyond the free part: the call fails, and the error is the thread's last error until the thread
/// reads it.
void beyond(std::size_t bytes) {
  void *memory = nullptr;
  EXPECT_STATUS(cudaMalloc(&memory, bytes), cudaErrorMemoryAllocation);
  EXPECT_STATUS(cudaPeekAtLastError(), cudaErrorMemoryAllocation);
  EXPECT_STATUS(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_STATUS(cudaGetLastError(), cudaSuccess);
}

/// One form of allocation: at least a quarter of the quota, at most four times the quota.
void form(const char *name, const std::function<cudaError_t(std::size_t, void **)> &allocate,
          const std::function<cudaError_t(void *)> &release) {
  std::size_t before = freeBytes(), quarter = quota / 4;
  std::vector<void *> made;
  cudaError_t status = cudaSuccess;
  while (made.size() < 5 && status == cudaSuccess) {
    void *memory = nullptr;
    status = allocate(quarter, &memory);
    if (status == cudaSuccess)
      made.push_back(memory);
  }
  if (status != cudaErrorMemoryAllocation || made.size() < 3 || made.size() > 4 ||
      freeBytes() > before - made.size() * quarter) {
    std::printf("FAILED %s: %zu of a quarter, then %s, %zu free\n", name, made.size(),
                cudaGetErrorName(status), freeBytes());
    ++failures;
  }
  cudaGetLastError();
  for (void *each : made)
    EXPECT_STATUS(release(each), cudaSuccess);
  MUST(cudaDeviceSynchronize());
  EXPECT(freeBytes() == before);
}

void forms() {
  cudaStream_t stream;
  MUST(cudaStreamCreate(&stream));
  auto ordinary = [](void *memory) { return cudaFree(memory); };
  auto array = [](void *memory) { return cudaFreeArray(static_cast<cudaArray_t>(memory)); };
  cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  form("cudaMalloc", [](std::size_t n, void **to) { return cudaMalloc(to, n); }, ordinary);
  form(
      "cudaMallocManaged",
      [](std::size_t n, void **to) { return cudaMallocManaged(to, n, cudaMemAttachGlobal); },
      ordinary);
  form(
      "cudaMallocPitch",
      [](std::size_t n, void **to) {
        std::size_t pitch = 0;
        return cudaMallocPitch(to, &pitch, 1024, n / 1024);
      },
      ordinary);
  form(
      "cudaMalloc3D",
      [](std::size_t n, void **to) {
        cudaPitchedPtr made{};
        cudaError_t status = cudaMalloc3D(&made, make_cudaExtent(1024, 16, n / 1024 / 16));
        *to = made.ptr;
        return status;
      },
      ordinary);
  form(
      "cudaMallocArray",
      [&](std::size_t n, void **to) {
        return cudaMallocArray(reinterpret_cast<cudaArray_t *>(to), &format, 1024, n / 4096);
      },
      array);
  form(
      "cudaMalloc3DArray",
      [&](std::size_t n, void **to) {
        return cudaMalloc3DArray(reinterpret_cast<cudaArray_t *>(to), &format,
                                 make_cudaExtent(1024, n / 4096 / 4, 4));
      },
      array);
  form(
      "cudaMallocAsync", [&](std::size_t n, void **to) { return cudaMallocAsync(to, n, stream); },
      [&](void *memory) { return cudaFreeAsync(memory, stream); });
  form(
      "cudaMallocAsync, cudaFree",
      [&](std::size_t n, void **to) { return cudaMallocAsync(to, n, stream); }, ordinary);
  MUST(cudaStreamDestroy(stream));
}

/// Several threads allocate and free all of it at once: never more than the quota, and no memory is
/// lost.
void threads() {
  std::size_t before = freeBytes();
  std::vector<std::thread> running;
  for (int t = 0; t < 4; ++t)
    running.emplace_back([] {
      for (int i = 0; i < 50; ++i) {
        void *memory = nullptr;
        cudaError_t status = cudaMalloc(&memory, quota / 3);
        EXPECT(status == cudaSuccess || status == cudaErrorMemoryAllocation);
        if (status == cudaSuccess)
          MUST(cudaFree(memory));
      }
    });
  for (std::thread &each : running)
    each.join();
  EXPECT(freeBytes() == before);
}

/// The thread's work goes on after a refused allocation.
void kernels() {
  constexpr int n = 4096;
  int *data = nullptr, got = 0;
  MUST(cudaMalloc(&data, n * sizeof(int)));
  fill<<<n / 128, 128>>>(data, n, 7);
  if (quota != 0)
    beyond(quota);
  fill<<<n / 128, 128>>>(data, n / 2, 8);
  MUST(cudaMemcpy(&got, data + n - 1, sizeof got, cudaMemcpyDeviceToHost));
  EXPECT(got == 7);
  MUST(cudaMemcpy(&got, data, sizeof got, cudaMemcpyDeviceToHost));
  EXPECT(got == 8);
  MUST(cudaFree(data));
}

} // namespace

int main(int count, char **arguments) {
  quota = count > 1 ? std::strtoull(arguments[1], nullptr, 10) : 0;
  reserve = count > 2 ? std::strtoull(arguments[2], nullptr, 10) : 0;
  kernels();
  if (quota != 0) {
    EXPECT(freeBytes() == quota);
    beyond(quota + 1);
    forms();
    threads();
    EXPECT_STATUS(cudaFree(nullptr), cudaSuccess);
    int onStack = 0;
    EXPECT(cudaFree(&onStack) != cudaSuccess);
    cudaGetLastError();
    EXPECT(freeBytes() == quota);
  }
  if (reserve != 0)
    beyond(freeBytes() + reserve / 2);
  void *memory = nullptr;
  MUST(cudaMalloc(&memory, 1 << 20));
  MUST(cudaFree(memory));
  return verdict();
}
