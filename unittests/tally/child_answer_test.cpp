// Forked children that answer, crash and hang; and the answer of the child that queries the driver.
#include "child_answer.h"
#include "driver_query.h"

#include <doctest/doctest.h>

#include <csignal>
#include <cstdio>
#include <unistd.h>

using namespace tally::launcher;
using namespace std::chrono_literals;

namespace {

int say(const char *text) {
  std::fputs(text, stdout);
  std::fflush(stdout);
  return 0;
}

} // namespace

TEST_CASE("a child's answer is what it writes") {
  ChildAnswer answer = askChild([] { return say("one\ntwo\n"); }, 20s);
  CHECK(answer.text == "one\ntwo\n");
  CHECK(answer.fault.empty());
}

TEST_CASE("a child that fails, crashes or hangs is a fault, and what it wrote before is kept") {
  CHECK(askChild([] { return 3; }, 20s).fault == "ended with status 3");
  ChildAnswer crash = askChild(
      [] {
        std::signal(SIGSEGV, SIG_DFL);
        say("before\n");
        return raise(SIGSEGV);
      },
      20s);
  CHECK(crash.text == "before\n");
  CHECK(crash.fault == "ended by signal 11 (Segmentation fault)");
  ChildAnswer hang = askChild(
      []() -> int {
        say("before\n");
        for (;;)
          pause();
      },
      1s);
  CHECK(hang.text == "before\n");
  CHECK(hang.fault == "no answer within 1 s");
}

TEST_CASE("a child's status is not lost where children are ignored") {
  std::signal(SIGCHLD, SIG_IGN);
  CHECK(askChild([] { return 4; }, 20s).fault == "ended with status 4");
  std::signal(SIGCHLD, SIG_DFL);
}

TEST_CASE("the driver's facts are read from whole lines") {
  DriverFacts facts = readDriverAnswer("path /usr/lib/libcuda.so.1\nversion 13010\ninit 0 \n"
                                       "device 9 0 NVIDIA H100 80GB HBM3\nsomething else\n"
                                       "device 8 6 NVIDIA A10\ndevice 9 0 unfin");
  CHECK(facts.path == "/usr/lib/libcuda.so.1");
  CHECK(facts.version == 13010);
  CHECK(facts.initError == 0);
  REQUIRE(facts.devices.size() == 2);
  CHECK(facts.devices[0].name == "NVIDIA H100 80GB HBM3");
  CHECK(facts.devices[0].major == 9);
  CHECK(facts.devices[1].minor == 6);
  facts = readDriverAnswer("init 100 CUDA_ERROR_NO_DEVICE\n");
  CHECK(facts.initError == 100);
  CHECK(facts.initErrorName == "CUDA_ERROR_NO_DEVICE");
  CHECK(readDriverAnswer("missing libcuda.so.1: no\n").loadError == "libcuda.so.1: no");
  CHECK(readDriverAnswer("").path.empty());
}
