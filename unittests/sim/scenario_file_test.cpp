// Scenarios as JSON.
#include "scenario_file.h"

#include <doctest/doctest.h>

#include <string>

using namespace tally::sim;
using namespace std::chrono_literals;

namespace {

std::string error(const std::string &text) {
  auto read = parseScenario(text);
  return read ? "none" : read.error().message;
}

const std::string requests = R"("requests": {"service_us": [1000, 2000], "load": 0.5})";
const std::string training =
    R"("training": {"kernels": [{"us": 500, "block_us": 50, "variants": true, "times": 3}, {"us": 20}]})";

} // namespace

TEST_CASE("a scenario") {
  auto read = parseScenario("{" + requests + "," + training +
                            R"(, "seconds": 3, "policy": "slo", "costs": {"launch_us": 6}})");
  REQUIRE(read);
  CHECK(read->requests.services == std::vector<Nanoseconds>{1ms, 2ms});
  CHECK(read->requests.load == 0.5);
  CHECK(!read->requests.think);
  REQUIRE(read->training.size() == 4);
  CHECK(read->training[2].duration == 500us);
  CHECK(read->training[2].block == 50us);
  CHECK(read->training[2].hasVariants);
  CHECK(!read->training[3].hasVariants);
  CHECK(read->step == 1520us);
  CHECK(read->length == 3s);
  CHECK(read->policy == "slo");
  CHECK(read->costs.launch == 6us);
  CHECK(read->smCount == 132);
}

TEST_CASE("requests of several kinds") {
  auto read = parseScenario(
      R"({"requests": {"service_us": [1000, 2000], "fills": [0.5, 1, 0.25], "slowdown": 0, "merged": false},)" +
      training + "}");
  REQUIRE(read);
  Requests::Work work = read->requests.work(3);
  CHECK(work.service == 2ms);
  CHECK(work.fills == 0.5);
  CHECK(work.slowdown == 0);
  CHECK(read->requests.work(4).fills == 1);
  CHECK(!read->requests.merged);
  CHECK(error(R"({"requests": {"service_us": 5, "fills": []},)" + training + "}") ==
        "requests.fills has to hold a number");
  CHECK(error(R"({"requests": {"service_us": 5, "fills": [0.5, 2]},)" + training + "}") ==
        "requests.fills has to hold numbers from 0 to 1");
}

TEST_CASE("what is wrong is named") {
  CHECK(error("{") != "none");
  CHECK(error("[]") == "the scenario has to be an object");
  CHECK(error("{" + training + "}") == "scenario.requests has to be an object");
  CHECK(error("{" + requests + "}") == "scenario.training has to be an object");
  CHECK(error(R"({"requests": {"load": 0.3},)" + training + "}") ==
        "requests.service_us is missing");
  CHECK(error(R"({"requests": {"service_us": 5, "load": 1.5},)" + training + "}") ==
        "requests.load has to be a number from 0 to 0.99");
  CHECK(error("{" + requests + R"(, "training": {"kernels": [{"us": 5}, {"block_us": 5}]}})") ==
        "training.kernels[1].us is missing");
  CHECK(error("{" + requests + R"(, "training": {"kernels": []}})") ==
        "training.kernels has to be a list with at least one kernel");
  CHECK(error("{" + requests + "," + training + R"(, "polcy": "slo"})") ==
        "scenario.polcy is no member here");
  CHECK(error("{" + requests + "," + training + R"(, "policy": 5})") ==
        "scenario.policy has to be a text");
}

TEST_CASE("a file that is not there is named") {
  auto read = readScenario("/nonexistent/scenario.json");
  REQUIRE(!read);
  CHECK(read.error().message.starts_with("/nonexistent/scenario.json: "));
}
