#include "check.h"

#include "../input.h"
#include "../ptx_text.h"
#include "../target.h"
#include "../workload.h"

#include <fmt/format.h>

#include <iterator>

namespace tally::verify {

namespace {

/// Warp-instructions of a launch; a generated kernel takes some ten thousand.
constexpr std::uint64_t stepLimit = std::uint64_t{1} << 22;

KernelCheck failedAt(Stage stage, std::string message) {
  KernelCheck result;
  result.failure = CheckFailure{stage, Kind::Slice, std::move(message)};
  return result;
}

/// Reports a grid that the variants do not take: the runtime launches the user's kernel for it.
KernelCheck refusedFor(std::string_view reason, const CheckOptions &options) {
  KernelCheck result;
  for (Kind kind : options.kinds) {
    KindReport report;
    report.kind = kind;
    report.outcome = Outcome::Refused;
    result.kinds.push_back(report);
    result.reasons.emplace_back(reason);
  }
  return result;
}

VerifyOptions verifyOptions(std::uint64_t seed, const CheckOptions &options) {
  VerifyOptions result;
  result.kinds = options.kinds;
  result.orderFree = true;
  result.userSchedules = options.userSchedules;
  result.randomPlans = options.randomPlans;
  result.scheduleSeed = seed * 1000003 + 1;
  result.stepLimit = stepLimit;
  return result;
}

Result<Workload> workloadOf(const GeneratedKernel &kernel, const bundle::Bundle &bundle) {
  std::vector<ArgumentSpec> arguments;
  for (const std::string &text : kernel.arguments) {
    auto argument = parseArgument(text);
    if (!argument)
      return argument.error();
    arguments.push_back(std::move(*argument));
  }
  const bundle::Kernel *described = bundle.kernel(kernel.name);
  if (!described)
    return Error{fmt::format("the bundle lacks the kernel '{}'", kernel.name)};
  return verify::workloadOf(*described, kernel.shape, arguments);
}

} // namespace

KernelCheck check(const GeneratedKernel &kernel, std::uint64_t seed, const CheckOptions &options) {
  constexpr std::uint64_t periods[] = {1, 64, 256, 1024};
  auto bundle =
      rewriteToBundle(kernel.text, kernel.name, options.coding, periods[seed % std::size(periods)]);
  if (!bundle)
    return failedAt(Stage::Input, bundle.error().message);
  if (options.plant)
    options.plant(bundle->images.front().bytes);
  auto workload = workloadOf(kernel, *bundle);
  if (!workload)
    return failedAt(Stage::Input, workload.error().message);
  auto target = openMicroscope(*bundle, stepLimit);
  if (!target)
    return failedAt(Stage::Input, target.error().message);
  auto module = parsePtx(kernel.text, kernel.name);
  if (!module)
    return failedAt(Stage::Input, module.error().message);

  const bundle::Kernel &described = *workload->launches.front().kernel;
  if (!described.variantsTake(kernel.shape.grid))
    return refusedFor("grid-rank", options);
  VerifyReport report =
      verify::verify(**target, *workload, moduleVariables(*module), verifyOptions(seed, options));
  if (report.userTrouble)
    return failedAt(Stage::UsersKernel, *report.userTrouble);
  KernelCheck result;
  result.kinds = std::move(report.kinds);
  for (const KindReport &each : result.kinds) {
    const Verdict *verdict = described.verdict(each.kind);
    bool refused = each.outcome == Outcome::Refused && verdict;
    result.reasons.push_back(refused ? std::string(verdict->reason) : std::string());
    if (!result.failure && (each.outcome == Outcome::Wrong || each.outcome == Outcome::Failed))
      result.failure = CheckFailure{Stage::Variant, each.kind, each.message};
  }
  return result;
}

} // namespace tally::verify
