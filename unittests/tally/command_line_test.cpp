// The launcher's command line.
#include "command_line.h"

#include <doctest/doctest.h>

using namespace tally;
using namespace tally::launcher;

namespace {

using Words = std::vector<std::string>;

template <class Kind> Kind parsed(std::vector<std::string_view> words) {
  Result<Request> request = parseCommandLine(words);
  INFO((request ? "" : request.error().message));
  REQUIRE(request);
  REQUIRE(std::holds_alternative<Kind>(*request));
  return std::get<Kind>(*request);
}

std::string errorOf(std::vector<std::string_view> words) {
  Result<Request> request = parseCommandLine(words);
  return request ? std::string() : request.error().message;
}

bool has(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

} // namespace

TEST_CASE("tally run: the command begins behind -- or at the first word without a dash") {
  CHECK(parsed<RunOptions>({"run", "python", "--stats", "-x"}).command ==
        Words{"python", "--stats", "-x"});
  CHECK(parsed<RunOptions>({"run", "--", "-odd", "--"}).command == Words{"-odd", "--"});
  CHECK(parsed<RunOptions>({"run", "--stats", "--", "--help"}).command == Words{"--help"});
  CHECK(parsed<RunOptions>({"run", "--arena", "/a", "sh"}).command == Words{"sh"});
  CHECK(parsed<RunOptions>({"run", "sh", "--", "x"}).command == Words{"sh", "--", "x"});
}

TEST_CASE("tally run: options") {
  RunOptions none = parsed<RunOptions>({"run", "sh"});
  CHECK_FALSE(none.bestEffort);
  CHECK_FALSE(none.statistics);
  CHECK_FALSE(none.arena);
  CHECK_FALSE(none.policy);
  CHECK_FALSE(none.trace);
  RunOptions all = parsed<RunOptions>({"run", "--best-effort=2", "--arena", "/a", "--policy=p:k=1",
                                       "--stats", "--trace", "t=1", "sh"});
  CHECK(all.bestEffort);
  CHECK(all.bestEffortClass == "2");
  CHECK(all.arena == "/a");
  CHECK(all.policy == "p:k=1");
  CHECK(all.statistics);
  CHECK(all.trace == "t=1");
  CHECK(parsed<RunOptions>({"run", "--best-effort", "sh"}).bestEffortClass.empty());
}

TEST_CASE("tally run: errors name the option and what it takes") {
  CHECK(has(errorOf({"run"}), "takes a command"));
  CHECK(has(errorOf({"run", "--"}), "takes a command"));
  CHECK(errorOf({"run", "--arena"}) == "--arena takes a file, a folder, or off");
  CHECK(errorOf({"run", "--arena=", "sh"}) == "--arena takes a file, a folder, or off");
  CHECK(errorOf({"run", "--best-effort=", "sh"}) == "--best-effort= takes a class, 1 to 4");
  CHECK(errorOf({"run", "--arenas", "x", "sh"}) ==
        "unknown option '--arenas'; 'tally run --help' lists what there is");
  CHECK(has(errorOf({"run", "-x", "sh"}), "unknown option '-x'"));
}

TEST_CASE("tally status is tally-top --once") {
  top::Options options = parsed<top::Options>({"status", "--arena", "/a", "--json"});
  CHECK(options.once);
  CHECK(options.arena == "/a");
  CHECK(options.output == top::Output::Json);
  CHECK(parsed<top::Options>({"status"}).output == top::Output::Table);
  CHECK(has(errorOf({"status", "--once"}), "'tally status --help'"));
}

TEST_CASE("tally doctor takes a command with and without --") {
  CHECK(parsed<DoctorOptions>({"doctor"}).command.empty());
  CHECK(parsed<DoctorOptions>({"doctor", "--json", "--", "sh", "x"}).command == Words{"sh", "x"});
  CHECK(parsed<DoctorOptions>({"doctor", "sh"}).command == Words{"sh"});
  CHECK(has(errorOf({"doctor", "--jason"}), "'tally doctor --help'"));
}

TEST_CASE("tally advise takes traces, and how long is too long") {
  AdviseOptions options = parsed<AdviseOptions>({"advise", "a.json", "b.json"});
  CHECK(options.traces == Words{"a.json", "b.json"});
  CHECK(options.over == 100);
  CHECK(parsed<AdviseOptions>({"advise", "--over=2.5", "a"}).over == 2.5);
  CHECK(parsed<AdviseOptions>({"advise", "--over", "0", "--", "-a"}).traces == Words{"-a"});
  for (const char *wrong : {"-1", "1ms", "nan", "x"})
    CHECK(has(errorOf({"advise", "--over", wrong, "a"}), "--over takes microseconds, not '"));
  CHECK(has(errorOf({"advise", "--over"}), "--over takes microseconds"));
  CHECK(has(errorOf({"advise"}), "'tally advise' takes traces"));
  CHECK(has(errorOf({"advise", "--under", "a"}), "'tally advise --help'"));
}

TEST_CASE("help and version are texts, of each part its own") {
  CHECK(parsed<Text>({"--version"}).text == "tally " TALLY_VERSION "\n");
  for (const char *part : {"run", "status", "doctor", "advise"}) {
    CHECK(has(parsed<Text>({"--help"}).text, std::string("tally ") + part));
    CHECK(has(parsed<Text>({part, "--help"}).text, std::string("usage: tally ") + part));
  }
  CHECK(has(errorOf({}), "run, status, doctor or advise?"));
  CHECK(has(errorOf({"rum"}), "unknown word 'rum'"));
}
