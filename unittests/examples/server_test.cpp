#include "server.h"
#include "statistics.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace inference_server;

namespace {

Served servedBetween(double begin, double end) {
  Served served;
  served.begin = begin;
  served.end = end;
  return served;
}

} // namespace

TEST_CASE("active time counts overlapping requests once and gaps not at all") {
  CHECK(activeSeconds({}) == 0);
  // The requests are in the order of arrival, which may differ from the order of service.
  CHECK(activeSeconds({servedBetween(5, 6), servedBetween(1, 3), servedBetween(2, 4),
                       servedBetween(2.5, 2.75)}) == doctest::Approx(4));
  CHECK(activeSeconds({servedBetween(0, 2), servedBetween(2, 3)}) == doctest::Approx(3));
}

TEST_CASE("latency counts from the intended arrival") {
  Served served = servedBetween(3, 5);
  served.intended = 1;
  CHECK(served.latency() == 4);
}

TEST_CASE("arrivals are ordered, repeatable and as dense as asked for") {
  auto arrivals = poissonArrivals(20'000, Seconds(0.01), 3, 42);
  CHECK(std::is_sorted(arrivals.begin(), arrivals.end(),
                       [](const Arrival &a, const Arrival &b) { return a.at < b.at; }));
  CHECK(arrivals.back().at.count() / 20'000 == doctest::Approx(0.01).epsilon(0.03));
  // A Poisson process: a fraction e^-1 of the gaps is longer than the mean gap.
  int longGaps = 0, used[3] = {};
  for (std::size_t i = 1; i < arrivals.size(); ++i)
    longGaps += arrivals[i].at - arrivals[i - 1].at > Seconds(0.01);
  CHECK(longGaps / 20'000.0 == doctest::Approx(0.3679).epsilon(0.03));
  for (const Arrival &arrival : arrivals)
    ++used[arrival.input];
  for (int count : used)
    CHECK(count / 20'000.0 == doctest::Approx(1.0 / 3).epsilon(0.05));

  auto again = poissonArrivals(20'000, Seconds(0.01), 3, 42);
  CHECK(again.back().at == arrivals.back().at);
  CHECK(poissonArrivals(20'000, Seconds(0.01), 3, 43).back().at != arrivals.back().at);
}

TEST_CASE("percentiles are values that were seen") {
  std::vector<double> values;
  for (int i = 200; i >= 1; --i)
    values.push_back(i);
  CHECK(percentile(values, 0.5) == 100);
  CHECK(percentile(values, 0.99) == 198);
  CHECK(percentile(values, 1.0) == 200);
  values.resize(150);                     // 200 to 51
  CHECK(percentile(values, 0.99) == 199); // 148.5 of them: the 149th
  CHECK(percentile({7}, 0.99) == 7);
  CHECK(std::isnan(percentile({}, 0.5)));
}
