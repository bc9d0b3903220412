// The core of an inference server in one process: a thread pool serves requests to a transformer
// encoder with high priority while a training step runs back to back as best effort. Measures the
// cost of the sharing, without Tally and with it, and checks every result.
//
//   inference_server                   on the emulator, scaled down
//   inference_server --device=cuda     on the first GPU
//
// Exit status: 0 success; 1 a wrong result, or a failure of the device; 2 a wrong command line.
#include "options.h"
#include "table.h"

#include <cstdio>
#include <exception>
#include <fmt/format.h>

namespace {

using namespace inference_server;

bool writeFile(const std::string &path, const std::string &text) {
  std::FILE *file = std::fopen(path.c_str(), "w");
  if (!file)
    return false;
  bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  return std::fclose(file) == 0 && written;
}

int run(const Options &options) {
  Workload workload(options);
  Measurement measurement = measure(workload, [](std::string_view what) {
    fmt::print(stderr, "-- {}\n", what);
    std::fflush(stderr);
  });
  fmt::print("{}", report(options, measurement));
  if (!options.csv.empty() && !writeFile(options.csv, csv(measurement))) {
    fmt::print(stderr, "inference_server: cannot write {}\n", options.csv);
    return 1;
  }
  return allRight(measurement) ? 0 : 1;
}

} // namespace

int main(int count, char **arguments) {
  auto options = parseOptions(count, arguments);
  if (!options) {
    fmt::print(stderr, "inference_server: {}\n", options.error().message);
    return 2;
  }
  if (!*options) {
    fmt::print("{}", helpText());
    return 0;
  }
  if ((*options)->bundle.empty())
    (*options)->bundle = INFERENCE_SERVER_BUNDLE;
  try {
    return run(**options);
  } catch (const std::exception &trouble) {
    fmt::print(stderr, "inference_server: {}\n", trouble.what());
    return 1;
  }
}
