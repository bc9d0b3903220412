// Faults that end a device, each in a process of its own.
#include "program.h"

#include <cstdlib>

namespace tally::hooks {

namespace {

std::size_t countOf(const std::string &text, const std::string &what) {
  std::size_t count = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1))
    ++count;
  return count;
}

std::string kernelOf(const std::string &body, const std::string &outside = "") {
  return ptxHeader + outside + ".visible .entry k() {\n.reg .b64 %a;\n.reg .b32 %v;\n" + body +
         "\nret;\n}\n";
}

/// Runs a kernel that faults; returns the errors that its calls give.
Outcome faulting(const std::string &text, cudaError_t expected) {
  return inChild([&] {
    Program program({{text, 90}});
    const void *kernel = program.kernel("k");
    demand(launch(kernel, 1, 1, 0, nullptr) == cudaSuccess, "the launch itself is fine");
    demand(cuda().cudaDeviceSynchronize() == expected, "the fault's error");
    demand(cuda().cudaGetLastError() == expected, "it is the last error");
    demand(cuda().cudaGetLastError() == expected, "it is not cleared");
    void *memory = nullptr;
    demand(cuda().cudaMalloc(&memory, 4) == expected, "it sticks to every call");
    demand(launch(kernel, 1, 1, 0, nullptr) == expected, "a launch included");
  });
}

} // namespace

TEST_CASE("a fault sticks, and is told once with its place") {
  Outcome outcome =
      faulting(kernelOf("mov.u64 %a, 16; st.global.u32 [%a], 1;"), cudaErrorIllegalAddress);
  CHECK(countOf(outcome.errors, "tally: emulator: ") == 1);
  CHECK(outcome.errors.find("out-of-bounds global write of 4 bytes at 0x10") != std::string::npos);
  CHECK(outcome.errors.find("of k by block (0, 0, 0)") != std::string::npos);
}

TEST_CASE("kinds of faults have CUDA's errors") {
  faulting(kernelOf("mov.u64 %a, 0x200000000001; ld.global.u32 %v, [%a];"),
           cudaErrorMisalignedAddress);
  faulting(kernelOf("trap;"), cudaErrorLaunchFailure);
  Outcome lacking = faulting(kernelOf("frobnicate.u32 %v, 1;"), cudaErrorNotSupported);
  CHECK(lacking.errors.find("frobnicate") != std::string::npos);
}

TEST_CASE("a failed assertion is told with its text and place") {
  const std::string text = kernelOf(
      R"({ .param .b64 m; .param .b64 f; .param .b32 l; .param .b64 n; .param .b64 s;
    .reg .b64 %g;
    mov.u64 %a, message; cvta.global.u64 %g, %a; st.param.b64 [m], %g;
    mov.u64 %a, file; cvta.global.u64 %g, %a; st.param.b64 [f], %g; st.param.b64 [n], %g;
    mov.u32 %v, 12; st.param.b32 [l], %v; st.param.b64 [s], 1;
    call.uni __assertfail, (m, f, l, n, s); })",
      R"(.extern .func __assertfail(.param .b64 m, .param .b64 f, .param .b32 l, .param .b64 n, .param .b64 s);
.global .align 1 .b8 message[6] = {97, 32, 60, 32, 98, 0};
.global .align 1 .b8 file[5] = {120, 46, 99, 117, 0};
)");
  Outcome outcome = faulting(text, cudaErrorAssert);
  CHECK(outcome.errors.find("x.cu:12: assertion `a < b` failed") != std::string::npos);
}

TEST_CASE("printf of kernels comes to standard output when the host waits") {
  Outcome outcome = inChild([] {
    // Prints "%d %5.2f %s%%\n" with 7, 1.5 and "hi"; the arguments lie in local memory.
    Program program(
        {{kernelOf(R"({ .param .b64 f; .param .b64 b; .param .b32 r;
    .local .align 8 .b8 buffer[24]; .reg .b64 %g; .reg .b64 %l;
    mov.u64 %l, buffer; cvta.local.u64 %g, %l; st.param.b64 [b], %g;
    st.local.u32 [buffer], 7; mov.u64 %a, 0x3ff8000000000000; st.local.u64 [buffer+8], %a;
    mov.u64 %a, word; cvta.global.u64 %g, %a; st.local.u64 [buffer+16], %g;
    mov.u64 %a, format; cvta.global.u64 %g, %a; st.param.b64 [f], %g;
    call.uni (r), vprintf, (f, b); ld.param.b32 %v, [r];
    st.global.u32 [count], %v; })",
                   R"(.extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 b);
.visible .global .align 4 .b32 count;
.global .align 1 .b8 word[3] = {104, 105, 0};
.global .align 1 .b8 format[15] = {37, 100, 32, 37, 53, 46, 50, 102, 32, 37, 115, 37, 37, 10, 0};
)"),
          90}});
    const void *count = program.variable("count", 4);
    demand(launch(program.kernel("k"), 1, 2, 0, nullptr) == cudaSuccess, "launch");
    demand(cuda().cudaDeviceSynchronize() == cudaSuccess, "synchronise");
    int conversions = 0;
    demand(cuda().cudaMemcpyFromSymbol(&conversions, count, 4, 0, cudaMemcpyDeviceToHost) ==
               cudaSuccess,
           "copy");
    demand(conversions == 3, "vprintf gives the number of its arguments");
  });
  CHECK(outcome.output == "7  1.50 hi%\n7  1.50 hi%\n");
}

TEST_CASE("a fatbin without usable PTX says so once; the call names it") {
  Outcome outcome = inChild([] {
    Program program({{ptxHeader + storing("k", 1), 100}});
    const void *kernel = program.kernel("k");
    for (int i = 0; i < 2; ++i)
      demand(launch(kernel, 1, 1, 0, nullptr, static_cast<int *>(nullptr)) ==
                 cudaErrorNoKernelImageForDevice,
             "no kernel image");
  });
  CHECK(countOf(outcome.errors, "holds no PTX for sm_90") == 1);
}

TEST_CASE("a name that two linked modules define is refused") {
  Outcome outcome = inChild([] {
    Program twice(Prelinked{{container({{ptxHeader + storing("k", 1), 90}}),
                             container({{ptxHeader + storing("k", 2), 90}})}});
    demand(launch(twice.kernel("k"), 1, 1, 0, nullptr, static_cast<int *>(nullptr)) ==
               cudaErrorInvalidKernelImage,
           "invalid image");
  });
  CHECK(outcome.errors.find("k is defined twice") != std::string::npos);
}

TEST_CASE("what is not served is named once") {
  Outcome outcome = inChild([] {
    cudaIpcMemHandle_t handle{};
    for (int i = 0; i < 2; ++i)
      demand(cuda().cudaIpcGetMemHandle(&handle, nullptr) == cudaErrorNotSupported,
             "not supported");
    demand(cuda().cudaGetLastError() == cudaErrorNotSupported, "the last error");
    demand(cuda().cudaGetLastError() == cudaSuccess, "which does not stick");
  });
  CHECK(countOf(outcome.errors, "cudaIpcGetMemHandle is not served") == 1);
}

} // namespace tally::hooks
