// A program of CUDA C++ that knows nothing of tally, for the tests of several processes to start,
// to tell what to do, and to kill:
//
//   processes train            launches that follow each other; checks that each block ran exactly
//   once processes serve          short bursts of launches, with pauses of up to 2 ms processes
//   obey           answers each line of its input: `begin` puts work on a stream that lasts
//                            until `end`; `reset` resets the device; `fork` makes a child that
//                            makes the same calls, and says how it ended
//
// It ends when its input does. What went wrong it says and exits with 3.
#include <cuda_runtime.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <poll.h>
#include <random>
#include <string>
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

bool inputEnded() {
  pollfd input{0, POLLIN, 0};
  char ignored = 0;
  return poll(&input, 1, 0) > 0 && read(0, &ignored, 1) <= 0;
}

bool isEmulated() {
  const char *device = std::getenv("TALLY_DEVICE");
  return device && std::strcmp(device, "emulator") == 0;
}

// On a GPU many waves of blocks of about 20 us.
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

std::atomic<bool> mayEnd{false};

void waitForEnd(void *) {
  while (!mayEnd)
    std::this_thread::sleep_for(std::chrono::microseconds(100));
}

/// The child has none of the threads. It exits, as one does whose exec failed.
const char *exitInChild() {
  pid_t child = fork();
  if (child == 0) {
    alarm(20);
    std::exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? "exited" : "was killed";
}

void obey() {
  unsigned long long *counts = nullptr;
  cudaStream_t stream;
  auto open = [&] {
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    MUST(cudaMalloc(&counts, blocks * sizeof *counts));
  };
  open();
  char line[64];
  while (std::fgets(line, sizeof line, stdin)) {
    const char *answer = "done";
    if (std::strcmp(line, "begin\n") == 0) {
      mayEnd = false;
      accumulate<<<8, 32, 0, stream>>>(counts, rounds);
      MUST(cudaLaunchHostFunc(stream, waitForEnd, nullptr));
    } else if (std::strcmp(line, "end\n") == 0) {
      mayEnd = true;
      MUST(cudaStreamSynchronize(stream));
    } else if (std::strcmp(line, "reset\n") == 0) {
      MUST(cudaDeviceReset());
      open();
    } else if (std::strcmp(line, "fork\n") == 0) {
      answer = exitInChild();
    } else {
      std::exit(3);
    }
    std::printf("%s\n", answer);
    std::fflush(stdout);
  }
  mayEnd = true;
  MUST(cudaStreamSynchronize(stream));
}

} // namespace

int main(int count, char **arguments) {
  // Not after a test that was itself killed.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::string role = count > 1 ? arguments[1] : "";
  if (role == "train")
    train();
  else if (role == "serve")
    serve();
  else if (role == "obey")
    obey();
  else
    return 2;
}
