// One of two processes that share a GPU: a server, or a trainer. The program does not use tally,
// except to name requests; two_processes_plain is the same program without tally, where a name has
// no effect. two_processes.py and requests.py start and measure both.
//
// Each line of the input is a command, each line of the output an answer in JSON. Instants are
// nanoseconds of CLOCK_MONOTONIC, which all processes of a machine share:
//
//   rounds BLOCK_US                  the turns of a loop that take a training block BLOCK_US
//   serve LAYERS ROUNDS REQUESTS PERIOD_US SEED
//                                    requests of so many kernels, in an open loop
//   name LAYERS ROUNDS REQUESTS PERIOD_US SEED
//                                    the same, each within a tally::RequestScope
//   cost PAIRS                       nanoseconds of a begin and an end of a request
//   train ROUNDS BLOCKS STEP         starts training; answers when it has begun
//   stop BEGIN END                   ends training; kernels a second between the two instants
#include "commands.cuh"

#include "tally/request.h"

namespace {

using namespace colocation;

/// A server that names its requests on demand.
class NamingServer : public Server {
public:
  using Server::Server;
  RequestLog serveNamed(std::size_t count, double meanPeriod, std::uint64_t seed) {
    tally_request request = 0;
    tally_request_options named = {sizeof named, "request", 0};
    return serveOpenLoop(
        count, meanPeriod, seed,
        [&] {
          tally_request_begin(requestStream(), &named, &request);
          launchFirst();
        },
        [&] {
          launchRest();
          tally_request_end(request);
        },
        [](bool) {});
  }
};

void serve(std::istream &words, bool areNamed) {
  ServerOptions options;
  std::size_t requests = 0;
  double period = 0;
  std::uint64_t seed = 0;
  words >> options.layers >> options.rounds >> requests >> period >> seed;
  auto &server = serverOf<NamingServer>(options);
  server.serve(20, period, seed); // warms up
  RequestLog log =
      areNamed ? server.serveNamed(requests, period, seed) : server.serve(requests, period, seed);
  printRequests(log);
}

/// Times each call by itself, less the cost of the clock, and then pairs of calls without a clock
/// between them.
void cost(std::istream &words) {
  std::size_t pairs = 1;
  words >> pairs;
  static cudaStream_t stream = makeStream(priorities().high);
  using Nanoseconds = std::chrono::duration<double, std::nano>;
  std::vector<double> clock, begins, ends;
  tally_request request = 0;
  for (std::size_t i = 0; i < pairs; ++i) {
    auto zero = Clock::now(), first = Clock::now();
    tally_request_begin(stream, nullptr, &request);
    auto second = Clock::now();
    tally_request_end(request);
    auto third = Clock::now();
    clock.push_back(Nanoseconds(first - zero).count());
    begins.push_back(Nanoseconds(second - first).count());
    ends.push_back(Nanoseconds(third - second).count());
  }
  auto begun = Clock::now();
  for (std::size_t i = 0; i < pairs; ++i) {
    tally_request_begin(stream, nullptr, &request);
    tally_request_end(request);
  }
  double pair = Nanoseconds(Clock::now() - begun).count() / static_cast<double>(pairs);
  std::printf("{\"begin_ns\": %.1f, \"end_ns\": %.1f, \"clock_ns\": %.1f, \"pair_ns\": %.1f}\n",
              median(begins) - median(clock), median(ends) - median(clock), median(clock), pair);
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

void rounds(std::istream &words) {
  double blockTime = 0;
  words >> blockTime;
  std::printf("{\"rounds\": %d}\n", trainingRounds(blockTime));
}

} // namespace

int main() {
  int status = obey({{"rounds", rounds},
                     {"serve", [](std::istream &words) { serve(words, false); }},
                     {"name", [](std::istream &words) { serve(words, true); }},
                     {"cost", cost},
                     {"train", train},
                     {"stop", stop}});
  if (trainer)
    trainer->stop();
  // The trainer frees its memory while the device still exists.
  trainer.reset();
  return status;
}
