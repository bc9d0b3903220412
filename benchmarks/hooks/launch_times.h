// Hooked launches (the name that programs call) and plain ones (the CUDA runtime's own function) of
// an empty kernel, timed within one process. The order is random: an after-effect of a launch,
// which may cost more than the hooks do, then slows both kinds alike. (In pairs, one of each, three
// of four launches would come behind a launch of the other kind.)
//
// The plain calls pass the driver-level hook too, which detects within about a nanosecond that it
// has no work. With TALLY_DISABLE=1 that hook is absent, and the two kinds of calls differ in one
// test only.
#ifndef TALLY_BENCHMARKS_HOOKS_LAUNCH_TIMES_H
#define TALLY_BENCHMARKS_HOOKS_LAUNCH_TIMES_H

#include "../colocation/common.h"
#include "state/in_hook.h"
#include "tables/cuda_api.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <random>
#include <string>
#include <utility>
#include <vector>

extern "C" cudaError_t __real_cudaLaunchKernel(const void *function, dim3 grid, dim3 block,
                                               void **arguments, std::size_t sharedBytes,
                                               cudaStream_t stream);
extern "C" cudaError_t __real_cudaGetLastError();

namespace launch_times {

using colocation::check;

inline std::int64_t nanoseconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1000000000 + now.tv_nsec;
}

inline const void *emptyKernel() {
  static const void *kernel = [] {
    constexpr char text[] = ".version 8.0\n"
                            ".target sm_80\n"
                            ".address_size 64\n"
                            ".visible .entry nothing() { ret; }\n";
    cudaLibrary_t library;
    cudaKernel_t found;
    check(cudaLibraryLoadData(&library, text, nullptr, nullptr, 0, nullptr, nullptr, 0), "loading");
    check(cudaLibraryGetKernel(&found, library, "nothing"), "kernel");
    return static_cast<const void *>(found);
  }();
  return kernel;
}

/// Returns the nanoseconds of the call, including the cost of the clock and, if `isChecked`, of the
/// call of cudaGetLastError behind it.
template <class Launch, class Check>
std::int64_t timed(Launch launch, Check lastError, bool isChecked, cudaStream_t stream) {
  const void *kernel = emptyKernel();
  std::int64_t before = nanoseconds();
  cudaError_t status = launch(kernel, dim3(1), dim3(32), nullptr, 0, stream);
  if (isChecked)
    status = lastError();
  std::int64_t after = nanoseconds();
  check(status, "launch");
  return after - before;
}
inline std::int64_t timedByHook(cudaStream_t stream, bool isChecked) {
  return timed([](auto... arguments) { return cudaLaunchKernel(arguments...); },
               [] { return cudaGetLastError(); }, isChecked, stream);
}
inline std::int64_t timedPlainly(cudaStream_t stream, bool isChecked, bool isEmulated) {
  // Otherwise the driver-level hook would count it as a library's launch.
  tally::hooks::InHook unseen;
  if (isEmulated)
    return timed(tally::hooks::api().cudaLaunchKernel, tally::hooks::api().cudaGetLastError,
                 isChecked, stream);
  return timed([](auto... arguments) { return __real_cudaLaunchKernel(arguments...); },
               [] { return __real_cudaGetLastError(); }, isChecked, stream);
}

struct Times {
  std::vector<std::int64_t> each;
  /// -1 of none.
  long long quantile(double q) {
    if (each.empty())
      return -1;
    auto place =
        each.begin() + static_cast<std::ptrdiff_t>(q * static_cast<double>(each.size() - 1));
    std::nth_element(each.begin(), place, each.end());
    return *place;
  }
};

/// Calls of one kind: all calls, and those behind a plain and behind a hooked call.
struct Calls {
  Times all, behind[2];
  void add(std::int64_t time, bool behindHooked) {
    all.each.push_back(time);
    behind[behindHooked].each.push_back(time);
  }
};

struct LaunchTimes {
  bool areChecked = false; ///< a call of cudaGetLastError follows each launch, as in frameworks
  Calls plain, hooked;
  bool lastWasHooked = false;
  const bool isEmulated = &tally::hooks::api() != &tally::hooks::realApi();

  /// Calls `prepare()` in front of the launch.
  template <class Prepare> void add(cudaStream_t stream, std::mt19937 &random, Prepare prepare) {
    bool isHooked = random() % 2 == 0;
    prepare();
    bool behindHooked = std::exchange(lastWasHooked, isHooked);
    if (isHooked)
      hooked.add(timedByHook(stream, areChecked), behindHooked);
    else
      plain.add(timedPlainly(stream, areChecked, isEmulated), behindHooked);
  }
  void print(const std::string &name) {
    long long half[2] = {plain.all.quantile(0.5), hooked.all.quantile(0.5)};
    long long tail[2] = {plain.all.quantile(0.99), hooked.all.quantile(0.99)};
    std::printf("%s: median %lld ns plain, %lld hooked, %+lld added; P99 %lld plain, %lld hooked, "
                "%+lld added (%zu and %zu launches)\n",
                name.c_str(), half[0], half[1], half[1] - half[0], tail[0], tail[1],
                tail[1] - tail[0], plain.all.each.size(), hooked.all.each.size());
  }
  /// Prints the times by the kind of the launch before, which shows the after-effect of that
  /// launch.
  void printBehind() {
    for (bool behindHooked : {false, true})
      std::printf("  behind a %s one: median %lld ns plain, %lld hooked\n",
                  behindHooked ? "hooked" : "plain", plain.behind[behindHooked].quantile(0.5),
                  hooked.behind[behindHooked].quantile(0.5));
  }
};

} // namespace launch_times

#endif
