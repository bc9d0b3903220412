// The verdict of every own kernel and kind against test/execution/verdicts.txt. A refusal where
// `emitted` is expected fails, and so does a variant where a refusal is, a reason that changed, a
// kernel that is not in the table, and a row without a kernel.
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
