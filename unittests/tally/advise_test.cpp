// `tally advise`: its reading of a trace, and its advice.
#include "advise.h"
#include "scratch_folder.h"

#include <doctest/doctest.h>

using namespace tally;
using namespace tally::launcher;

namespace {

const std::string head =
    "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"tool\":\"tally\",\"lost_events\":3,"
    "\"capacity\":16},\n\"traceEvents\":[\n"
    "{\"ph\":\"M\",\"pid\":42,\"name\":\"process_name\",\"args\":{\"name\":\"trainer\"}}";

std::string slice(int track, const std::string &name, double start, double duration,
                  const std::string &kind = "") {
  return ",\n{\"ph\":\"X\",\"pid\":42,\"tid\":" + std::to_string(track) + ",\"name\":\"" + name +
         "\",\"ts\":" + std::to_string(start) + ",\"dur\":" + std::to_string(duration) +
         (kind.empty() ? "" : ",\"args\":{\"kind\":\"" + kind + "\"}") + "}";
}

std::string asked(double at) {
  return ",\n{\"ph\":\"i\",\"pid\":42,\"tid\":2,\"name\":\"asked to yield\",\"ts\":" +
         std::to_string(at) + ",\"s\":\"t\",\"args\":{\"epoch\":1}}";
}

ProcessTrace parsed(const std::string &events) {
  Result<ProcessTrace> trace = parseTrace(head + events + "\n]}\n");
  INFO((trace ? "" : trace.error().message));
  REQUIRE(trace);
  return std::move(*trace);
}

std::string errorOf(const std::string &text) {
  Result<ProcessTrace> trace = parseTrace(text);
  return trace ? std::string() : trace.error().message;
}

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

} // namespace

TEST_CASE(
    "a trace's work and turnarounds are read; batches, waits and high priority are not work") {
  ProcessTrace trace = parsed(
      asked(10) + slice(2, "turnaround", 10, 5) + slice(10, "batch", 0, 20) +
      slice(10, "say \\\"ts\\\": \\\\", 0, 12, "non-preemptible") + slice(110, "waiting", 20, 4) +
      slice(1, "active", 10, 8) + slice(52, "at once", 30, 2.5));
  CHECK(trace.program == "trainer");
  CHECK(trace.process == 42);
  CHECK(trace.lostEvents == 3);
  CHECK(trace.requests == 1);
  REQUIRE(trace.turnarounds.size() == 1);
  CHECK(trace.turnarounds[0].end() == 15);
  REQUIRE(trace.work.size() == 2);
  CHECK(trace.work[0].name == "say \"ts\": \\");
  CHECK(trace.work[0].kind == "non-preemptible");
  CHECK(trace.work[1].name == "at once");
  CHECK(trace.work[1].kind.empty());
}

TEST_CASE("what is no trace is refused, with the line") {
  CHECK(has(errorOf(""), "ends behind line 0"));
  CHECK(has(errorOf("{}\n"), "not a trace"));
  CHECK(has(errorOf("{\"traceEvents\": [\n  {\n"), "not a trace"));
  CHECK(has(errorOf(head + ",\n"), "ends behind line"));
  CHECK(has(errorOf(head + ",\nnonsense\n]}\n"), "line 4 is no event"));
  CHECK(
      has(errorOf(head + ",\n{\"ph\":\"X\",\"tid\":10,\"name\":\"k\",\"ts\":1}\n]}\n"), "line 4"));
  CHECK(has(errorOf(head + ",\n{\"ph\":\"X\",\"tid\":10,\"name\":\"k\n]}\n"), "line 4"));
  CHECK(errorOf(head + "\n]}\n").empty());
}

TEST_CASE("work is charged for the time from the request on, each name and kind once a request") {
  ProcessTrace trace = parsed(
      slice(10, "long", 0, 100, "non-preemptible") + slice(10, "short", 100, 10, "guard") +
      slice(11, "long", 90, 10, "non-preemptible") + slice(10, "later", 200, 5, "non-preemptible") +
      slice(2, "turnaround", 40, 65) + slice(2, "turnaround", 95, 5));
  std::vector<Holder> holders = holdersOf(trace);
  REQUIRE(holders.size() == 2);
  CHECK(holders[0].name == "long");
  CHECK(holders[0].times == 2);
  CHECK(holders[0].longest == 70); // 60 on one lane, 10 on the other lane
  CHECK(holders[0].total == 80);
  CHECK(holders[1].name == "short");
  CHECK(holders[1].kind == "guard");
  CHECK(holders[1].times == 1);
  CHECK(holders[1].longest == 5);
}

TEST_CASE("advice goes by what the work is") {
  CHECK(has(adviceFor("ampere_bf16_s16816gemm_bf16_128x64", "non-preemptible"),
            "GEMM_BACKENDS=TRITON"));
  CHECK(has(adviceFor("nvjet_tst_128x64", "non-preemptible"), "GEMM_BACKENDS=TRITON"));
  CHECK(has(adviceFor("sm90_xmma_fprop_implicit_gemm_bf16", "non-preemptible"),
            "CONV_BACKENDS=TRITON"));
  CHECK(has(adviceFor("_ZN2at6native29vectorized_elementwise_kernel", "non-preemptible"),
            "PyTorch's own"));
  CHECK(has(adviceFor("mine", "non-preemptible"), "from the second run on"));
  CHECK(has(adviceFor("mine", "guard"), "checkpoint"));
  CHECK(has(adviceFor("mine", "checkpoint"), "--poll-period"));
  CHECK(has(adviceFor("copy", "copy"), "pinned"));
  CHECK(has(adviceFor("(copy)", "guard"), "pinned"));
  CHECK(has(adviceFor("call", "call"), "graphs"));
  CHECK(has(adviceFor("at once", ""), "TALLY_RUN_AHEAD_US"));
}

TEST_CASE("each sentence is said once, and what is short is left out") {
  ProcessTrace trace =
      parsed(asked(0) + slice(10, "gemm_one", 0, 500, "non-preemptible") +
             slice(10, "gemm_two", 500, 300, "non-preemptible") +
             slice(10, "short", 800, 50, "non-preemptible") + slice(2, "turnaround", 0, 850));
  std::string text = advice(trace, 100);
  CHECK(has(text, "trainer (process 42): 1 requests to yield, 1 of them met work"));
  CHECK(has(text, "0.850 ms (all)"));
  CHECK(has(text, "3 older events had no room"));
  CHECK(has(text,
            "       1      0.500 ms      0.500 ms  gemm_one (non-preemptible)\n"
            "       1      0.300 ms      0.300 ms  gemm_two (non-preemptible)\n  -> Products"));
  CHECK(text.find("Products") == text.rfind("Products"));
  CHECK_FALSE(has(text, "short"));
  CHECK(has(advice(trace, 1000), "nothing held requests up for more than 1.000 ms"));
  CHECK(has(advice(parsed(""), 100), "0 of them met work\n"));
}

TEST_CASE("files that cannot be read are named") {
  ScratchFolder folder;
  Result<ProcessTrace> none = readTrace(folder.path + "/none");
  REQUIRE_FALSE(none);
  CHECK(has(none.error().message, "/none: cannot read: No such file"));
  CHECK(readTrace(folder.file("trace", head + "\n]}\n")));
  Result<ProcessTrace> wrong = readTrace(folder.file("wrong", "x"));
  REQUIRE_FALSE(wrong);
  CHECK(has(wrong.error().message, "/wrong: not a trace"));
}
