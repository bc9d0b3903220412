#include "compare.h"

#include "children.h"
#include "generate.h"
#include "order.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <optional>

#include <unistd.h>

namespace tally::programs {

namespace {

/// Programs that a child runs one after another.
constexpr std::uint64_t chunk = 250;

using Hashes = std::map<std::uint64_t, std::vector<std::string>>;

/// A file that the destructor removes.
class ProgramFile {
public:
  explicit ProgramFile(const Program &program) {
    const char *folder = std::getenv("TMPDIR");
    name = std::string(folder ? folder : "/tmp") + "/stream_program_" + std::to_string(getpid());
    std::ofstream(name) << print(program);
  }
  ~ProgramFile() { std::remove(name.c_str()); }
  std::string argument() const { return "--file=" + name; }

private:
  std::string name;
};

/// The way in which the test runs a program to find a difference.
struct Trial {
  const Mode &mode;
  int runs;                                ///< so often in one process
  const std::vector<std::string> &options; ///< of the generator
  std::uint64_t seed;
  std::uint64_t before = 0; ///< programs of the seeds before `seed` that the process runs first

  std::vector<std::string> words(const ProgramFile &file, int repeat) const {
    std::vector<std::string> all = options;
    all.insert(all.end(), {file.argument(), "--seed=" + std::to_string(seed),
                           "--before=" + std::to_string(before),
                           "--repeat=" + std::to_string(repeat), "--run"});
    return all;
  }
};

/// Returns whether the mode gives another result than plain runs, in one of several runs.
bool differs(const Program &program, const Trial &trial) {
  ProgramFile file(program);
  auto hashesOf = [&](const Mode &how, int count) {
    std::vector<std::string> hashes;
    ChildResult result = runChild(how, trial.words(file, count), 15,
                                  [&](const std::string &line) { hashes.push_back(line); });
    if (!result.finished)
      hashes.push_back(result.ending);
    return hashes;
  };
  std::vector<std::string> plain = hashesOf(plainMode(), 1);
  std::vector<std::string> other = hashesOf(trial.mode, trial.runs);
  return plain.size() != 1 || std::any_of(other.begin(), other.end(),
                                          [&](const auto &each) { return each != plain[0]; });
}

bool isAdmitted(const Program &program) {
  Order order(program);
  return std::all_of(program.operations.begin(), program.operations.end(),
                     [&](const Operation &each) { return order.admit(each); });
}

/// Removes operations as long as the rest has one answer and still differs.
Program reduce(Program program, const Trial &trial) {
  for (std::size_t size = program.operations.size() / 2; size > 0; size /= 2)
    for (std::size_t first = 0; first < program.operations.size();) {
      Program less = program;
      auto begin = less.operations.begin() + static_cast<std::ptrdiff_t>(first);
      std::size_t left = std::min(size, program.operations.size() - first);
      less.operations.erase(begin, begin + static_cast<std::ptrdiff_t>(left));
      if (isAdmitted(less) && differs(less, trial))
        program = std::move(less);
      else
        first += left;
    }
  return program;
}

std::vector<std::string> textOf(const Program &program, const Mode &mode, const Trial &trial) {
  ProgramFile file(program);
  std::vector<std::string> lines, words = trial.words(file, 1);
  words.push_back("--text");
  ChildResult result =
      runChild(mode, words, 15, [&](const std::string &line) { lines.push_back(line); });
  if (!result.finished)
    lines.push_back(result.ending);
  return lines;
}

void showFirstDifference(const Program &program, const Trial &trial) {
  std::vector<std::string> plain = textOf(program, plainMode(), trial);
  for (int i = 0; i < trial.runs; ++i) {
    std::vector<std::string> other = textOf(program, trial.mode, trial);
    for (std::size_t at = 0; at < std::max(plain.size(), other.size()); ++at) {
      std::string left = at < plain.size() ? plain[at] : "(nothing)";
      std::string right = at < other.size() ? other[at] : "(nothing)";
      if (left == right)
        continue;
      std::printf("first difference:\n  plain: %s\n  %s: %s\n", left.c_str(),
                  trial.mode.name.data(), right.c_str());
      return;
    }
  }
  std::printf("the difference did not come again\n");
}

Program programOf(const CompareOptions &options, std::uint64_t seed) {
  // As the children make it.
  Program program;
  std::string text;
  std::vector<std::string> arguments = options.arguments;
  arguments.insert(arguments.end(), {"--seed=" + std::to_string(seed), "--print"});
  runChild(plainMode(), arguments, options.patience,
           [&](const std::string &line) { text += line + "\n"; });
  return parse(text).value_or(program);
}

void explain(const CompareOptions &options, std::uint64_t seed, const Mode &mode) {
  Trial trial{mode, std::max(10, options.runs), options.arguments, seed};
  Program program = programOf(options, seed);
  std::printf("program %llu in mode %s: ", static_cast<unsigned long long>(seed), mode.name.data());
  while (!differs(program, trial)) {
    if (trial.before >= std::min(seed - options.seed, chunk)) {
      std::printf("the difference does not come again\n");
      return;
    }
    trial.before =
        std::min({std::max<std::uint64_t>(2 * trial.before, 1), seed - options.seed, chunk});
  }
  if (trial.before != 0)
    std::printf("behind the %llu before it, ", static_cast<unsigned long long>(trial.before));
  std::printf("%zu operations, reduced to ", program.operations.size());
  std::fflush(stdout);
  program = reduce(std::move(program), trial);
  std::printf("%zu:\n%s", program.operations.size(), print(program).c_str());
  showFirstDifference(program, trial);
}

ChildResult runChunk(const CompareOptions &options, const Mode &mode, std::uint64_t first,
                     std::uint64_t count, int repeat, Hashes &hashes) {
  std::vector<std::string> arguments = options.arguments;
  arguments.insert(arguments.end(),
                   {"--run", "--seed=" + std::to_string(first),
                    "--programs=" + std::to_string(count), "--repeat=" + std::to_string(repeat)});
  std::uint64_t ended = 0;
  return runChild(mode, arguments, options.patience, [&](const std::string &line) {
    if (line.starts_with("FAILED")) {
      std::printf("%s\n", line.c_str());
      return;
    }
    hashes[first + ended++ / static_cast<std::uint64_t>(repeat)].push_back(line);
  });
}

/// Returns the first program that differs; nothing where all are equal.
std::optional<std::uint64_t> compareChunk(const CompareOptions &options, const Mode &mode,
                                          std::uint64_t first, std::uint64_t count,
                                          const Hashes &plain, int &differences, Counts &counts) {
  Hashes hashes;
  ChildResult result = runChunk(options, mode, first, count, options.runs, hashes);
  counts.throughVariants += result.counts.throughVariants;
  counts.copies += result.counts.copies;
  counts.nonPreemptible += result.counts.nonPreemptible;
  counts.atOnce += result.counts.atOnce;
  counts.waits += result.counts.waits;
  counts.yields += result.counts.yields;
  std::optional<std::uint64_t> found;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const std::vector<std::string> &got = hashes[seed];
    bool equal = static_cast<int>(got.size()) == options.runs &&
                 std::all_of(got.begin(), got.end(),
                             [&](const auto &each) { return each == plain.at(seed)[0]; });
    if (equal)
      continue;
    ++differences;
    if (!found)
      std::printf("DIFFERS: program %llu in mode %s%s%s\n", static_cast<unsigned long long>(seed),
                  mode.name.data(), result.finished ? "" : ": ", result.ending.c_str());
    found = found.value_or(seed);
    if (!result.finished && got.empty())
      break; // it ended there
  }
  if (!found && !result.finished) {
    std::printf("DIFFERS: mode %s: %s\n", mode.name.data(), result.ending.c_str());
    ++differences;
  }
  return found;
}

bool isWanted(const CompareOptions &options, const Mode &mode) {
  return options.modes.empty() ||
         std::find(options.modes.begin(), options.modes.end(), mode.name) != options.modes.end();
}

} // namespace

int compare(const CompareOptions &options) {
  int differences = 0;
  std::map<std::string_view, Counts> counts;
  std::optional<std::pair<std::uint64_t, const Mode *>> toExplain;
  for (std::uint64_t done = 0; done < options.programs; done += chunk) {
    std::uint64_t first = options.seed + done, count = std::min(chunk, options.programs - done);
    Hashes plain;
    ChildResult result = runChunk(options, plainMode(), first, count, 1, plain);
    if (!result.finished || plain.size() != count) {
      std::printf("FAILED: program %llu in the plain way: %s\n",
                  static_cast<unsigned long long>(first + plain.size()), result.ending.c_str());
      return differences + 1;
    }
    for (const Mode &mode : tallyModes())
      if (isWanted(options, mode))
        if (auto found =
                compareChunk(options, mode, first, count, plain, differences, counts[mode.name]);
            found && !toExplain)
          toExplain = {*found, &mode};
    if (toExplain)
      break;
  }
  for (const auto &[mode, each] : counts)
    std::printf(
        "%-16s best effort: %llu launches through variants, %llu non-preemptible, %llu at once, "
        "%llu yields, %llu copies and fills by kernels, %llu waits on the device\n",
        mode.data(), each.throughVariants, each.nonPreemptible, each.atOnce, each.yields,
        each.copies, each.waits);
  if (toExplain)
    explain(options, toExplain->first, *toExplain->second);
  return differences;
}

} // namespace tally::programs
