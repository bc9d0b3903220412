// Compares the verdict of every own kernel and kind with test/execution/verdicts.txt. The test
// fails for a refusal where `emitted` is expected, a variant where a refusal is expected, a changed
// reason, a kernel without rows, and a row without a kernel.
#include "input.h"
#include "table.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

using namespace tally;
using namespace tally::verify;

TEST_CASE("verdicts are those of the table") {
  std::vector<std::string> files = ownPtxFiles();
  for (const std::string &file : files) {
    auto bundle = rewriteToBundle(readText(sourceRoot() / file), file);
    REQUIRE_MESSAGE(bundle, bundle.error().message);
    CHECK_MESSAGE(!bundle->kernels.empty(), file);
    for (const std::string &difference : differencesOfVerdicts(file, *bundle))
      FAIL_CHECK(difference);
  }
  for (const auto &row : readTable(sourceRoot() / "test/execution/verdicts.txt"))
    CHECK_MESSAGE(std::ranges::find(files, row.front()) != files.end(),
                  "no such file: ", row.front());
}
