// Speed of the rewriter in bytes of PTX a second on one core, stage by stage, without ptxas:
//
//   parse      text -> module
//   print      module -> text
//   rewrite    analyses and variants of slice, guard and persistent, with all bodies of the module
//   in
//              memory
//   whole      text -> text with these variants, in the way of the tool: one body at a time,
//   written
//              through a buffer of 1 MiB
//
// The last two stages run once more with all five kinds, as rewrite-five and whole-five. The input
// is a generated module of 1, 10 and 100 MB, and then the .ptx files named on the command line (or
// below a directory named there), one after the other. The program counts processor time.
//
//   ptx_benchmark [google-benchmark's options] [FILE|DIRECTORY...]
//   ptx_benchmark --memory[=BYTES]        only prints peak memory of `whole` over the input's size
//   ptx_benchmark --memory-five[=BYTES]   the same for `whole-five`
#include "generated_module.h"

#include "tally/ptx/syntax/parser.h"
#include "tally/ptx/syntax/printer.h"
#include "tally/ptx/transforms/rewriter.h"

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace {

using namespace tally::ptx;
using Texts = std::vector<std::string>;

/// The kinds that poll between blocks; the design's target refers to them.
constexpr KindSet threeKinds = onSlice | onGuard | onPersistent;

const Texts &generated(std::int64_t bytes) {
  static std::map<std::int64_t, Texts> made;
  Texts &texts = made[bytes];
  if (texts.empty())
    texts.push_back(tally::benchmarks::generateModule(static_cast<std::size_t>(bytes)));
  return texts;
}

std::size_t sizeOf(const Texts &texts) {
  std::size_t bytes = 0;
  for (const std::string &text : texts)
    bytes += text.size();
  return bytes;
}

/// Returns the result of parse() or rewriteText(); ends the program if the input does not parse.
template <class Result> Result good(std::variant<Result, Diagnostic> result) {
  if (auto *diagnostic = std::get_if<Diagnostic>(&result)) {
    fmt::print(stderr, "ptx_benchmark: does not parse: {}\n", diagnostic->message);
    std::exit(1);
  }
  return std::move(std::get<Result>(result));
}

void countBytes(benchmark::State &state, const Texts &texts) {
  state.SetBytesProcessed(static_cast<std::int64_t>(sizeOf(texts)) * state.iterations());
}

void parseStage(benchmark::State &state, const Texts &texts) {
  for (auto _ : state)
    for (const std::string &text : texts) {
      Module module = good(parse(text));
      benchmark::DoNotOptimize(module);
    }
  countBytes(state, texts);
}

/// Stages that need a module, parsed before the measured time begins.
template <class Stage> void withModules(benchmark::State &state, const Texts &texts, Stage stage) {
  std::vector<Module> modules;
  for (const std::string &text : texts)
    modules.push_back(good(parse(text)));
  for (auto _ : state)
    for (const Module &module : modules)
      stage(module);
  countBytes(state, texts);
}

void printStage(benchmark::State &state, const Texts &texts) {
  withModules(state, texts, [&](const Module &module) {
    if (print(module) != module.source())
      state.SkipWithError("the module does not print back");
  });
}

template <KindSet kinds> void rewriteStage(benchmark::State &state, const Texts &texts) {
  withModules(state, texts, [&](const Module &module) {
    auto kernels = rewrite(module, {kinds});
    benchmark::DoNotOptimize(kernels);
  });
}

std::size_t runWhole(std::string text, KindSet kinds) {
  auto [module, kernels] = good(rewriteText(std::move(text), {kinds}));
  std::vector<char> buffer(1 << 20);
  std::size_t bytes = 0, used = 0;
  writeWithVariants(module, kernels, [&](std::string_view piece) {
    bytes += piece.size();
    while (!piece.empty()) {
      if (used == buffer.size())
        used = 0; // the tool would write to a file here
      std::size_t part = std::min(piece.size(), buffer.size() - used);
      std::copy_n(piece.data(), part, buffer.data() + used);
      used += part;
      piece.remove_prefix(part);
    }
  });
  benchmark::DoNotOptimize(buffer.data());
  return bytes;
}

template <KindSet kinds> void wholeStage(benchmark::State &state, const Texts &texts) {
  std::size_t out = 0;
  for (auto _ : state) {
    out = 0;
    for (const std::string &text : texts)
      out += runWhole(text, kinds);
  }
  countBytes(state, texts);
  state.counters["out/in"] = static_cast<double>(out) / static_cast<double>(sizeOf(texts));
}

struct Stage {
  const char *name;
  void (*run)(benchmark::State &, const Texts &);
};
constexpr Stage stages[] = {{"parse", parseStage},
                            {"print", printStage},
                            {"rewrite", rewriteStage<threeKinds>},
                            {"whole", wholeStage<threeKinds>},
                            {"rewrite-five", rewriteStage<everyKind>},
                            {"whole-five", wholeStage<everyKind>}};

Texts readAll(const std::vector<std::string> &paths) {
  Texts texts;
  auto read = [&](const std::filesystem::path &path) {
    std::ifstream stream(path, std::ios::binary);
    texts.emplace_back(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
    if (!stream) {
      fmt::print(stderr, "ptx_benchmark: cannot read {}\n", path.string());
      std::exit(1);
    }
  };
  for (const std::string &path : paths)
    if (std::filesystem::is_directory(path)) {
      for (const auto &entry : std::filesystem::recursive_directory_iterator(path))
        if (entry.path().extension() == ".ptx")
          read(entry.path());
    } else {
      read(path);
    }
  return texts;
}

/// Prints the peak memory of this process. The input's text counts once, as in the tool.
int reportMemory(std::size_t bytes, KindSet kinds) {
  std::string text = tally::benchmarks::generateModule(bytes);
  std::size_t in = text.size(), out = runWhole(std::move(text), kinds);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  double peak = static_cast<double>(usage.ru_maxrss) * 1024;
  fmt::print("input {:.1f} MB, output {:.1f} MB, peak memory {:.1f} MB: {:.1f}x the input\n",
             static_cast<double>(in) / 1e6, static_cast<double>(out) / 1e6, peak / 1e6,
             peak / static_cast<double>(in));
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  benchmark::Initialize(&argc, argv);
  std::vector<std::string> paths(argv + 1, argv + argc);
  if (!paths.empty() && paths[0].starts_with("--memory")) {
    std::size_t equals = paths[0].find('=');
    return reportMemory(equals == std::string::npos
                            ? 100'000'000
                            : std::strtoull(paths[0].c_str() + equals + 1, nullptr, 10),
                        paths[0].starts_with("--memory-five") ? everyKind : threeKinds);
  }
  for (std::int64_t bytes : {1'000'000, 10'000'000, 100'000'000})
    for (const Stage &stage : stages)
      benchmark::RegisterBenchmark(
          fmt::format("generated/{}MB/{}", bytes / 1'000'000, stage.name).c_str(),
          [bytes, stage](benchmark::State &state) { stage.run(state, generated(bytes)); })
          ->Unit(benchmark::kMillisecond);
  const Texts files = readAll(paths);
  if (!files.empty())
    for (const Stage &stage : stages)
      benchmark::RegisterBenchmark(
          fmt::format("files/{}", stage.name).c_str(),
          [&files, stage](benchmark::State &state) { stage.run(state, files); })
          ->Unit(benchmark::kMillisecond);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
