// The variables of a command.
#include "launch_environment.h"

#include <doctest/doctest.h>

using namespace tally::launcher;

TEST_CASE("the class is the option's, else the environment's, else high") {
  RunOptions options;
  CHECK(settingsFor(options, {}) == Variables{{"TALLY_CLASS", "high"}});
  CHECK(settingsFor(options, {{"TALLY_CLASS", ""}}) == Variables{{"TALLY_CLASS", "high"}});
  CHECK(settingsFor(options, {{"TALLY_CLASS", "best-effort"}}).empty());
  options.bestEffort = true;
  CHECK(settingsFor(options, {{"TALLY_CLASS", "high"}}) ==
        Variables{{"TALLY_CLASS", "best-effort"}});
  options.bestEffortClass = "3";
  CHECK(settingsFor(options, {}) ==
        Variables{{"TALLY_CLASS", "best-effort"}, {"TALLY_BEST_EFFORT_CLASS", "3"}});
}

TEST_CASE("each option is a variable") {
  RunOptions options;
  options.bestEffort = options.statistics = true;
  options.arena = "/a";
  options.policy = "p";
  options.trace = "t";
  CHECK(settingsFor(options, {}) == Variables{{"TALLY_CLASS", "best-effort"},
                                              {"TALLY_ARENA", "/a"},
                                              {"TALLY_POLICY", "p"},
                                              {"TALLY_STATS", "1"},
                                              {"TALLY_TRACE", "t"}});
}

TEST_CASE("Triton compiles by Tally's programs, and these by the one that the user has chosen") {
  Variables own = {{"TRITON_PTXAS_PATH", "/t/ptxas"},
                   {"TRITON_PTXAS_BLACKWELL_PATH", "/t/ptxas-blackwell"}};
  CHECK(tritonBy("/t", {}) == own);
  CHECK(tritonBy("/t", own) == own); // nested
  Variables given = own;
  given["TALLY_PTXAS"] = "/cuda/ptxas";
  CHECK(tritonBy("/t", {{"TRITON_PTXAS_PATH", "/cuda/ptxas"}}) == given);
}

TEST_CASE("the library stands in front of what is preloaded, once") {
  CHECK(preloadWith("/t/l.so", "") == "/t/l.so");
  CHECK(preloadWith("/t/l.so", "a.so b.so:/c.so") == "/t/l.so:a.so:b.so:/c.so");
  CHECK(preloadWith("/t/l.so", "a.so:/t/l.so b.so") == "a.so:/t/l.so b.so");
  CHECK(preloadWith("/t/l.so", ": :") == "/t/l.so");
  CHECK(preloadWith("/t/l.so", "/t/l.so.1") == "/t/l.so:/t/l.so.1");
}

TEST_CASE("another Tally's library is replaced: two of them must not be in a process") {
  CHECK(preloadWith("/new/l.so", "a.so:/old/l.so:b.so") == "/new/l.so:a.so:b.so");
}
