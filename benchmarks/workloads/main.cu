// One of the processes that share a GPU: serves a model, trains one, or both. It does not use
// tally: workloads_plain is the same program without tally; workloads_scheduled has tally's
// scheduling but no rewritten kernels. ../run starts and measures them.
//
//   workloads [--priorities=0|1] [--green=SHARE | --green-training=SMS]
//
// `priorities`: requests on a stream of the highest priority, training on one of the lowest; else
// both streams are plain. `green`: the two loads on separate parts of the SMs, training on that
// share of them. `green-training`: training on so many SMs, requests on all of them.
//
// Each line of the input is a command, each line of the output an answer in JSON. Instants are
// nanoseconds of CLOCK_MONOTONIC, which all processes of a machine share:
//
//   facts                             about the machine
//   inference NAME SIZE FORM          loads a model; SIZE: real or small; FORM: launches or graph
//   training NAME SIZE                likewise
//   check                             compares the loaded models with the CPU, for SIZE small
//   capacity REQUESTS SECONDS         requests one behind the other, at least so many and for at
//                                     least so long
//   serve LIMIT FLUSH ARRIVALS...     an open loop; microseconds from now; no request begins after
//                                     LIMIT; FLUSH 1: the L2 is overwritten behind each
//   train                             starts from the beginning; answers when a step is done
//   stop BEGIN END                    ends the training; steps a second between the two instants
//   unload                            frees both models
#include "placement.h"
#include "service.h"

#include <cstring>
#include <iostream>
#include <memory>
#include <sstream>

namespace {

using namespace workloads;

/// A double with all of its digits; null for a value that JSON cannot express.
std::string number(double value) {
  if (!std::isfinite(value))
    return "null";
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

template <class Values, class Text> std::string list(const Values &values, Text text) {
  std::string joined = "[";
  for (const auto &each : values)
    joined += (joined.size() == 1 ? "" : ", ") + text(each);
  return joined + "]";
}

std::string microseconds(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", value);
  return text;
}

/// The bits of a float, for exact comparison of different runs' figures.
std::string bitsOf(float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return std::to_string(bits);
}

class Program {
public:
  explicit Program(const PlacementOptions &options) : placement(options) {}

  /// The answer; empty if the command is unknown.
  std::string answer(const std::string &command, std::istream &words) {
    if (command == "facts")
      return facts();
    if (command == "inference")
      return loadInference(words);
    if (command == "training")
      return loadTraining(words);
    if (command == "unload") {
      server.reset();
      trainer.reset();
      return "{}";
    }
    if (command == "check")
      return checkModels();
    if (server && command == "capacity")
      return capacity(words);
    if (server && command == "serve")
      return serve(words);
    if (trainer && command == "train") {
      trainer->start();
      return "{\"now\": " + std::to_string(nanoseconds(Clock::now())) + "}";
    }
    if (trainer && command == "stop")
      return stop(words);
    return {};
  }

private:
  static long long nanoseconds(Clock::time_point at) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(at.time_since_epoch()).count();
  }
  static Size sizeOf(std::istream &words) {
    std::string size;
    words >> size;
    return size == "small" ? Size::small : Size::real;
  }
  std::string facts() const {
    cudaDeviceProp properties{};
    int driver = 0, runtime = 0;
    check(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
    check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
    check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
    return std::string("{\"gpu\": \"") + properties.name +
           "\", \"sms\": " + std::to_string(properties.multiProcessorCount) +
           ", \"cuda_driver\": " + std::to_string(driver) +
           ", \"cuda_runtime\": " + std::to_string(runtime) + ", \"placement\": \"" +
           placement.description() + "\"}";
  }
  std::string loadInference(std::istream &words) {
    std::string name, form;
    words >> name;
    Size size = sizeOf(words);
    words >> form;
    server.reset();
    auto model = makeInference(name, size, placement.requests());
    if (!model)
      return "{\"error\": \"no such model\"}";
    server = std::make_unique<Server>(std::move(model), placement.requests(), form == "graph");
    return "{\"nodes\": " + std::to_string(server->nodes()) + ", \"digest\": \"" +
           std::to_string(server->digest()) + "\"}";
  }
  std::string loadTraining(std::istream &words) {
    std::string name;
    words >> name;
    Size size = sizeOf(words);
    trainer.reset();
    auto model = makeTraining(name, size, placement.training());
    if (!model)
      return "{\"error\": \"no such model\"}";
    trainer = std::make_unique<Trainer>(std::move(model), placement.training());
    return "{}";
  }
  std::string checkModels() {
    auto text = [](const char *name, const Checked &found) {
      return std::string("\"") + name + "\": {\"error\": " + number(found.largest()) +
             ", \"allowed\": " + number(found.limit()) +
             ", \"right\": " + (found.right() ? "true" : "false") + "}";
    };
    std::string answer = "{";
    if (server)
      answer += text("inference", server->checkModel()) + (trainer ? ", " : "");
    if (trainer)
      answer += text("training", trainer->checkModel());
    return answer + "}";
  }
  std::string capacity(std::istream &words) {
    std::size_t least = 0;
    double seconds = 0;
    words >> least >> seconds;
    return "{\"service_us\": " + list(server->serveClosedLoop(least, seconds), microseconds) + "}";
  }
  std::string serve(std::istream &words) {
    double limit = 0, arrival = 0;
    bool flush = false;
    words >> limit >> flush;
    std::vector<double> arrivals;
    while (words >> arrival)
      arrivals.push_back(arrival);
    RequestLog log = server->serve(arrivals, limit, flush);
    return "{\"begin\": " + std::to_string(nanoseconds(log.begin)) +
           ", \"end\": " + std::to_string(nanoseconds(log.end)) +
           ", \"active\": " + number(log.latencies.empty() ? 0 : log.activeFraction()) +
           ", \"wrong\": " + std::to_string(server->wrongAnswers()) +
           ", \"latency_us\": " + list(log.latencies, microseconds) + "}";
  }
  std::string stop(std::istream &words) {
    long long begin = 0, end = 0;
    words >> begin >> end;
    auto instant = [](long long at) { return Clock::time_point(std::chrono::nanoseconds(at)); };
    trainer->stop();
    return "{\"steps\": " + std::to_string(trainer->steps()) +
           ", \"steps_per_s\": " + number(trainer->stepsPerSecond(instant(begin), instant(end))) +
           ", \"figures\": " + list(trainer->figures(), bitsOf) + "}";
  }

  Placement placement;
  std::unique_ptr<Server> server;
  std::unique_ptr<Trainer> trainer;
};

} // namespace

int main(int argc, char **argv) {
  PlacementOptions options;
  for (int i = 1; i < argc; ++i)
    if (std::strncmp(argv[i], "--priorities=", 13) == 0) {
      options.priorities = argv[i][13] == '1';
    } else if (std::strncmp(argv[i], "--green=", 8) == 0) {
      options.green = std::atof(argv[i] + 8);
    } else if (std::strncmp(argv[i], "--green-training=", 17) == 0) {
      options.greenTraining = static_cast<unsigned>(std::atoi(argv[i] + 17));
    } else {
      std::fprintf(stderr, "workloads: what is '%s'?\n", argv[i]);
      return 2;
    }
  Program program(options);
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string command;
    words >> command;
    std::string answer = program.answer(command, words);
    if (answer.empty()) {
      std::fprintf(stderr, "workloads: '%s' is no command here\n", line.c_str());
      return 2;
    }
    std::printf("%s\n", answer.c_str());
    std::fflush(stdout);
  }
}
