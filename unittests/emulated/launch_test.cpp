#include "program.h"

namespace tally::hooks {

namespace {

/// Parameters of several sizes, to test that each lies at its place in PTX's layout.
const std::string mixed = ptxHeader + R"(
.visible .entry mixed(.param .u8 a, .param .u64 out, .param .u16 b, .param .align 4 .b8 c[8]) {
  .reg .b64 %p; .reg .b32 %v, %w; .reg .b16 %h;
  ld.param.u64 %p, [out];
  ld.param.u8 %h, [a];
  cvt.u32.u16 %v, %h;
  ld.param.u16 %h, [b];
  cvt.u32.u16 %w, %h;
  mad.lo.u32 %v, %w, 256, %v;
  st.global.u32 [%p], %v;
  ld.param.u32 %v, [c+4];
  st.global.u32 [%p+4], %v;
  ret;
}
.extern .shared .align 4 .b8 dynamic[];
.visible .entry sized() {
  .shared .align 4 .b8 fixed[1024];
  .reg .b32 %v;
  ld.shared.u32 %v, [fixed];
  st.shared.u32 [dynamic], %v;
  ret;
}
.visible .entry limited() .maxntid 64 { ret; }
)";

/// All blocks meet at a barrier in global memory, which only a cooperative launch allows.
const std::string meeting = ptxHeader + R"(
.visible .entry meet(.param .u64 counter) {
  .reg .b64 %p; .reg .b32 %n, %v; .reg .pred %q;
  ld.param.u64 %p, [counter];
  mov.u32 %n, %nctaid.x;
  atom.global.add.u32 %v, [%p], 1;
wait:
  ld.relaxed.gpu.global.u32 %v, [%p];
  setp.lt.u32 %q, %v, %n;
  @%q bra wait;
  st.global.u32 [%p+4], %v;
  ret;
})";

} // namespace

TEST_CASE("arguments lie where the kernel's parameters do") {
  Program program({{mixed, 90}});
  struct Pair {
    int first, second;
  };
  Ints out(2);
  const void *kernel = program.kernel("mixed");
  CHECK(launch(kernel, 1, 1, 0, nullptr, static_cast<unsigned char>(7), out.device,
               static_cast<unsigned short>(3), Pair{1, 99}) == cudaSuccess);
  CHECK(out.values() == std::vector<int>{3 * 256 + 7, 99});
  std::size_t offset = 0, bytes = 0;
  CHECK(cuda().cudaFuncGetParamInfo(kernel, 3, &offset, &bytes) == cudaSuccess);
  CHECK(offset == 20);
  CHECK(bytes == 8);
  CHECK(cuda().cudaFuncGetParamInfo(kernel, 4, &offset, &bytes) == cudaErrorInvalidValue);
  (void)cuda().cudaGetLastError();
}

TEST_CASE("shapes that cannot run are errors of the call") {
  Program program({{mixed, 90}});
  const void *sized = program.kernel("sized"), *limited = program.kernel("limited");
  CHECK(launch(sized, dim3{0, 1, 1}, 1, 4, nullptr) == cudaErrorInvalidConfiguration);
  CHECK(launch(sized, 1, 1025, 4, nullptr) == cudaErrorInvalidValue);
  CHECK(launch(sized, dim3{1, 65536, 1}, 1, 4, nullptr) == cudaErrorInvalidValue);
  CHECK(launch(limited, 1, 65, 0, nullptr) == cudaErrorLaunchOutOfResources);
  CHECK(launch(sized, 1, 1, 48 * 1024, nullptr) == cudaErrorInvalidValue); // with the static ones
  CHECK(launch(sized, 1, 1, 47 * 1024, nullptr) == cudaSuccess);
  CHECK(cuda().cudaFuncSetAttribute(sized, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    227 * 1024) == cudaErrorInvalidValue);
  CHECK(cuda().cudaFuncSetAttribute(sized, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    100 * 1024) == cudaSuccess);
  CHECK(launch(sized, 1, 1, 100 * 1024, nullptr) == cudaSuccess);
  CHECK(cuda().cudaDeviceSynchronize() == cudaSuccess);
  cudaFuncAttributes attributes{};
  CHECK(cuda().cudaFuncGetAttributes(&attributes, sized) == cudaSuccess);
  CHECK(attributes.sharedSizeBytes == 1024);
  CHECK(attributes.maxDynamicSharedSizeBytes == 100 * 1024);
  CHECK(cuda().cudaFuncGetAttributes(&attributes, limited) == cudaSuccess);
  CHECK(attributes.maxThreadsPerBlock == 64);
  (void)cuda().cudaGetLastError();
}

TEST_CASE("occupancy goes by threads, blocks and shared memory") {
  Program program({{mixed, 90}});
  const void *sized = program.kernel("sized");
  auto blocks = [&](int threads, std::size_t shared) {
    int count = -1;
    CHECK(cuda().cudaOccupancyMaxActiveBlocksPerMultiprocessor(&count, sized, threads, shared) ==
          cudaSuccess);
    return count;
  };
  CHECK(blocks(1024, 0) == 2);
  CHECK(blocks(32, 0) == 32);
  CHECK(blocks(128, 110 * 1024) == 2);
  CHECK(blocks(128, 227 * 1024) == 0);
}

TEST_CASE("blocks of a cooperative launch may wait for each other") {
  Program program({{meeting, 90}});
  const void *meet = program.kernel("meet");
  int sms = 0, each = 0;
  REQUIRE(cuda().cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0) == cudaSuccess);
  REQUIRE(cuda().cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, meet, 1024, 0) ==
          cudaSuccess);
  Ints out(2);
  CHECK(cuda().cudaMemset(out.device, 0, 8) == cudaSuccess);
  void *arguments[] = {&out.device};
  auto grid = static_cast<unsigned>(sms * each);
  CHECK(cuda().cudaLaunchCooperativeKernel(meet, grid + 1, 1024, arguments, 0, nullptr) ==
        cudaErrorCooperativeLaunchTooLarge);
  CHECK(cuda().cudaLaunchCooperativeKernel(meet, grid, 1, arguments, 0, nullptr) == cudaSuccess);
  CHECK(out.values() == std::vector<int>{sms * each, sms * each});
  (void)cuda().cudaGetLastError();
}

} // namespace tally::hooks
