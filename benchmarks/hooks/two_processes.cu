// One of two processes that share a GPU: a server, or a trainer. The program knows nothing of
// tally; two_processes_plain is the same without it. two_processes.py starts and measures both.
//
// Commands come one a line, answers likewise, as JSON; instants are nanoseconds of CLOCK_MONOTONIC,
// which all processes of a machine share:
//
//   rounds BLOCK_US                  the loop's rounds that make a training block take so long
//   serve LAYERS ROUNDS REQUESTS PERIOD_US SEED
//                                    requests of so many kernels, in an open loop
//   train ROUNDS BLOCKS STEP         from now on; answers when it has begun
//   stop BEGIN END                   ends that; kernels a second between the two instants
#include "loads.cuh"

#include <iostream>
#include <memory>
#include <sstream>
#include <string>

namespace {

using namespace colocation;

long long nanoseconds(Clock::time_point at) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(at.time_since_epoch()).count();
}
Clock::time_point instant(long long nanoseconds) {
  return Clock::time_point(std::chrono::nanoseconds(nanoseconds));
}

void print(const char *name, const std::vector<double> &values) {
  std::printf(", \"%s\": [", name);
  for (std::size_t i = 0; i < values.size(); ++i)
    std::printf("%s%.2f", i == 0 ? "" : ", ", values[i]);
  std::printf("]");
}

void serve(std::istream &words) {
  ServerOptions options;
  std::size_t requests = 0;
  double period = 0;
  std::uint64_t seed = 0;
  words >> options.layers >> options.rounds >> requests >> period >> seed;
  // Of each size one, since nothing of it is given back.
  static std::vector<std::pair<unsigned, std::unique_ptr<Server>>> servers;
  Server *server = nullptr;
  for (const auto &[layers, known] : servers)
    if (layers == options.layers)
      server = known.get();
  if (!server)
    server = servers.emplace_back(options.layers, new Server(options)).second.get();
  server->serve(20, period, seed); // warms up
  RequestLog log = server->serve(requests, period, seed);
  std::printf("{\"begin\": %lld, \"end\": %lld, \"active\": %.5f", nanoseconds(log.begin),
              nanoseconds(log.end), log.activeFraction());
  print("latency_us", log.latencies);
  print("first_launch_us", log.firstLaunches);
  std::printf("}\n");
}

std::unique_ptr<Trainer> trainer;

void train(std::istream &words) {
  TrainerOptions options;
  words >> options.rounds >> options.blocks >> options.kernelsPerStep;
  trainer = std::make_unique<Trainer>(options);
  trainer->start();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  std::printf("{\"now\": %lld}\n", nanoseconds(Clock::now()));
}

void stop(std::istream &words) {
  long long begin = 0, end = 0;
  words >> begin >> end;
  trainer->stop();
  std::printf("{\"kernels_per_s\": %.3f, \"wrong\": %zu}\n",
              trainer->kernelsPerSecond(instant(begin), instant(end)), trainer->wrongResults());
  trainer.reset();
}

} // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string command;
    words >> command;
    if (command == "rounds") {
      double blockTime = 0;
      words >> blockTime;
      std::printf("{\"rounds\": %d}\n", trainingRounds(blockTime));
    } else if (command == "serve") {
      serve(words);
    } else if (command == "train") {
      train(words);
    } else if (command == "stop") {
      stop(words);
    } else {
      std::fprintf(stderr, "two_processes: what is '%s'?\n", line.c_str());
      return 2;
    }
    std::fflush(stdout);
  }
  if (trainer)
    trainer->stop();
  // Memory is given back while there is a device.
  trainer.reset();
}
