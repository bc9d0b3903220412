// Kernels whose code is unloaded and replaced: libraries that are loaded at run time, where a
// handle may later name a kernel with other parameters, and a device that is reset. The program
// does not mention Tally.
#include "check.h"

#include <cstdint>

// The functions that nvcc's host code calls, and nvcc's name for this file's own container.
extern "C" {
void **__cudaRegisterFatBinary(void *wrapper);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaUnregisterFatBinary(void **handle);
void __cudaRegisterFunction(void **handle, const char *host, char *name, const char *nameToo,
                            int threadLimit, uint3 *, uint3 *, dim3 *, dim3 *, int *);
extern const char ownContainer[] asm("fatbinData");
}
struct Wrapper {
  std::uint32_t magic, version;
  const void *container, *prelinked;
};

extern "C" __global__ void addTwo(std::uint32_t *word) { *word += 2; }
extern "C" __global__ void addThree(std::uint32_t *word) { *word += 3; }

namespace {

constexpr int launches = 5;

/// PTX texts, each with a kernel `k` of one thread. The kernel computes the word that its first
/// parameter points to from the other parameters.
constexpr char addOne[] = R"(
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 word) {
  .reg .u64 %p; .reg .u32 %v;
  ld.param.u64 %p, [word];
  cvta.to.global.u64 %p, %p;
  ld.global.u32 %v, [%p];
  add.u32 %v, %v, 1;
  st.global.u32 [%p], %v;
  ret;
})";
constexpr char mixIn[] = R"(
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 word, .param .u64 wide, .param .u32 more) {
  .reg .u64 %p, %w; .reg .u32 %v, %n;
  ld.param.u64 %p, [word];
  ld.param.u64 %w, [wide];
  ld.param.u32 %n, [more];
  cvta.to.global.u64 %p, %p;
  ld.global.u32 %v, [%p];
  mul.lo.u32 %v, %v, 3;
  add.u32 %v, %v, %n;
  cvt.u32.u64 %n, %w;
  add.u32 %v, %v, %n;
  st.global.u32 [%p], %v;
  ret;
})";

std::uint32_t *deviceWord() {
  std::uint32_t *word = nullptr;
  MUST(cudaMalloc(&word, sizeof *word));
  MUST(cudaMemset(word, 0, sizeof *word));
  return word;
}

std::uint32_t valueOf(const std::uint32_t *word) {
  std::uint32_t value = 0;
  MUST(cudaMemcpy(&value, word, sizeof value, cudaMemcpyDeviceToHost));
  return value;
}

/// Returns the word after `launches` launches of `k` from the library.
std::uint32_t launchedFrom(const char *code, void **arguments, std::uint32_t *word,
                           cudaStream_t stream) {
  cudaLibrary_t library = nullptr;
  cudaKernel_t kernel = nullptr;
  MUST(cudaLibraryLoadData(&library, code, nullptr, nullptr, 0, nullptr, nullptr, 0));
  MUST(cudaLibraryGetKernel(&kernel, library, "k"));
  MUST(cudaMemset(word, 0, sizeof *word));
  MUST(cudaDeviceSynchronize());
  for (int i = 0; i < launches; ++i)
    MUST(cudaLaunchKernel(reinterpret_cast<const void *>(kernel), dim3(1), dim3(1), arguments, 0,
                          stream));
  MUST(cudaStreamSynchronize(stream));
  MUST(cudaLibraryUnload(library));
  return valueOf(word);
}

void libraries() {
  cudaStream_t stream = nullptr;
  MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  std::uint32_t *word = deviceWord(), more = 7;
  std::uint64_t wide = 11;
  void *one[] = {&word}, *three[] = {&word, &wide, &more};
  std::uint32_t mixed = 0;
  for (int i = 0; i < launches; ++i)
    mixed = mixed * 3 + more + static_cast<std::uint32_t>(wide);
  for (int round = 0; round < 3; ++round) {
    EXPECT(launchedFrom(addOne, one, word, stream) == launches);
    EXPECT(launchedFrom(mixIn, three, word, stream) == mixed);
  }
  MUST(cudaStreamDestroy(stream));
  MUST(cudaFree(word));
}

__global__ void add(std::uint32_t *word, std::uint32_t addend) { *word += addend; }

/// Acts as when a library is closed and another library lies at its address: one host function is
/// registered for one kernel and then for another. Runs on the emulator: CUDA 13.0's own runtime
/// keeps the first kernel.
void registered() {
  static const Wrapper wrapper = {0x466243b1, 1, ownContainer, nullptr};
  static char function, two[] = "addTwo", three[] = "addThree";
  cudaStream_t stream = nullptr;
  MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  std::uint32_t *word = deviceWord();
  void *arguments[] = {&word};
  for (std::uint32_t addend : {2u, 3u, 2u}) {
    void **handle = __cudaRegisterFatBinary(const_cast<Wrapper *>(&wrapper));
    char *name = addend == 2 ? two : three;
    __cudaRegisterFunction(handle, &function, name, name, -1, nullptr, nullptr, nullptr, nullptr,
                           nullptr);
    __cudaRegisterFatBinaryEnd(handle);
    MUST(cudaMemset(word, 0, sizeof *word));
    MUST(cudaDeviceSynchronize());
    for (int i = 0; i < launches; ++i)
      MUST(cudaLaunchKernel(&function, dim3(1), dim3(1), arguments, 0, stream));
    MUST(cudaStreamSynchronize(stream));
    EXPECT(valueOf(word) == launches * addend);
    __cudaUnregisterFatBinary(handle);
  }
  MUST(cudaStreamDestroy(stream));
  MUST(cudaFree(word));
}

void reset() {
  for (std::uint32_t round = 1; round <= 3; ++round) {
    cudaStream_t stream = nullptr;
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    std::uint32_t *word = deviceWord();
    MUST(cudaDeviceSynchronize());
    for (int i = 0; i < launches; ++i)
      add<<<1, 1, 0, stream>>>(word, round);
    // Between successful launches, a launch that cannot succeed.
    add<<<1, 4096, 0, stream>>>(word, round);
    EXPECT_STATUS(cudaGetLastError(), cudaErrorInvalidValue);
    add<<<1, 1, 0, stream>>>(word, round);
    EXPECT_STATUS(cudaGetLastError(), cudaSuccess);
    MUST(cudaStreamSynchronize(stream));
    EXPECT(valueOf(word) == (launches + 1) * round);
    MUST(cudaDeviceReset());
  }
}

} // namespace

int main(int count, char **) {
  if (count > 1) // any argument
    registered();
  libraries();
  reset();
  return verdict();
}
