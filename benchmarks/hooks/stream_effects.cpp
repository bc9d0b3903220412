// The effect of streams that had kernels on a graph launched later, within one process. Work that
// goes from a stream of all SMs to a stream of a green context leaves two such streams.
//
//   stream_effects [--requests=N] [--way=NUMBER]
//
// A request is a graph of 200 short kernels, one behind the other. Each row has a process of its
// own, since the effect lasts as long as the process: the program measures requests, puts kernels
// on other streams in the row's way, 300 unless the row says how many, waits for their end, and
// measures requests again.
// Prints medians of N (500) requests in microseconds, and their ratio. --way: only this row, from
// 0. The program needs a GPU without other work.
#include "marking_kernel.h"

#include "device/green_context.h"

#include <cuda_runtime.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace {

using namespace marking;

constexpr int kernelsOfRequest = 200, kernelsBefore = 300;
constexpr unsigned blocks = 132;

class Measurement {
public:
  Measurement() {
    check(cudaStreamCreateWithFlags(&requests, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    cudaGraph_t graph = nullptr;
    check(cudaStreamBeginCapture(requests, cudaStreamCaptureModeThreadLocal), "begin capture");
    for (int i = 0; i < kernelsOfRequest; ++i)
      kernel.launch(requests, blocks);
    check(cudaStreamEndCapture(requests, &graph), "end capture");
    check(cudaGraphInstantiate(&request, graph, 0), "cudaGraphInstantiate");
    cudaDeviceProp device{};
    check(cudaGetDeviceProperties(&device, 0), "cudaGetDeviceProperties");
    every = static_cast<std::uint32_t>(device.multiProcessorCount);
  }

  double requestOf(int count) {
    return median(count, [&] {
      check(cudaGraphLaunch(request, requests), "cudaGraphLaunch");
      check(cudaStreamSynchronize(requests), "cudaStreamSynchronize");
    });
  }

  /// Puts kernels on the streams in turns, each kernel behind the one before.
  void use(const std::vector<cudaStream_t> &streams) {
    cudaEvent_t event = nullptr;
    check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    for (int i = 0; i < kernelsBefore; ++i)
      for (cudaStream_t stream : streams) {
        check(cudaStreamWaitEvent(stream, event, 0), "cudaStreamWaitEvent");
        kernel.launch(stream, blocks);
        check(cudaEventRecord(event, stream), "cudaEventRecord");
      }
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }
  /// Puts `count` kernels on a plain stream, and when they are over as many on another.
  void useInARow(int count) {
    for (cudaStream_t stream : {plain(), plain()}) {
      for (int i = 0; i < count; ++i)
        kernel.launch(stream, blocks);
      check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    }
  }
  /// Fills memory on one stream, or copies it to the host, while another has kernels.
  void useBeside(std::size_t bytes, bool isCopied) {
    void *memory = nullptr;
    check(cudaMalloc(&memory, bytes), "cudaMalloc");
    std::vector<char> host(isCopied ? bytes : 0);
    cudaStream_t stream = plain();
    for (int i = 0; i < kernelsBefore; ++i)
      if (isCopied)
        check(cudaMemcpyAsync(host.data(), memory, bytes, cudaMemcpyDeviceToHost, stream),
              "cudaMemcpyAsync");
      else
        check(cudaMemsetAsync(memory, i, bytes, stream), "cudaMemsetAsync");
    use({plain()});
    check(cudaFree(memory), "cudaFree");
  }
  /// Runs a kernel in another context of the process.
  static void useOtherContext() {
    CUcontext own = nullptr, other = nullptr;
    auto current = entry<decltype(cuCtxSetCurrent)>("cuCtxSetCurrent");
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    // The function of this name has had the same parameters since CUDA 3.2.
    auto create = reinterpret_cast<CUresult (*)(CUcontext *, unsigned, CUdevice)>(
        driver ? dlsym(driver, "cuCtxCreate_v2") : nullptr);
    if (!create || entry<decltype(cuCtxGetCurrent)>("cuCtxGetCurrent")(&own) != CUDA_SUCCESS ||
        create(&other, 0, 0) != CUDA_SUCCESS)
      fail("no other context was made");
    MarkingKernel().launch(nullptr, blocks);
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    if (current(own) != CUDA_SUCCESS)
      fail("the other context is still current");
  }

  cudaStream_t plain() {
    cudaStream_t stream = nullptr;
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    return stream;
  }
  cudaStream_t green(std::uint32_t sms) {
    tally::Result<CUstream> stream = streams.create(0, sms, 0);
    if (!stream)
      fail(stream.error().message);
    return *stream;
  }
  void destroy(cudaStream_t stream) {
    if (!streams.destroy(stream))
      check(cudaStreamDestroy(stream), "cudaStreamDestroy");
  }

  std::uint32_t every = 0; ///< the device's SMs

private:
  MarkingKernel kernel;
  cudaStream_t requests = nullptr;
  cudaGraphExec_t request = nullptr;
  tally::runtime::GreenStreams streams{[](const char *name) { return entry<void>(name); }};
};

struct Way {
  const char *name;
  std::function<void(Measurement &)> act;
};

const Way ways[] = {
    {"nothing", [](Measurement &) {}},
    {"one stream", [](Measurement &with) { with.use({with.plain()}); }},
    {"two streams in turns", [](Measurement &with) { with.use({with.plain(), with.plain()}); }},
    {"two streams, 3 kernels each", [](Measurement &with) { with.useInARow(3); }},
    {"two streams, 10 kernels each", [](Measurement &with) { with.useInARow(10); }},
    {"one stream; fills of 4 KiB on another",
     [](Measurement &with) { with.useBeside(std::size_t{4} << 10, false); }},
    {"one stream; fills of 16 MiB on another",
     [](Measurement &with) { with.useBeside(std::size_t{16} << 20, false); }},
    {"one stream; copies to the host on another",
     [](Measurement &with) { with.useBeside(std::size_t{4} << 10, true); }},
    {"two streams, then in another context",
     [](Measurement &with) {
       with.use({with.plain(), with.plain()});
       with.useOtherContext();
     }},
    {"the legacy stream", [](Measurement &with) { with.use({nullptr}); }},
    {"the legacy stream and another", [](Measurement &with) { with.use({nullptr, with.plain()}); }},
    {"a green context", [](Measurement &with) { with.use({with.green(32)}); }},
    {"one stream; sixteen green contexts have none",
     [](Measurement &with) {
       for (std::uint32_t sms = 8; sms <= 128; sms += 8)
         with.green(sms);
       with.use({with.plain()});
     }},
    {"one stream and a green context",
     [](Measurement &with) { with.use({with.plain(), with.green(32)}); }},
    {"the same, the green context destroyed then",
     [](Measurement &with) {
       cudaStream_t green = with.green(32);
       with.use({with.plain(), green});
       with.destroy(green);
     }},
    {"the same, the plain stream destroyed then",
     [](Measurement &with) {
       cudaStream_t plain = with.plain();
       with.use({plain, with.green(32)});
       with.destroy(plain);
     }},
    {"green contexts of all SMs and of 32",
     [](Measurement &with) { with.use({with.green(with.every), with.green(32)}); }},
};

void measure(const Way &way, int requests) {
  Measurement measured;
  measured.requestOf(requests);
  double before = measured.requestOf(requests);
  way.act(measured);
  measured.requestOf(requests);
  double behind = measured.requestOf(requests);
  std::printf("%-45s %8.1f %8.1f %6.3f\n", way.name, before, behind, behind / before);
}

} // namespace

int main(int argc, char **argv) {
  int requests = 500;
  long only = -1;
  constexpr long count = std::size(ways);
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], "--requests=", 11) == 0) {
      requests = std::atoi(argv[i] + 11);
    } else if (std::strncmp(argv[i], "--way=", 6) == 0) {
      only = std::atol(argv[i] + 6);
    } else {
      std::fprintf(stderr, "usage: stream_effects [--requests=N] [--way=NUMBER]\n");
      return 2;
    }
  }
  if (requests <= 0 || only >= count) {
    std::fprintf(stderr, "stream_effects: N is above 0, and NUMBER below %ld\n", count);
    return 2;
  }
  std::printf("%-45s %8s %8s %6s\n", "kernels before, on", "us", "then, us", "ratio");
  std::fflush(stdout);
  bool failed = false;
  for (long i = only < 0 ? 0 : only; i < (only < 0 ? count : only + 1); ++i) {
    pid_t child = fork();
    if (child == 0) {
      measure(ways[i], requests);
      return 0;
    }
    int status = 0;
    failed |= child < 0 || waitpid(child, &status, 0) != child || status != 0;
  }
  return failed ? 1 : 0;
}
