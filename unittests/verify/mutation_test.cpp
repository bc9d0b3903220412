// Tests the tests: plants every mutant of mutants.cpp, one at a time; the test that the mutant's
// row names must see it. A checker that misses a planted defect proves nothing by passing. A mutant
// that changes nothing is an error, so that the table stays up to date.
#include "generator/check.h"
#include "generator/generate.h"
#include "input.h"
#include "mutants.h"
#include "options.h"
#include "ptx_text.h"
#include "table.h"
#include "verify.h"
#include "workload.h"

#include "tally/ptx/transforms/rewriter.h"
#include "tally/ptx/transforms/verify.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>

using namespace tally;
using namespace tally::verify;

namespace {

/// Limit of a launch's steps, for mutants that make launches endless.
constexpr std::uint64_t stepLimit = std::uint64_t{1} << 22;

/// A line of launches.txt.
struct Subject {
  std::string file;
  Options options;
};

Subject subjectOfRow(const std::vector<std::string> &row) {
  std::string option = "--kernel=" + row[1];
  std::vector<std::string_view> arguments = {row[0], option};
  arguments.insert(arguments.end(), row.begin() + 2, row.end());
  auto options = parseOptions(arguments);
  REQUIRE_MESSAGE(options, options.error().message);
  return {row[0], *options};
}

/// Finds the subject by the name of a kernel, possibly with options of tally-verify behind it, or
/// by a line in the form of launches.txt.
Subject subjectOf(const std::string &text) {
  using Row = std::vector<std::string>;
  static const std::map<std::string, Row> rows = [] {
    std::map<std::string, Row> result;
    for (const auto &row : readTable(sourceRoot() / "test/execution/launches.txt"))
      result.emplace(row[1], row);
    return result;
  }();
  std::istringstream fields(text);
  Row words{std::istream_iterator<std::string>(fields), {}};
  if (words[0].find('/') != std::string::npos)
    return subjectOfRow(words);
  auto found = rows.find(words[0]);
  REQUIRE_MESSAGE(found != rows.end(), "launches.txt has no kernel ", words[0]);
  Row row = found->second;
  row.insert(row.end(), words.begin() + 1, words.end());
  return subjectOfRow(row);
}

std::string sourceOf(const Subject &subject) { return readText(sourceRoot() / subject.file); }

/// The bundle of `text` with every entry of `kind` changed by `change`, and the result of the
/// structural check.
struct Rewritten {
  bundle::Bundle bundle;
  std::optional<std::string> broken;
};

Rewritten rewritten(std::string text, const std::string &coding, Kind kind,
                    const std::function<void(std::string &entry)> &change = {}) {
  auto module = parsePtx(std::move(text), "subject");
  REQUIRE_MESSAGE(module, module.error().message);
  ptx::RewriteOptions options;
  options.coding = coding;
  options.polls.period = defaultPollPeriod;
  auto kernels = ptx::rewrite(*module, options);
  for (ptx::RewrittenKernel &kernel : kernels)
    for (ptx::Variant &variant : kernel.variants)
      for (ptx::EditedText &entry : variant.entries)
        if (change && variant.verdict.kind == kind) {
          std::string text = entry.str();
          change(text);
          entry = std::move(text);
        }
  Rewritten result;
  result.broken = ptx::verifyVariants(*module, kernels);
  for (const ptx::RewrittenKernel &kernel : kernels)
    result.bundle.kernels.push_back(ptx::describe(kernel));
  result.bundle.images.push_back(
      {bundle::ImageFormat::Ptx, module->targetArch(), ptx::textWithVariants(*module, kernels)});
  return result;
}

/// Returns the error that tally-verify finds in `kind`; nothing where the results agree. For a
/// bundle whose PTX cannot run, returns that error.
std::optional<std::string> wrongWith(const bundle::Bundle &bundle, const Subject &subject,
                                     Kind kind, const Sabotage *sabotage = nullptr) {
  const bundle::Kernel *kernel = bundle.kernel(subject.options.kernel);
  REQUIRE(kernel);
  auto workload = workloadOf(*kernel, subject.options.shape, subject.options.arguments);
  REQUIRE_MESSAGE(workload, workload.error().message);
  auto target = openMicroscope(bundle, stepLimit);
  if (!target)
    return target.error().message;
  Saboteur saboteur(std::move(*target), sabotage ? *sabotage : Sabotage{},
                    kernel->tallyParameterOffset());
  VerifyOptions options = subject.options.verify;
  options.kinds = {kind};
  auto text = ptxOf(bundle);
  REQUIRE(text);
  auto module = parsePtx(std::string(*text), subject.file);
  REQUIRE_MESSAGE(module, module.error().message);
  VerifyReport report = verify::verify(saboteur, *workload, moduleVariables(*module), options);
  REQUIRE_MESSAGE(!report.userTrouble, *report.userTrouble);
  REQUIRE(report.kinds.size() == 1);
  REQUIRE_MESSAGE(report.kinds[0].outcome != Outcome::Refused, report.kinds[0].message);
  CHECK_MESSAGE((!sabotage || saboteur.changes > 0), "nothing was changed");
  if (report.kinds[0].outcome == Outcome::Ok)
    return std::nullopt;
  return report.kinds[0].message;
}

/// Returns the error that tally-verify finds in the first generated kernel that shows one, among
/// the kernels that CI runs.
std::optional<std::string> wrongWithGenerated(const TextMutant &mutant) {
  std::regex pattern(mutant.from);
  CheckOptions options;
  options.kinds = {mutant.kind};
  options.plant = [&](std::string &text) {
    std::size_t variants = text.find(bundle::entryName("generated", Kind::Slice));
    if (variants != std::string::npos)
      text =
          text.substr(0, variants) + std::regex_replace(text.substr(variants), pattern, mutant.to);
  };
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    KernelCheck result = check(emit(generate(seed)), seed, options);
    if (result.failure)
      return fmt::format("seed {}: {}", seed, result.failure->message);
  }
  return std::nullopt;
}

/// Prints one line for a mutant: the planted defect, and the test that saw it.
void say(const char *rule, const char *name, std::string_view where,
         const std::optional<std::string> &caught) {
  std::string text = caught ? caught->substr(0, caught->find('\n')) : "NOT CAUGHT";
  fmt::print("{}: {} ({}) -> {}\n", rule, name, where, text.substr(0, 130));
}

template <class Mutant> std::string placeOf(const Mutant &mutant) {
  if (mutant.subject == std::string_view("generated"))
    return fmt::format("{}, generated", name(mutant.kind));
  Subject subject = subjectOf(mutant.subject);
  return fmt::format("{}, {}", name(mutant.kind), subject.options.kernel);
}

} // namespace

TEST_CASE("the subjects are right as long as nothing is planted") {
  std::set<std::pair<std::string, Kind>> subjects;
  for (const TextMutant &mutant : textMutants())
    if (mutant.subject != std::string_view("generated"))
      subjects.emplace(mutant.subject, mutant.kind);
  for (const HostMutant &mutant : hostMutants())
    subjects.emplace(mutant.subject, mutant.kind);
  for (const auto &[kernel, kind] : subjects) {
    Subject subject = subjectOf(kernel);
    Rewritten plain = rewritten(sourceOf(subject), subject.options.coding, kind);
    CHECK_MESSAGE(!plain.broken, *plain.broken);
    auto wrong = wrongWith(plain.bundle, subject, kind);
    CHECK_MESSAGE(!wrong, kernel, " ", name(kind), ": ", *wrong);
  }
}

TEST_CASE("changes of the emitted text are caught") {
  for (const TextMutant &mutant : textMutants()) {
    CAPTURE(mutant.name);
    CAPTURE(mutant.subject);
    if (mutant.subject == std::string_view("generated")) {
      auto caught = wrongWithGenerated(mutant);
      say(mutant.rule, mutant.name, placeOf(mutant), caught);
      CHECK(caught);
      continue;
    }
    Subject subject = subjectOf(mutant.subject);
    std::regex pattern(mutant.from);
    std::size_t changes = 0;
    Rewritten planted =
        rewritten(sourceOf(subject), subject.options.coding, mutant.kind, [&](std::string &entry) {
          std::string changed = std::regex_replace(entry, pattern, mutant.to);
          changes += changed != entry;
          entry = changed;
        });
    CHECK_MESSAGE(changes > 0, "the mutant applies nowhere");
    std::optional<std::string> caught;
    if (planted.broken)
      caught = "--verify-each: " + *planted.broken;
    else
      caught = wrongWith(planted.bundle, subject, mutant.kind);
    say(mutant.rule, mutant.name, placeOf(mutant), caught);
    CHECK(caught);
  }
}

TEST_CASE("statements that the rewriter overlooks are caught") {
  for (const BlindMutant &mutant : blindMutants()) {
    CAPTURE(mutant.name);
    CAPTURE(mutant.subject);
    Subject subject = subjectOf(mutant.subject);
    std::string source = sourceOf(subject);
    std::string hidden =
        std::regex_replace(source, std::regex(mutant.hidden), "/*overlooked $&overlooked*/");
    CHECK_MESSAGE(hidden != source, "the mutant applies nowhere");
    Rewritten planted = rewritten(hidden, subject.options.coding, mutant.kind);
    std::string &text = planted.bundle.images.front().bytes;
    text = std::regex_replace(text, std::regex(R"(/\*overlooked |overlooked\*/)"), "");
    auto caught = wrongWith(planted.bundle, subject, mutant.kind);
    say(mutant.rule, mutant.name, placeOf(mutant), caught);
    CHECK(caught);
  }
}

TEST_CASE("launches that break the ABI are caught") {
  for (const HostMutant &mutant : hostMutants()) {
    CAPTURE(mutant.name);
    CAPTURE(mutant.subject);
    Subject subject = subjectOf(mutant.subject);
    Sabotage sabotage = mutant.sabotage();
    auto caught =
        wrongWith(rewritten(sourceOf(subject), subject.options.coding, mutant.kind).bundle, subject,
                  mutant.kind, &sabotage);
    say(mutant.rule, mutant.name, placeOf(mutant), caught);
    CHECK(caught);
  }
}

TEST_CASE("verdicts that are not the rewriter's are caught") {
  for (const VerdictMutant &mutant : verdictMutants()) {
    CAPTURE(mutant.name);
    Subject subject = subjectOf(mutant.subject);
    bundle::Bundle bundle =
        rewritten(sourceOf(subject), subject.options.coding, Kind::Slice).bundle;
    CHECK(differencesOfVerdicts(subject.file, bundle).empty());
    mutant.change(bundle);
    auto differences = differencesOfVerdicts(subject.file, bundle);
    std::optional<std::string> caught;
    if (!differences.empty())
      caught = "verdicts.txt: " + differences.front();
    say(mutant.rule, mutant.name, mutant.subject, caught);
    CHECK(caught);
  }
}
