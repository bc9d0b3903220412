// The verdict of every own kernel and kind against test/execution/verdicts.txt. A refusal where
// `emitted` is expected fails, and so does a variant where a refusal is, a reason that changed, a
// kernel that is not in the table, and a row without a kernel.
#include "input.h"
#include "table.h"

#include <doctest/doctest.h>

#include <map>
#include <string>

using namespace tally;
using namespace tally::verify;

namespace {

std::string rowOf(const std::string &file, const bundle::Kernel &kernel) {
  std::string row = file + " " + kernel.name;
  row += kernel.bitwiseStable ? " stable" : " order-dependent";
  for (Kind kind : allKinds) {
    const Verdict *verdict = kernel.verdict(kind);
    REQUIRE(verdict);
    row += " ";
    row += verdict->status == Status::Emitted ? "emitted" : verdict->reason;
  }
  return row;
}

} // namespace

TEST_CASE("verdicts are those of the table") {
  std::map<std::string, std::string> expected; // "file kernel" -> the whole row
  for (const auto &row : readTable(sourceRoot() / "test/execution/verdicts.txt")) {
    REQUIRE_MESSAGE(row.size() == 3 + allKinds.size(), row.front());
    std::string text = row[0];
    for (std::size_t i = 1; i < row.size(); ++i)
      text += " " + row[i];
    CHECK_MESSAGE(expected.emplace(row[0] + " " + row[1], text).second, "twice: ", text);
  }
  for (const std::string &file : ownPtxFiles()) {
    auto bundle = rewriteToBundle(readText(sourceRoot() / file), file);
    REQUIRE_MESSAGE(bundle, bundle.error().message);
    CHECK_MESSAGE(!bundle->kernels.empty(), file);
    for (const bundle::Kernel &kernel : bundle->kernels) {
      std::string key = file + " " + kernel.name, actual = rowOf(file, kernel);
      auto row = expected.find(key);
      if (row == expected.end()) {
        FAIL_CHECK("not in the table: " << actual);
        continue;
      }
      CHECK(row->second == actual);
      expected.erase(row);
    }
  }
  for (const auto &[key, row] : expected)
    FAIL_CHECK("no such kernel: " << row);
}
