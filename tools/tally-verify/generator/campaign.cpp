#include "campaign.h"

#include "reduce.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <mutex>
#include <thread>

namespace tally::verify {

namespace {

constexpr std::size_t maxThreads = 64;
/// Seed + 1 of the kernel that each thread is checking; 0: none.
std::atomic<std::uint64_t> underWay[maxThreads];

Result<void> writeFile(const std::filesystem::path &path, std::string_view content) {
  std::ofstream stream(path, std::ios::binary);
  stream << content;
  stream.close();
  if (!stream)
    return Error{fmt::format("cannot write '{}'", path.string())};
  return {};
}

class Campaign {
public:
  explicit Campaign(const CampaignOptions &options) : options(options) {}

  Result<CampaignReport> run() {
    auto start = std::chrono::steady_clock::now();
    unsigned wanted = options.threads ? options.threads : std::thread::hardware_concurrency();
    {
      std::vector<std::jthread> threads;
      for (unsigned i = 0; i < std::clamp<unsigned>(wanted, 1, maxThreads); ++i)
        threads.emplace_back([this, i] { work(i); });
    }
    std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    report.seconds = taken.count();
    std::ranges::sort(report.failures, {}, &CampaignFailure::seed);
    if (trouble)
      return *trouble;
    return std::move(report);
  }

private:
  void work(unsigned thread) {
    for (;;) {
      std::uint64_t index = next.fetch_add(1);
      if (index >= options.count || stop)
        return;
      std::uint64_t seed = options.seed + index;
      underWay[thread] = seed + 1;
      Program program = generate(seed, options.generate);
      KernelCheck result = check(emit(program), seed, options.check);
      count(result);
      if (result.failure)
        handle(std::move(program), *result.failure);
      underWay[thread] = 0;
    }
  }

  void count(const KernelCheck &result) {
    std::scoped_lock lock(mutex);
    ++report.kernels;
    for (std::size_t i = 0; i < result.kinds.size(); ++i) {
      const KindReport &each = result.kinds[i];
      KindCount &into = report.kinds[each.kind];
      if (each.outcome == Outcome::Refused)
        ++into.refused[result.reasons[i]];
      else
        ++into.emitted;
      into.runs += each.runs;
      into.launches += each.physicalLaunches;
      into.yields += each.yields;
    }
  }

  void handle(Program program, const CheckFailure &failure) {
    {
      std::scoped_lock lock(mutex);
      if (++failed >= options.maxFailures)
        stop = true;
    }
    std::uint64_t seed = program.seed;
    CheckOptions narrow = options.check;
    if (failure.stage == Stage::Variant)
      narrow.kinds = {failure.kind};
    auto fails = [&](const Program &candidate) {
      KernelCheck result = check(emit(candidate), seed, narrow);
      return result.failure && result.failure->like(failure);
    };
    Program small = reduce(std::move(program), fails);
    GeneratedKernel kernel = emit(small);
    KernelCheck last = check(kernel, seed, narrow);
    CampaignFailure entry{seed, failure, last.failure ? last.failure->message : "", {}, 0};
    entry.statements = countStatements(small);
    std::filesystem::path path = options.keep / fmt::format("generated_{}.ptx", seed);
    entry.file = path.string();
    kernel.text = fmt::format("// seed {}: {}\n// {}\n{}", seed, entry.message,
                              launchLine(kernel, entry.file), kernel.text);
    std::scoped_lock lock(mutex);
    if (auto written = writeFile(path, kernel.text); !written)
      trouble = written.error();
    report.failures.push_back(std::move(entry));
  }

  const CampaignOptions &options;
  std::atomic<std::uint64_t> next{0};
  std::atomic<bool> stop{false};
  std::mutex mutex; ///< guards the members below
  unsigned failed = 0;
  CampaignReport report;
  std::optional<Error> trouble;
};

std::string_view stageName(const CheckFailure &failure) {
  switch (failure.stage) {
  case Stage::Input:
    return "rewriting";
  case Stage::UsersKernel:
    return "the generated kernel itself";
  case Stage::Variant:
    break;
  }
  return name(failure.kind);
}

} // namespace

Result<CampaignReport> runCampaign(const CampaignOptions &options) {
  return Campaign(options).run();
}

std::size_t seedsUnderWay(std::uint64_t *seeds, std::size_t capacity) {
  std::size_t found = 0;
  for (const std::atomic<std::uint64_t> &each : underWay)
    if (std::uint64_t value = each.load(); value != 0 && found < capacity)
      seeds[found++] = value - 1;
  return found;
}

std::string toText(const CampaignReport &report) {
  std::string text =
      fmt::format("{} kernels in {:.1f} s, {:.1f} a second\n", report.kernels, report.seconds,
                  static_cast<double>(report.kernels) / std::max(report.seconds, 1e-9));
  for (const auto &[kind, counts] : report.kinds) {
    text += fmt::format("{}: {} emitted ({:.1f} %), {} runs, {} launches, {} of them yielded\n",
                        name(kind), counts.emitted,
                        100.0 * static_cast<double>(counts.emitted) /
                            static_cast<double>(std::max<std::uint64_t>(report.kernels, 1)),
                        counts.runs, counts.launches, counts.yields);
    for (const auto &[reason, number] : counts.refused)
      text += fmt::format("  {} refused: {}\n", number, reason);
  }
  for (const CampaignFailure &failure : report.failures)
    text += fmt::format("FAILED: seed {}, {}: {}\n  reduced to {} statements in {}: {}\n",
                        failure.seed, stageName(failure.failure), failure.failure.message,
                        failure.statements, failure.file, failure.message);
  return text;
}

std::string launchLine(const GeneratedKernel &kernel, const std::string &file) {
  auto dimensions = [](const Dim3 &d) { return fmt::format("{},{},{}", d.x, d.y, d.z); };
  std::string line = fmt::format("{} {} --grid={} --block={}", file, kernel.name,
                                 dimensions(kernel.shape.grid), dimensions(kernel.shape.block));
  if (kernel.shape.dynamicSharedBytes != 0)
    line += fmt::format(" --shared={}", kernel.shape.dynamicSharedBytes);
  for (const std::string &argument : kernel.arguments)
    line += fmt::format(" --arg={}", argument);
  return line + " --compare=exact";
}

Result<void> writeKernels(const CampaignOptions &options, const std::filesystem::path &folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    return Error{fmt::format("cannot make '{}': {}", folder.string(), error.message())};
  std::string lines;
  for (std::uint64_t i = 0; i < options.count; ++i) {
    GeneratedKernel kernel = emit(generate(options.seed + i, options.generate));
    std::string file = fmt::format("generated_{}.ptx", options.seed + i);
    if (auto written = writeFile(folder / file, kernel.text); !written)
      return written;
    lines += launchLine(kernel, file) + "\n";
  }
  return writeFile(folder / "launches.txt", lines);
}

} // namespace tally::verify
