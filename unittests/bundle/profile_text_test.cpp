// The text of profiles: the parser reads back the written text, and names the line of an error.
#include "tally/bundle/profile.h"

#include "tally/bundle/bundle.h"

#include <doctest/doctest.h>

#include <cstdio>

using namespace tally;
using namespace tally::bundle;
using namespace std::chrono_literals;

namespace {

Profile some() {
  Profile profile{"a GPU, driver 13000", {}, {}};
  profile.entries[{1, "one", {64, 1, 1, 32}}] = {Kind::Guard, 5us, 0us};
  profile.entries[{~0ull, "two and a half", {9}}] = {std::nullopt, 3us, 7us};
  profile.entries[{~0ull, "two and a half", {10}}] = {std::nullopt, 0us, 7us};
  profile.policies = {{0xab, "2000000 40 1080000;"}};
  return profile;
}

std::string wrongIn(const std::string &text) {
  auto read = parseProfile(text);
  return read ? "nothing" : read.error().message;
}

std::string sealed(const std::string &text) {
  char digits[32];
  std::snprintf(digits, sizeof digits, "end %llx\n", static_cast<unsigned long long>(hashOf(text)));
  return text + digits;
}

bool startsWith(const std::string &text, const char *start) { return text.rfind(start, 0) == 0; }

} // namespace

TEST_CASE("profiles are read as they were written") {
  auto read = parseProfile(printProfile(some()));
  REQUIRE(read);
  CHECK(read->device == some().device);
  CHECK(read->entries == some().entries);
  CHECK(read->policies == some().policies);
  auto none = parseProfile(printProfile({"x", {}, {}}));
  REQUIRE(none);
  CHECK(none->entries.empty());
}

TEST_CASE("what is wrong with a profile has a line") {
  std::string good = printProfile(some());
  CHECK(wrongIn("") ==
        "line 1: this is no profile of tally's, which begins with 'tally-profile 3'");
  CHECK(startsWith(wrongIn("#!/bin/sh\n"), "line 1: this is no profile"));
  CHECK(startsWith(wrongIn("tally-profile 4\n"), "line 1: a profile of another version"));
  CHECK(startsWith(wrongIn("tally-profile 3\n"), "line 1: damaged (the file ends here"));
  CHECK(
      startsWith(wrongIn(good.substr(0, good.size() - 1)), "line 7: damaged (the file ends here"));
  std::string other = good;
  other[other.find("guard")] = 'G';
  CHECK(startsWith(wrongIn(other), "line 7: damaged (this checksum"));
  std::string head = "tally-profile 3\nd\n", good3 = "1 guard 5 0 1,1,1,1,1,1,0,0,0,0 one\n";
  CHECK(wrongIn(sealed(head + good3)) == "nothing");
  for (const char *line :
       {"\n", "g guard 5 0 1,1,1,1,1,1,0,0,0,0 one\n", "1 gourd 5 0 1,1,1,1,1,1,0,0,0,0 one\n",
        "1 guard -5 0 1,1,1,1,1,1,0,0,0,0 one\n", "1 guard 5 0 1,1,1,1,1,1,0,0,0 one\n",
        "1 guard 5 0 1,1,1,1,1,1,0,0,0,0,0 one\n", "1 guard 5 0 1,1,1,1,1,1,0,0,0,0 \n",
        "1 untried 0 0 1,1,1,1,1,1,0,0,0,0 one\n", "1 guard 5 0\n"}) {
    CAPTURE(line);
    CHECK(wrongIn(sealed(head + good3 + line)) ==
          "line 4: damaged (this is no entry of a profile)");
  }
  CHECK(wrongIn(sealed(head + "policy 1f a text\n" + good3)) == "nothing");
  for (const char *line :
       {"policy\n", "policy \n", "policy 1f\n", "policy 1f \n", "policy g a text\n"}) {
    CAPTURE(line);
    CHECK(startsWith(wrongIn(sealed(head + good3 + line)), "line 4: damaged (this is no "));
  }
}
