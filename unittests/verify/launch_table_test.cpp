// The launch table is complete: every own kernel that has a variant has a line in
// test/execution/launches.txt, every line has its kernel, and its options parse.
#include "input.h"
#include "options.h"
#include "table.h"
#include "workload.h"

#include <doctest/doctest.h>

#include <map>
#include <set>
#include <string>

using namespace tally;
using namespace tally::verify;

namespace {

/// Returns the options of a line as the runner would pass them to tally-verify.
Result<Options> optionsOf(const std::vector<std::string> &row) {
  std::string kernel = "--kernel=" + row[1];
  std::vector<std::string_view> arguments = {row[0], kernel};
  arguments.insert(arguments.end(), row.begin() + 2, row.end());
  return parseOptions(arguments);
}

void checkRow(const std::vector<std::string> &row, const bundle::Kernel &kernel) {
  CHECK_MESSAGE(kernel.hasVariants(), row[1]);
  auto options = optionsOf(row);
  REQUIRE_MESSAGE(options, row[1], ": ", options.error().message);
  CHECK_MESSAGE(options->verify.kinds.size() == allKinds.size(), row[1], " leaves out kinds");
  auto workload = workloadOf(kernel, options->shape, options->arguments);
  CHECK_MESSAGE(workload, workload.error().message);
}

} // namespace

TEST_CASE("every kernel with a variant has a launch, and every launch a kernel") {
  std::map<std::string, bundle::Bundle> bundles;
  for (const std::string &file : ownPtxFiles()) {
    auto bundle = rewriteToBundle(readText(sourceRoot() / file), file);
    REQUIRE_MESSAGE(bundle, bundle.error().message);
    bundles.emplace(file, std::move(*bundle));
  }
  std::set<std::string> launched;
  for (const auto &row : readTable(sourceRoot() / "test/execution/launches.txt")) {
    REQUIRE_MESSAGE(row.size() >= 3, row.front());
    auto found = bundles.find(row[0]);
    REQUIRE_MESSAGE(found != bundles.end(), "no such file: ", row[0]);
    const bundle::Kernel *kernel = found->second.kernel(row[1]);
    REQUIRE_MESSAGE(kernel, "no such kernel: ", row[1]);
    checkRow(row, *kernel);
    launched.insert(row[0] + " " + row[1]);
  }
  for (const auto &[file, bundle] : bundles)
    for (const bundle::Kernel &kernel : bundle.kernels)
      if (kernel.hasVariants())
        CHECK_MESSAGE(launched.contains(file + " " + kernel.name), "no launch of ", file, " ",
                      kernel.name);
}
