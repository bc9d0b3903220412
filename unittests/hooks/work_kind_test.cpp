// The durations of a kernel by size, from the sizes that were measured.
#include "engine/work_kind.h"

#include <doctest/doctest.h>

using namespace tally;

TEST_CASE("the durations of sizes between measured ones") {
  hooks::WorkKind kind;
  CHECK(kind.isUnknown());
  kind.measured(100, 1000, true);
  CHECK(!kind.isUnknown());
  CHECK(kind.expected(300) == 3000);
  CHECK(kind.expected(10) == 1000);
  kind.measured(20, 600, true);
  kind.measured(50, 9000, true); // no end: of no effect on others
  CHECK(kind.expected(60) == 800);
  CHECK(kind.expected(20) == 600);
  CHECK(kind.expected(1) == 600);
  kind.measured(100, 500, false); // shorter than the smallest now: its duration is the least
  CHECK(kind.expected(60) == 600);
  for (int size = 60; size < 64; ++size)
    kind.measured(size, 700, true);
  CHECK(!kind.isJudgeOf(70));
  kind.measured(64, 700, true);
  CHECK(kind.isJudgeOf(70));
  CHECK(kind.isJudgeOf(20));
  CHECK(kind.isJudgeOf(100));
  CHECK(!kind.isJudgeOf(19));
  CHECK(!kind.isJudgeOf(101));
}
