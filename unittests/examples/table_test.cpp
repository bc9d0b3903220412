#include "table.h"

#include <doctest/doctest.h>

using namespace inference_server;

namespace {

/// Returns a cell of ten seconds with ten requests of the given latency.
Cell cellWith(double latency, std::uint64_t steps) {
  Cell cell;
  cell.seconds = 10;
  cell.active = 4;
  cell.steps = steps;
  for (int i = 0; i < 10; ++i) {
    Served served;
    served.intended = served.begin = i;
    served.end = i + latency;
    cell.served.push_back(served);
  }
  return cell;
}

Measurement measurementWith(double lowPriorityLatency) {
  Measurement measurement;
  measurement.capacity = {"a device", Seconds(0.1)};
  measurement.modes = {
      {Mode::Alone, {cellWith(0.1, 0), cellWith(0.1, 0)}},
      {Mode::LowPriority, {cellWith(lowPriorityLatency, 90), cellWith(lowPriorityLatency, 90)}},
      {Mode::Tally, {cellWith(0.11, 54), cellWith(0.12, 54)}}};
  for (ModeCells &mode : measurement.modes)
    if (mode.mode == Mode::Tally)
      for (Cell &cell : mode.cells) {
        cell.statistics.yields = 21;
        cell.statistics.requestsToYield = 10;
        cell.statistics.turnaroundNanoseconds = {5000, 9000};
      }
  measurement.trainingAlone = {{2, 20, {}}, {3, 30, {}}};
  measurement.checks = {{true, "encoder"}, {true, "training"}};
  return measurement;
}

std::string lineOf(const std::string &text, std::string_view start) {
  std::size_t begin = text.find(std::string("\n").append(start)) + 1;
  return text.substr(begin, text.find('\n', begin) - begin);
}

bool mentions(const std::string &text, std::string_view part) {
  return text.find(part) != text.npos;
}

} // namespace

TEST_CASE("a row holds ratios to alone of the same run") {
  std::string text = report({}, measurementWith(0.5));
  std::string tally = lineOf(text, "tally");
  CHECK(mentions(tally, " 20 "));        // requests of both repetitions
  CHECK(mentions(tally, " 120.000 "));   // P99 of all of them
  CHECK(mentions(tally, " 1.20 "));      // over alone
  CHECK(mentions(tally, " 1.10-1.20 ")); // by repetition
  CHECK(mentions(tally, " 0.400 "));     // A
  CHECK(mentions(tally, " 5.40 "));      // steps a second
  CHECK(mentions(tally, " 0.540 "));     // share of the 10 steps alone
  CHECK(mentions(tally, " 0.900 "));     // fraction of 10 x (1 - A)
  CHECK(mentions(tally, " 42 "));
  CHECK(mentions(tally, "5 / 9"));
  CHECK(mentions(lineOf(text, "training alone"), " 10.00 "));
}

TEST_CASE("figures count only where best-effort work hurts without tally") {
  CHECK(mentions(report({}, measurementWith(0.2)), "The cell counts"));
  CHECK(mentions(report({}, measurementWith(0.19)), "The cell does NOT count"));
  Measurement without = measurementWith(0.5);
  without.modes.erase(without.modes.begin() + 1);
  CHECK(mentions(report({}, without), "not known"));
}

TEST_CASE("the report ends with what its figures mean") {
  std::string text = report({}, measurementWith(0.5));
  CHECK(mentions(text, "takes 5.0 times as long beside training"));
  CHECK(mentions(text, "1.2 times as long with tally"));
  CHECK(mentions(text, "90 % of its own speed"));
  Measurement without = measurementWith(0.5);
  without.modes.pop_back();
  CHECK_FALSE(mentions(report({}, without), "In words"));
}

TEST_CASE("the introduction says what was trained") {
  Options options;
  options.training = {.batch = 640, .inputs = 64, .hidden = 64, .classes = 16};
  CHECK(
      mentions(report(options, measurementWith(0.5)),
               "a transformer in f16 (1 layer, width 64, 2 heads, 20 x 32 positions, 16 classes)"));
  options.job = Job::Perceptron;
  CHECK(mentions(report(options, measurementWith(0.5)),
                 "a perceptron (batch 640, 64 inputs, 2 x 64 hidden, 16 classes)"));
}

TEST_CASE("a wrong result is said and fails the run") {
  Measurement measurement = measurementWith(0.5);
  CHECK(allRight(measurement));
  measurement.checks[1].right = false;
  CHECK_FALSE(allRight(measurement));
  CHECK(mentions(report({}, measurement), "\nWRONG  training\n"));
}

TEST_CASE("the CSV has a line for each mode and repetition") {
  std::string text = csv(measurementWith(0.5));
  CHECK(std::count(text.begin(), text.end(), '\n') == 1 + 3 * 2 + 2);
  CHECK(mentions(text, "\"tally\",2,10,120.0000,120.0000,10.0000,4.0000,54,21,10,5.0,9.0\n"));
}
