// Random programs of stream operations, which do not mention Tally, run with and without it; see
// docs/design/stream-programs.md.
#include "compare.h"
#include "endure.h"
#include "execute.h"
#include "generate.h"
#include "requests.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>

using namespace tally::programs;

namespace {

const char *const usage =
    R"(stream_programs [OPTION...]: random programs, compared with and without tally

  --seed=N          the first program (1)
  --programs=N      how many (100)
  --modes=A,B       of high, best-effort, ahead, coming-and-going, storm, mixed, mixed-storm,
                    classes, requests (all)
  --runs=N          of each program in each mode (1)
  --operations=N    of a program, about (60)
  --threads=N       of a program (one to four)
  --rounds=N, --words=N   how long kernels are (12), how large buffers (1024)
  --patience=N      seconds without a program's end that are a hang (60)
  --print           writes the program of --seed
  --run             runs in this process, as the environment says, and writes a hash for each program
  --text            ... and each operation's outcome
  --file=NAME       ... of the program in a file
  --repeat=N        ... each so often
  --before=N        ... behind the N programs before --seed, of which nothing is written
  --priorities=none|mixed|lowest, --requests=N   streams' priorities; high-priority work of the
                    process's own about every N microseconds
  --seconds=N       runs the same programs again and again for so long, with requests, and writes what
                    memory and latency come to
)";

struct Options {
  CompareOptions compare;
  GeneratorOptions generator;
  ExecuteOptions execute;
  EndureOptions endure;
  bool print = false, run = false;
  int repeat = 1, requests = 0;
  std::uint64_t before = 0;
  std::string file;
};

std::vector<std::string> split(const std::string &text) {
  std::vector<std::string> words;
  std::istringstream in(text);
  for (std::string word; std::getline(in, word, ',');)
    words.push_back(word);
  return words;
}

/// Whether the option is one that generated programs depend on.
bool readGenerator(const std::string &name, long number, GeneratorOptions &options) {
  if (name == "--operations")
    options.operations = static_cast<int>(std::clamp(number, 2L, 280L));
  else if (name == "--threads")
    options.threads = static_cast<int>(std::clamp(number, 1L, long{maxThreads}));
  else if (name == "--rounds")
    options.rounds = static_cast<std::uint32_t>(std::max(number, 1L));
  else if (name == "--words")
    options.words = static_cast<std::uint32_t>(std::max(number, 64L));
  else
    return false;
  return true;
}

bool readOption(const std::string &text, Options &options) {
  std::size_t equals = text.find('=');
  std::string name = text.substr(0, equals);
  std::string value = equals == std::string::npos ? "" : text.substr(equals + 1);
  long number = std::strtol(value.c_str(), nullptr, 10);
  if (readGenerator(name, number, options.generator))
    options.compare.arguments.push_back(text);
  else if (name == "--seed")
    options.compare.seed = std::strtoull(value.c_str(), nullptr, 10);
  else if (name == "--programs")
    options.compare.programs = std::strtoull(value.c_str(), nullptr, 10);
  else if (name == "--modes")
    options.compare.modes = split(value);
  else if (name == "--runs")
    options.compare.runs = static_cast<int>(std::max(number, 1L));
  else if (name == "--patience")
    options.compare.patience = static_cast<int>(std::max(number, 1L));
  else if (name == "--print")
    options.print = true;
  else if (name == "--run")
    options.run = true;
  else if (name == "--text")
    options.execute.keepText = true;
  else if (name == "--file")
    options.file = value;
  else if (name == "--repeat")
    options.repeat = static_cast<int>(std::max(number, 1L));
  else if (name == "--before")
    options.before = std::strtoull(value.c_str(), nullptr, 10);
  else if (name == "--requests")
    options.requests = static_cast<int>(number);
  else if (name == "--seconds")
    options.endure.seconds = static_cast<int>(number);
  else if (name == "--priorities" && (value == "none" || value == "mixed" || value == "lowest"))
    options.execute.priorities = value == "none"    ? Priorities::None
                                 : value == "mixed" ? Priorities::Mixed
                                                    : Priorities::Lowest;
  else
    return false;
  return true;
}

void write(const Outcome &outcome) {
  for (const std::string &line : outcome.text)
    std::printf("%s\n", line.c_str());
  if (outcome.text.empty())
    std::printf("%016llx\n", static_cast<unsigned long long>(outcome.hash));
  std::fflush(stdout);
}

int runHere(const Options &options) {
  Workers workers;
  std::unique_ptr<Requests> requests;
  if (options.requests > 0)
    requests = std::make_unique<Requests>(std::chrono::microseconds(options.requests));
  for (std::uint64_t i = options.before; i > 0; --i)
    execute(generate(options.compare.seed - i, options.generator), workers, options.execute);
  if (!options.file.empty()) {
    std::ifstream in(options.file);
    auto program = parse(std::string(std::istreambuf_iterator<char>(in), {}));
    if (!program) {
      std::fprintf(stderr, "%s: no program\n", options.file.c_str());
      return 2;
    }
    for (int i = 0; i < options.repeat; ++i)
      write(execute(*program, workers, options.execute));
  } else {
    for (std::uint64_t i = 0; i < options.compare.programs; ++i) {
      Program program = generate(options.compare.seed + i, options.generator);
      for (int run = 0; run < options.repeat; ++run)
        write(execute(program, workers, options.execute));
    }
  }
  if (requests && !requests->allRight())
    std::printf("FAILED: a request's answer was wrong\n");
  return requests && !requests->allRight();
}

} // namespace

int main(int argc, char **argv) {
  Options options;
  for (int i = 1; i < argc; ++i)
    if (!readOption(argv[i], options)) {
      std::fprintf(stderr, "%s", usage);
      return 2;
    }
  if (options.print) {
    std::printf("%s", print(generate(options.compare.seed, options.generator)).c_str());
    return 0;
  }
  if (options.endure.seconds > 0) {
    options.endure.seed = options.compare.seed;
    options.endure.generator = options.generator;
    options.endure.execute = options.execute;
    return endure(options.endure);
  }
  if (options.run)
    return runHere(options);
  int differences = compare(options.compare);
  std::printf("%llu programs from seed %llu: %d differences\n",
              static_cast<unsigned long long>(options.compare.programs),
              static_cast<unsigned long long>(options.compare.seed), differences);
  return differences != 0;
}
