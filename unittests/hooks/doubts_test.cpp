#include "engine/doubts.h"

#include <doctest/doctest.h>

using namespace std::chrono_literals;
using tally::hooks::Doubts;

TEST_CASE("doubts become rarer until one was right") {
  Doubts doubts;
  CHECK(doubts.begin(1s));
  CHECK_FALSE(doubts.begin(1s + 199ms));
  CHECK(doubts.begin(1s + 200ms));
  CHECK_FALSE(doubts.begin(1s + 599ms));
  CHECK(doubts.begin(1s + 600ms));
  doubts.wereRight();
  CHECK_FALSE(doubts.begin(1s + 699ms));
  CHECK(doubts.begin(1s + 700ms));
}

TEST_CASE("there is a limit to the interval between doubts") {
  Doubts doubts;
  for (int i = 1; i <= 10; ++i)
    CHECK(doubts.begin(i * 10s));
  CHECK_FALSE(doubts.begin(100s + 1599ms));
  CHECK(doubts.begin(100s + 1600ms));
}
