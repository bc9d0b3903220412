// The doctor's report.
#include "report.h"

#include <doctest/doctest.h>

using namespace tally::launcher;

TEST_CASE("a report has a line for each finding, and one for what mends it") {
  Report report;
  report.ok("a", "good");
  report.note("b", "odd\nname", "do this");
  CHECK_FALSE(report.isBad());
  CHECK(toText(report.findings()) == "ok    a: good\n"
                                     "note  b: odd?name\n"
                                     "      -> do this\n");
  report.bad("c", "gone", "do that");
  CHECK(report.isBad());
  CHECK(toJson(report.findings()) ==
        R"({"bad":1,"findings":[{"verdict":"ok","thing":"a","what":"good","mend":""},)"
        R"({"verdict":"note","thing":"b","what":"odd\u000aname","mend":"do this"},)"
        R"({"verdict":"bad","thing":"c","what":"gone","mend":"do that"}]})"
        "\n");
}
