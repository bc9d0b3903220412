#include "program.h"

namespace tally::hooks {

namespace {

int resultOf(Program &program, const char *kernel) {
  Ints out(1);
  CHECK(launch(program.kernel(kernel), 1, 1, 0, nullptr, out.device) == cudaSuccess);
  return out.values()[0];
}

} // namespace

TEST_CASE("of several PTX entries the newest that sm_90 takes is run") {
  Program program({{ptxHeader + storing("k", 75), 75},
                   {ptxHeader + storing("k", 90), 90},
                   {ptxHeader + storing("k", 100), 100}});
  CHECK(resultOf(program, "k") == 90);
  Program older({{ptxHeader + storing("k", 80), 80}, {ptxHeader + storing("k", 100), 100}});
  CHECK(resultOf(older, "k") == 80);
}

TEST_CASE("code of sm_90's own features comes before plain code, another arch's never") {
  const std::uint64_t own = 0x11 | bundle::fatbinArchSpecific;
  Program program({{ptxHeader + storing("k", 1), 90},
                   {ptxHeader + storing("k", 2), 90, bundle::Compression::None, own},
                   {ptxHeader + storing("k", 3), 80, bundle::Compression::None, own}});
  CHECK(resultOf(program, "k") == 2);
}

TEST_CASE("what is not registered is an invalid device function, and an invalid symbol") {
  char host = 0;
  CHECK(launch(&host, 1, 1, 0, nullptr) == cudaErrorInvalidDeviceFunction);
  CHECK(cuda().cudaGetLastError() == cudaErrorInvalidDeviceFunction);
  int value = 0;
  CHECK(cuda().cudaMemcpyToSymbol(&host, &value, 4, 0, cudaMemcpyHostToDevice) ==
        cudaErrorInvalidSymbol);
  Program program({{ptxHeader + storing("k", 1), 90}});
  CHECK(launch(program.kernel("other"), 1, 1, 0, nullptr) == cudaErrorInvalidDeviceFunction);
  CHECK(cuda().cudaGetLastError() == cudaErrorInvalidDeviceFunction);
}

TEST_CASE("handles of a kernel launch it as its host function does") {
  Program program({{ptxHeader + storing("k", 7), 90}});
  const void *host = program.kernel("k");
  cudaKernel_t kernel = nullptr;
  cudaFunction_t function = nullptr;
  REQUIRE(cuda().__cudaGetKernel(&kernel, host) == cudaSuccess);
  REQUIRE(cuda().cudaGetFuncBySymbol(&function, host) == cudaSuccess);
  Ints out(2);
  void *first = out.device, *second = out.device + 1;
  void *arguments[] = {&first};
  CHECK(cuda().__cudaLaunchKernel(kernel, 1, 1, arguments, 0, nullptr) == cudaSuccess);
  CHECK(launch(function, 1, 1, 0, nullptr, second) == cudaSuccess);
  CHECK(out.values() == std::vector<int>{7, 7});
}

TEST_CASE("device and constant variables: copies, addresses, sizes, bounds") {
  const std::string text = ptxHeader + R"(
.visible .global .align 4 .b32 scale[2] = {3, 4};
.visible .const .align 4 .b32 offset = 10;
.visible .entry apply(.param .u64 out) {
  .reg .b64 %a; .reg .b32 %s, %o;
  ld.param.u64 %a, [out];
  ld.global.u32 %s, [scale+4];
  ld.const.u32 %o, [offset];
  add.u32 %s, %s, %o;
  st.global.u32 [%a], %s;
  ret;
})";
  Program program({{text, 90}});
  const void *scale = program.variable("scale", 8), *offset = program.variable("offset", 4);
  CHECK(resultOf(program, "apply") == 14);
  int value = 100;
  CHECK(cuda().cudaMemcpyToSymbol(scale, &value, 4, 4, cudaMemcpyHostToDevice) == cudaSuccess);
  CHECK(cuda().cudaMemcpyToSymbol(offset, &value, 4, 0, cudaMemcpyDefault) == cudaSuccess);
  CHECK(resultOf(program, "apply") == 200);
  int back[2] = {};
  CHECK(cuda().cudaMemcpyFromSymbol(back, scale, 8, 0, cudaMemcpyDeviceToHost) == cudaSuccess);
  CHECK(back[0] == 3);
  CHECK(back[1] == 100);
  CHECK(cuda().cudaMemcpyToSymbol(scale, &value, 4, 8, cudaMemcpyHostToDevice) ==
        cudaErrorInvalidValue);
  CHECK(cuda().cudaMemcpyToSymbol(scale, &value, 4, 0, cudaMemcpyDeviceToHost) ==
        cudaErrorInvalidMemcpyDirection);
  std::size_t bytes = 0;
  void *address = nullptr;
  CHECK(cuda().cudaGetSymbolSize(&bytes, scale) == cudaSuccess);
  CHECK(bytes == 8);
  CHECK(cuda().cudaGetSymbolAddress(&address, scale) == cudaSuccess);
  CHECK(static_cast<int *>(address)[1] == 100); // host and device addresses are the same
  (void)cuda().cudaGetLastError();
}

TEST_CASE("a managed variable is the host's and the kernel's") {
  const std::string text = ptxHeader + R"(
.visible .global .attribute(.managed) .align 4 .b32 shared = 5;
.visible .entry bump() {
  .reg .b32 %v;
  ld.global.u32 %v, [shared];
  add.u32 %v, %v, 1;
  st.global.u32 [shared], %v;
  ret;
})";
  Program program({{text, 90}});
  void *pointer = nullptr;
  program.managed(&pointer, "shared", 4);
  REQUIRE(pointer);
  CHECK(*static_cast<int *>(pointer) == 5);
  *static_cast<int *>(pointer) = 8;
  CHECK(launch(program.kernel("bump"), 1, 1, 0, nullptr) == cudaSuccess);
  CHECK(cuda().cudaDeviceSynchronize() == cudaSuccess);
  CHECK(*static_cast<int *>(pointer) == 9);
}

TEST_CASE("RDC: functions and variables of other modules, own names kept apart") {
  const std::string first = container({{ptxHeader + R"(
.extern .func (.param .b32 r) twice(.param .b32 v);
.extern .global .align 4 .b32 total;
.global .align 4 .b32 own = 1;
.func (.param .b32 r) helper() { .reg .b32 %v; ld.global.u32 %v, [own]; st.param.b32 [r], %v; ret; }
.visible .entry use(.param .u64 out) {
  .reg .b64 %a; .reg .b32 %v, %w, %h;
  ld.param.u64 %a, [out];
  ld.global.u32 %w, [total];
  { .param .b32 p; .param .b32 r; st.param.b32 [p], %w; call.uni (r), twice, (p); ld.param.b32 %v, [r]; }
  { .param .b32 r; call.uni (r), helper, (); ld.param.b32 %h, [r]; }
  add.u32 %v, %v, %h;
  st.global.u32 [%a], %v;
  ret;
})",
                                        90}});
  const std::string second = container({{ptxHeader + R"(
.visible .global .align 4 .b32 total = 20;
.global .align 4 .b32 own = 100;
.func (.param .b32 r) helper() { .reg .b32 %v; ld.global.u32 %v, [own]; st.param.b32 [r], %v; ret; }
.visible .func (.param .b32 r) twice(.param .b32 v) {
  .reg .b32 %v, %h;
  { .param .b32 q; call.uni (q), helper, (); ld.param.b32 %h, [q]; }
  ld.param.b32 %v, [v];
  mad.lo.u32 %v, %v, 2, %h;
  st.param.b32 [r], %v;
  ret;
})",
                                         90}});
  Program program(Prelinked{{first, second}});
  CHECK(resultOf(program, "use") == 20 * 2 + 100 + 1);
  int value = 5;
  CHECK(cuda().cudaMemcpyToSymbol(program.variable("total", 4), &value, 4, 0,
                                  cudaMemcpyHostToDevice) == cudaSuccess);
  CHECK(resultOf(program, "use") == 5 * 2 + 100 + 1);
}

TEST_CASE("RDC: of weak definitions the first counts") {
  Program weak(Prelinked{{container({{ptxHeader + storing("k", 1, ".weak"), 90}}),
                          container({{ptxHeader + storing("k", 2, ".weak"), 90}})}});
  CHECK(resultOf(weak, "k") == 1);
}

TEST_CASE("a compressed entry, PTX text and a fatbin as a library") {
  bundle::NewFatbinEntry probe{bundle::FatbinKind::Ptx, 8, 0, 90};
  probe.compression = bundle::Compression::Zstd;
  if (bundle::FatbinWriter().add(probe)) { // this build has zstd
    Program program({{ptxHeader + storing("k", 11), 90, bundle::Compression::Zstd}});
    CHECK(resultOf(program, "k") == 11);
  }
  for (const std::string &code :
       {ptxHeader + storing("k", 12), container({{ptxHeader + storing("k", 12), 90}})}) {
    cudaLibrary_t library = nullptr;
    REQUIRE(cuda().cudaLibraryLoadData(&library, code.c_str(), nullptr, nullptr, 0, nullptr,
                                       nullptr, 0) == cudaSuccess);
    cudaKernel_t kernel = nullptr;
    CHECK(cuda().cudaLibraryGetKernel(&kernel, library, "none") == cudaErrorSymbolNotFound);
    REQUIRE(cuda().cudaLibraryGetKernel(&kernel, library, "k") == cudaSuccess);
    Ints out(1);
    CHECK(launch(kernel, 1, 1, 0, nullptr, out.device) == cudaSuccess);
    CHECK(out.values()[0] == 12);
    CHECK(cuda().cudaLibraryUnload(library) == cudaSuccess);
  }
  (void)cuda().cudaGetLastError();
}

} // namespace tally::hooks
