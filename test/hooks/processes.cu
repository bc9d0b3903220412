// A CUDA C++ program that does not mention Tally. The tests of several processes start it, send it
// commands and kill it:
//
//   processes train
//     launches that follow each other; checks that each block ran exactly once
//   processes mark FILE
//     launches whose blocks count in FILE that they have begun, and later that they have ended
//   processes serve
//     short bursts of launches, with pauses of up to 2 ms
//   processes obey
//     answers each line of its input: `begin` puts work on a stream that lasts until `end`, `await`
//     waits until it has begun; `reset` resets the device; `fork` makes a child and says how it
//     ended; `terminate-child` makes one that waits, sends it SIGTERM and says so too; `terminate`
//     sends it to itself; `handle` sets a handler for SIGTERM, `ignore` has it ignored, and
//     `handled` says how often the handler ran
//
// It ends at the end of its input. After an error it prints the error and exits with 3.
#include <cuda_runtime.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <random>
#include <string>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

void must(cudaError_t status, const char *what) {
  if (status == cudaSuccess)
    return;
  std::fprintf(stderr, "processes: %s: %s\n", what, cudaGetErrorName(status));
  std::exit(3);
}
#define MUST(call) must(call, #call)

__global__ void accumulate(unsigned long long *counts, int rounds) {
  if (threadIdx.x == 0)
    counts[blockIdx.x] += 1;
  float x = threadIdx.x;
  for (int i = 0; i < rounds; ++i)
    x = x * 1.0001f + 0.5f;
  if (x < 0)
    counts[blockIdx.x] = 0;
}

__global__ void mark(volatile unsigned *begun, volatile unsigned *ended, int rounds) {
  if (threadIdx.x == 0)
    begun[blockIdx.x] += 1;
  float x = threadIdx.x;
  for (int i = 0; i < rounds; ++i)
    x = x * 1.0001f + 0.5f;
  __syncthreads();
  if (threadIdx.x == 0 && x > 0)
    ended[blockIdx.x] += 1;
}

bool inputEnded() {
  pollfd input{0, POLLIN, 0};
  char ignored = 0;
  return poll(&input, 1, 0) > 0 && read(0, &ignored, 1) <= 0;
}

bool isEmulated() {
  const char *device = std::getenv("TALLY_DEVICE");
  return device && std::strcmp(device, "emulator") == 0;
}

// On a GPU: many waves of blocks of about 20 us.
const unsigned blocks = isEmulated() ? 512 : 1 << 16;
const int rounds = isEmulated() ? 10 : 8000;

void train() {
  unsigned long long *counts = nullptr;
  std::vector<unsigned long long> seen(blocks);
  cudaStream_t stream;
  MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  MUST(cudaMalloc(&counts, blocks * sizeof *counts));
  MUST(cudaMemsetAsync(counts, 0, blocks * sizeof *counts, stream));
  for (unsigned long long launches = 1; !inputEnded(); ++launches) {
    accumulate<<<blocks, 32, 0, stream>>>(counts, rounds);
    MUST(cudaGetLastError());
    if (launches % 4 != 0)
      continue;
    MUST(cudaMemcpyAsync(seen.data(), counts, blocks * sizeof *counts, cudaMemcpyDeviceToHost,
                         stream));
    MUST(cudaStreamSynchronize(stream));
    for (unsigned long long count : seen)
      if (count != launches) {
        std::fprintf(stderr, "processes: a block ran %llu times in %llu launches\n", count,
                     launches);
        std::exit(3);
      }
  }
}

void markIn(const char *path) {
  const std::size_t bytes = 2 * blocks * sizeof(unsigned);
  int file = open(path, O_RDWR);
  void *shared = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (shared == MAP_FAILED)
    std::exit(3);
  cudaStream_t stream;
  MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  MUST(cudaHostRegister(shared, bytes, cudaHostRegisterMapped));
  void *counts = nullptr;
  MUST(cudaHostGetDevicePointer(&counts, shared, 0));
  auto *begun = static_cast<unsigned *>(counts);
  while (!inputEnded()) {
    for (int i = 0; i < 4; ++i)
      mark<<<blocks, 32, 0, stream>>>(begun, begun + blocks, 10 * rounds);
    MUST(cudaStreamSynchronize(stream));
  }
}

void serve() {
  unsigned long long *counts = nullptr;
  cudaStream_t stream;
  MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  MUST(cudaMalloc(&counts, 8 * sizeof *counts));
  std::mt19937_64 random(static_cast<unsigned>(getpid()));
  while (!inputEnded()) {
    for (int i = 0; i < 4; ++i)
      accumulate<<<8, 32, 0, stream>>>(counts, rounds);
    MUST(cudaGetLastError());
    MUST(cudaStreamSynchronize(stream));
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 2000));
  }
}

std::atomic<bool> mayEnd{false}, isUnderWay{false};

void waitForEnd(void *) {
  isUnderWay = true;
  while (!mayEnd)
    std::this_thread::sleep_for(std::chrono::microseconds(100));
}

/// The child has none of the parent's threads. It exits, like a child whose exec failed, or a
/// signal ends it.
const char *endOfChild(bool exits) {
  pid_t child = fork();
  if (child == 0) {
    alarm(20);
    if (exits)
      std::exit(0);
    for (;;)
      pause();
  }
  if (!exits)
    kill(child, SIGTERM);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status))
    return "exited";
  return WTERMSIG(status) == SIGTERM ? "was terminated" : "was killed";
}

std::atomic<int> handled{0};

void obey() {
  unsigned long long *counts = nullptr;
  cudaStream_t stream;
  auto open = [&] {
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    MUST(cudaMalloc(&counts, blocks * sizeof *counts));
  };
  char line[64];
  while (std::fgets(line, sizeof line, stdin)) {
    const char *answer = "done";
    if (std::strcmp(line, "begin\n") == 0) {
      if (!counts)
        open();
      mayEnd = isUnderWay = false;
      accumulate<<<8, 32, 0, stream>>>(counts, rounds);
      MUST(cudaLaunchHostFunc(stream, waitForEnd, nullptr));
    } else if (std::strcmp(line, "await\n") == 0) {
      while (!isUnderWay)
        std::this_thread::sleep_for(std::chrono::microseconds(100));
    } else if (std::strcmp(line, "end\n") == 0) {
      mayEnd = true;
      MUST(cudaStreamSynchronize(stream));
    } else if (std::strcmp(line, "reset\n") == 0) {
      MUST(cudaDeviceReset());
      counts = nullptr;
    } else if (std::strcmp(line, "fork\n") == 0) {
      answer = endOfChild(true);
    } else if (std::strcmp(line, "terminate-child\n") == 0) {
      answer = endOfChild(false);
    } else if (std::strcmp(line, "terminate\n") == 0) {
      kill(getpid(), SIGTERM);
    } else if (std::strcmp(line, "handle\n") == 0) {
      signal(SIGTERM, [](int) { ++handled; });
    } else if (std::strcmp(line, "ignore\n") == 0) {
      signal(SIGTERM, SIG_IGN);
    } else if (std::strcmp(line, "handled\n") == 0) {
      answer = handled == 0 ? "never" : handled == 1 ? "once" : "more than once";
    } else {
      std::exit(3);
    }
    std::printf("%s\n", answer);
    std::fflush(stdout);
  }
  mayEnd = true;
  if (counts)
    MUST(cudaStreamSynchronize(stream));
}

} // namespace

int main(int count, char **arguments) {
  // The process dies with the test, even when the test is killed.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::string role = count > 1 ? arguments[1] : "";
  if (role == "train")
    train();
  else if (role == "mark" && count > 2)
    markIn(arguments[2]);
  else if (role == "serve")
    serve();
  else if (role == "obey")
    obey();
  else
    return 2;
}
