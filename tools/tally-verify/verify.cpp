#include "verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace tally::verify {

namespace {

class Verifier {
public:
  Verifier(Target &target, const Workload &workload, std::span<const ModuleVariable> variables,
           const VerifyOptions &options)
      : target(target), workload(workload), variables(variables), options(options) {}

  VerifyReport run();

private:
  void runUserKernels();
  void limitVariants();
  std::optional<KindReport> refusal(Kind kind) const;
  KindReport verifyKind(Kind kind);
  bool runPlan(KindReport &report, const YieldPlan &plan);
  bool isExact() const { return options.orderFree || report.bitwiseStable; }
  Comparison comparisonFor(ElementType type) const;
  std::optional<std::string> difference(const RunResult &got) const;

  Target &target;
  const Workload &workload;
  std::span<const ModuleVariable> variables;
  const VerifyOptions &options;
  VerifyReport report;
  RunResult expected;
  PlanShape shape;
};

Comparison Verifier::comparisonFor(ElementType type) const {
  if (isExact())
    return {CompareMode::Exact};
  return options.compare ? *options.compare : defaultComparison(type);
}

std::optional<std::string> Verifier::difference(const RunResult &got) const {
  for (std::size_t i = 0; i < expected.memory.size(); ++i) {
    bool isBuffer = i < workload.buffers.size();
    std::size_t variable = i - workload.buffers.size();
    ElementType type = isBuffer ? workload.buffers[i].type : variables[variable].type;
    const std::string &where = isBuffer ? workload.buffers[i].name : variables[variable].name;
    auto found = firstDifference(type, expected.memory[i], got.memory[i], comparisonFor(type));
    if (found)
      return fmt::format("{} element {}: expected {}, got {}", where, found->index,
                         toText(type, found->expected), toText(type, found->got));
  }
  return std::nullopt;
}

void Verifier::runUserKernels() {
  emulator::Schedule schedule = quietPlan(shape).schedule;
  target.setStepLimit(options.stepLimit.value_or(defaultUserSteps));
  auto first = runUser(target, workload, variables, schedule);
  report.userRuns = 1;
  if (!first) {
    report.userTrouble = first.error().message;
    return;
  }
  expected = std::move(*first);
  // Tests the verdict's claim that the order of blocks does not matter.
  for (std::uint64_t seed = 1; seed <= options.userSchedules && isExact(); ++seed) {
    schedule.seed = options.scheduleSeed + seed;
    auto again = runUser(target, workload, variables, schedule);
    ++report.userRuns;
    if (!again)
      report.userTrouble = again.error().message;
    else if (auto differs = difference(*again))
      report.userTrouble = fmt::format("called bitwise stable, but with schedule seed {} {}",
                                       schedule.seed, *differs);
    if (report.userTrouble)
      return;
  }
}

/// Limits the instructions of variants, to tell a launch that waits for a block that has left from
/// a long launch. A launch of a variant does at most the work of the user's kernels, and polls. The
/// limit allows 64 warp-instructions for each thread-instruction of the user's kernels: under a
/// random schedule waiting blocks may spin for a while.
void Verifier::limitVariants() {
  constexpr std::uint64_t least = std::uint64_t{1} << 24, most = std::uint64_t{1} << 48;
  if (!options.stepLimit)
    target.setStepLimit(least + 64 * std::min(target.executed(), most));
}

/// Runs one plan; false where the run went wrong.
bool Verifier::runPlan(KindReport &kindReport, const YieldPlan &plan) {
  auto got = runVariant(target, workload, variables, kindReport.kind, plan);
  ++kindReport.runs;
  std::optional<std::string> trouble;
  if (!got)
    trouble = got.error().message;
  else
    trouble = difference(*got);
  if (trouble) {
    kindReport.outcome = Outcome::Wrong;
    kindReport.message = fmt::format("{}; {}", *trouble, toText(plan, kindReport.kind));
    return false;
  }
  kindReport.physicalLaunches += got->physicalLaunches;
  kindReport.yields += got->yields;
  kindReport.saved += got->saved;
  if (plan.request == RequestKind::Quiet && kindReport.runs == 1)
    kindReport.polls = got->polls;
  return true;
}

/// Returns the report of a kind that some kernel of the workload lacks.
std::optional<KindReport> Verifier::refusal(Kind kind) const {
  for (const KernelLaunch &launch : workload.launches) {
    const Verdict *verdict = launch.kernel->verdict(kind);
    bool emitted = verdict && verdict->status == Status::Emitted;
    if (emitted && launch.kernel->variantsTake(launch.shape.grid))
      continue;
    KindReport kindReport;
    kindReport.kind = kind;
    if (emitted) {
      kindReport.outcome = Outcome::Refused;
      kindReport.message = fmt::format("for this grid: the blocks wait for lower ones, which is "
                                       "shown for grids of up to {} dimensions",
                                       launch.kernel->gridRank);
      return kindReport;
    }
    kindReport.outcome =
        verdict && verdict->status == Status::Failed ? Outcome::Failed : Outcome::Refused;
    kindReport.message =
        verdict ? fmt::format("{} at line {}: {}", verdict->reason, verdict->line, verdict->message)
                : "the bundle holds no verdict";
    return kindReport;
  }
  return std::nullopt;
}

KindReport Verifier::verifyKind(Kind kind) {
  if (auto refused = refusal(kind))
    return *refused;
  KindReport kindReport;
  kindReport.kind = kind;
  if (!runPlan(kindReport, quietPlan(shape)))
    return kindReport;
  PlanShape planShape = shape;
  planShape.polls = kindReport.polls;
  planShape.stormLaunches = options.stormLaunches;
  for (const YieldPlan &plan : plansFor(kind, options.yield, planShape))
    if (!runPlan(kindReport, plan))
      break;
  return kindReport;
}

VerifyReport Verifier::run() {
  shape.blocks = 0;
  report.bitwiseStable = true;
  for (const KernelLaunch &launch : workload.launches) {
    shape.blocks += launch.shape.grid.count();
    report.bitwiseStable &= launch.kernel->bitwiseStable;
  }
  shape.wave = waveOf(workload.launches.front().shape.grid.count());
  shape.isMicroscope = target.isMicroscope();
  shape.randomPlans = options.randomPlans;
  shape.scheduleSeed = options.scheduleSeed;
  // Without a variant there is no result to compare, and this target may be unable to run the
  // kernel, for example one that waits for its whole grid.
  bool hasVariant = std::ranges::any_of(options.kinds, [&](Kind kind) { return !refusal(kind); });
  if (hasVariant)
    runUserKernels();
  if (report.userTrouble)
    return report;
  limitVariants();
  for (Kind kind : options.kinds)
    report.kinds.push_back(verifyKind(kind));
  return report;
}

std::string kindLine(const KindReport &report, bool isMicroscope) {
  switch (report.outcome) {
  case Outcome::Refused:
    return fmt::format("refused: {}", report.message);
  case Outcome::Failed:
    return fmt::format("failed to assemble: {}", report.message);
  case Outcome::Wrong:
    return fmt::format("WRONG in run {}: {}", report.runs, report.message);
  case Outcome::Ok:
    break;
  }
  std::string line = fmt::format("ok, {} runs, {} launches", report.runs, report.physicalLaunches);
  if (report.kind != Kind::Slice) {
    line += fmt::format(", {} of them yielded", report.yields);
    if (report.kind == Kind::Checkpoint)
      line += fmt::format(", {} blocks saved", report.saved);
    if (isMicroscope)
      line += fmt::format(", {} polls in a quiet run", report.polls);
  }
  return line;
}

} // namespace

Comparison defaultComparison(ElementType type) {
  return isFloat(type) ? Comparison{CompareMode::Ulp, 256} : Comparison{CompareMode::Sorted};
}

bool VerifyReport::good() const {
  return !userTrouble && std::ranges::none_of(kinds, [](const KindReport &each) {
    return each.outcome == Outcome::Wrong || each.outcome == Outcome::Failed;
  });
}

VerifyReport verify(Target &target, const Workload &workload,
                    std::span<const ModuleVariable> variables, const VerifyOptions &options) {
  return Verifier(target, workload, variables, options).run();
}

std::string toText(const VerifyReport &report, const Workload &workload,
                   const VerifyOptions &options) {
  std::string names;
  for (const KernelLaunch &launch : workload.launches)
    names += (names.empty() ? "" : ", ") + launch.kernel->name;
  std::string text;
  auto out = std::back_inserter(text);
  if (report.userTrouble) {
    fmt::format_to(out, "{} user's kernel: WRONG: {}\n", names, *report.userTrouble);
    return text;
  }
  if (report.userRuns == 0)
    fmt::format_to(out, "{} user's kernel: not run, as there is no variant of it\n", names);
  else if (report.bitwiseStable)
    fmt::format_to(out, "{} user's kernel: {} runs, bitwise stable, compared exactly\n", names,
                   report.userRuns);
  else
    fmt::format_to(out, "{} user's kernel: {} runs, order-dependent, compared {}\n", names,
                   report.userRuns,
                   options.compare ? toText(*options.compare)
                                   : "by default: integers sorted, floats within ulp:256");
  for (const KindReport &kind : report.kinds)
    fmt::format_to(out, "{} {}: {}\n", names, name(kind.kind), kindLine(kind, kind.polls != 0));
  return text;
}

} // namespace tally::verify
