// A server that marks the begin and the end of its requests. The same source is linked with Tally,
// and without it: then its calls do nothing.
//
//   begin [NAME]      a request on a stream, nothing is put there; answers with what the call
//   returned nest              one more, on another thread and stream, which both have from then on
//   end               ends the last begun request, on another thread; answers likewise
//   library           begins and ends a request in a shared library that is not linked with Tally
//   best-effort       begins one on a stream of the lowest priority, where there is another one
//   serve COUNT NAME DEADLINE_US SEED
//                     requests of a few kernels each, of which every eighth takes 8 ms longer;
//                     answers with its own measurements: count, missed deadlines, and the two
//                     requests around P50 and around P99, in microseconds
//
// It ends at the end of its input. After an error it prints the error and exits with 3.
#include "tally/request.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <random>
#include <sstream>
#include <string>
#include <sys/prctl.h>
#include <thread>
#include <vector>

extern "C" int requestOfLibrary(cudaStream_t stream);

namespace {

using Clock = std::chrono::steady_clock;

void must(cudaError_t status, const char *what) {
  if (status == cudaSuccess)
    return;
  std::fprintf(stderr, "server: %s: %s\n", what, cudaGetErrorName(status));
  std::exit(3);
}
#define MUST(call) must(call, #call)

__global__ void accumulate(unsigned long long *counts, int rounds) {
  float x = threadIdx.x;
  for (int i = 0; i < rounds; ++i)
    x = x * 1.0001f + 0.5f;
  if (threadIdx.x == 0 && x > 0)
    counts[blockIdx.x] += 1;
}

constexpr unsigned blocks = 8;
cudaStream_t streams[2];
unsigned long long *counts = nullptr;

void launch() {
  accumulate<<<blocks, 32, 0, streams[0]>>>(counts, 50);
  MUST(cudaGetLastError());
}

std::string around(const std::vector<double> &sorted, double fraction) {
  auto rank = static_cast<std::size_t>(fraction * static_cast<double>(sorted.size()));
  return " " + std::to_string(sorted[rank - 1]) + " " + std::to_string(sorted[rank]);
}

std::string serve(std::istream &words) {
  int count = 0;
  long deadline = 0;
  unsigned seed = 0;
  std::string name;
  words >> count >> name >> deadline >> seed;
  std::mt19937 random(seed);
  std::vector<double> took;
  int missed = 0;
  for (int i = 0; i < count; ++i) {
    auto begun = Clock::now(), ended = begun;
    {
      tally::RequestScope request(streams[0], name.c_str(), std::chrono::microseconds(deadline));
      for (unsigned each = random() % 4; each < 4; ++each)
        launch();
      MUST(cudaStreamSynchronize(streams[0]));
      std::this_thread::sleep_for(
          std::chrono::microseconds(random() % 2000 + (i % 8 == 0 ? 8000 : 0)));
      // A waiting thread gets the core after the end, on machines with few cores.
      ended = Clock::now();
    }
    std::chrono::duration<double, std::micro> latency = ended - begun;
    took.push_back(latency.count());
    missed += deadline != 0 && latency.count() > static_cast<double>(deadline);
  }
  std::sort(took.begin(), took.end());
  return std::to_string(count) + " " + std::to_string(missed) + around(took, 0.5) +
         around(took, 0.99);
}

std::vector<tally_request> openRequests;

std::string beginOne(const std::string &name) {
  tally_request_options options = {sizeof options, name.empty() ? nullptr : name.c_str(), 0};
  tally_request request = 0;
  int status = tally_request_begin(streams[0], &options, &request);
  openRequests.push_back(request);
  return std::to_string(status) + (request != 0 ? " counted" : " nothing");
}

std::string nest() {
  int status = 0;
  std::thread([&] {
    tally_request request = 0;
    status = tally_request_begin(streams[1], nullptr, &request);
    if (status == 0)
      status = tally_request_add_stream(request, streams[0]);
    openRequests.push_back(request);
  }).join();
  return std::to_string(status);
}

std::string endLast() {
  int status = 0;
  std::thread([&] { status = tally_request_end(openRequests.back()); }).join();
  openRequests.pop_back();
  return std::to_string(status);
}

std::string bestEffort() {
  int least = 0, greatest = 0;
  MUST(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  cudaStream_t low, high;
  MUST(cudaStreamCreateWithPriority(&low, cudaStreamNonBlocking, least));
  MUST(cudaStreamCreateWithPriority(&high, cudaStreamNonBlocking, greatest));
  tally::RequestScope request(low);
  return std::to_string(request.status());
}

} // namespace

int main() {
  // The process dies with the test, even when the test is killed.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (cudaStream_t &each : streams)
    MUST(cudaStreamCreateWithFlags(&each, cudaStreamNonBlocking));
  MUST(cudaMalloc(&counts, blocks * sizeof *counts));
  launch();
  MUST(cudaStreamSynchronize(streams[0]));
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string command, name, answer;
    words >> command;
    if (command == "begin") {
      words >> name;
      answer = beginOne(name);
    } else if (command == "nest") {
      answer = nest();
    } else if (command == "end") {
      answer = endLast();
    } else if (command == "library") {
      answer = std::to_string(requestOfLibrary(streams[0]));
    } else if (command == "best-effort") {
      answer = bestEffort();
    } else if (command == "serve") {
      answer = serve(words);
    } else {
      return 2;
    }
    std::printf("%s\n", answer.c_str());
    std::fflush(stdout);
  }
}
