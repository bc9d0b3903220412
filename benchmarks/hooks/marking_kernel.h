// A kernel whose blocks mark the SMs that they run on, for programs that measure streams by the
// driver alone. A program ends with a message at any error.
#ifndef TALLY_BENCHMARKS_HOOKS_MARKING_KERNEL_H
#define TALLY_BENCHMARKS_HOOKS_MARKING_KERNEL_H

#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace marking {

using Clock = std::chrono::steady_clock;

[[noreturn]] inline void fail(const std::string &message) {
  std::fprintf(stderr, "%s: %s\n", program_invocation_short_name, message.c_str());
  std::exit(1);
}

inline void check(cudaError_t status, const char *call) {
  if (status != cudaSuccess)
    fail(std::string(call) + ": " + cudaGetErrorString(status));
}

/// Returns the driver's function of that name; ends the program if the driver has none.
template <class Function> Function *entry(const char *name) {
  void *found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  check(cudaGetDriverEntryPointByVersion(name, &found, 12080, cudaEnableDefault, &result), name);
  if (result != cudaDriverEntryPointSuccess)
    fail(std::string("the driver has no ") + name);
  return reinterpret_cast<Function *>(found);
}

inline double microseconds(Clock::duration time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

/// Calls `act` `count` times, above 0; returns the median of the microseconds that a call took.
template <class Act> double median(int count, Act act) {
  std::vector<double> times;
  for (int i = 0; i < count; ++i) {
    auto start = Clock::now();
    act();
    times.push_back(microseconds(Clock::now() - start));
  }
  std::nth_element(times.begin(), times.begin() + count / 2, times.end());
  return times[static_cast<std::size_t>(count / 2)];
}

class MarkingKernel {
public:
  MarkingKernel() {
    CUmodule module = nullptr;
    check(cudaMalloc(&marks, mostSms * sizeof(unsigned)), "cudaMalloc");
    if (entry<decltype(cuModuleLoadData)>("cuModuleLoadData")(&module, source) != CUDA_SUCCESS ||
        entry<decltype(cuModuleGetFunction)>("cuModuleGetFunction")(&kernel, module, "mark") !=
            CUDA_SUCCESS)
      fail("the kernel was not loaded");
  }

  void launch(cudaStream_t stream, unsigned blocks) {
    void *arguments[] = {&marks};
    if (launchKernel(kernel, blocks, 1, 1, 256, 1, 1, 0, stream, arguments, nullptr) !=
        CUDA_SUCCESS)
      fail("the kernel was not launched");
  }

  /// The number of SMs on which the blocks of a grid ran that fills the device many times.
  long smsOf(cudaStream_t stream) {
    std::vector<unsigned> seen(mostSms);
    check(cudaMemset(marks, 0, mostSms * sizeof(unsigned)), "cudaMemset");
    launch(stream, 100000);
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    check(cudaMemcpy(seen.data(), marks, mostSms * sizeof(unsigned), cudaMemcpyDeviceToHost),
          "cudaMemcpy");
    return std::count(seen.begin(), seen.end(), 1u);
  }

private:
  static constexpr std::size_t mostSms = 1024;
  static constexpr const char *source = R"(.version 7.0
.target sm_70
.address_size 64
.visible .entry mark(.param .u64 marks) {
  .reg .b32 %r<3>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [marks];
  mov.u32 %r1, %smid;
  mul.wide.u32 %rd2, %r1, 4;
  add.u64 %rd3, %rd1, %rd2;
  mov.u32 %r2, 1;
  st.global.u32 [%rd3], %r2;
  ret;
}
)";

  unsigned *marks = nullptr;
  CUfunction kernel = nullptr;
  decltype(cuLaunchKernel) *launchKernel = entry<decltype(cuLaunchKernel)>("cuLaunchKernel");
};

} // namespace marking

#endif
