// The product of each element, by a kernel that the library loads and launches through the driver,
// with which it is linked.
#include <cuda.h>

namespace {

constexpr char text[] = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry multiply(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 count) {
  .reg .pred %p<2>;
  .reg .f32 %f<4>;
  .reg .b32 %r<5>;
  .reg .b64 %d<8>;
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mad.lo.s32 %r1, %r1, %r2, %r3;
  ld.param.u32 %r4, [count];
  setp.ge.s32 %p1, %r1, %r4;
  @%p1 ret;
  ld.param.u64 %d1, [a];
  ld.param.u64 %d2, [b];
  ld.param.u64 %d3, [c];
  mul.wide.s32 %d4, %r1, 4;
  add.s64 %d5, %d1, %d4;
  add.s64 %d6, %d2, %d4;
  add.s64 %d7, %d3, %d4;
  ld.global.f32 %f1, [%d5];
  ld.global.f32 %f2, [%d6];
  mul.f32 %f3, %f1, %f2;
  st.global.f32 [%d7], %f3;
  ret;
}
)";

} // namespace

extern "C" int product(CUstream stream, const float *a, const float *b, float *c, int count) {
  static CUfunction multiply = nullptr;
  CUmodule module = nullptr;
  if (!multiply && (cuModuleLoadData(&module, text) != CUDA_SUCCESS ||
                    cuModuleGetFunction(&multiply, module, "multiply") != CUDA_SUCCESS))
    return 1;
  void *parameters[] = {&a, &b, &c, &count};
  auto blocks = static_cast<unsigned>((count + 255) / 256);
  return cuLaunchKernel(multiply, blocks, 1, 1, 256, 1, 1, 0, stream, parameters, nullptr) !=
         CUDA_SUCCESS;
}
