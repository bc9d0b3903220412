#include "trace_scenario.h"

#include "tally/bundle/verdict.h"

#include <algorithm>

namespace tally::sim {

namespace {

/// The parts of the slices that lie within `whole`, together.
double within(const launcher::TraceSlice &whole, const std::vector<launcher::TraceSlice> &slices) {
  double sum = 0;
  for (const launcher::TraceSlice &each : slices)
    sum += std::max(0.0, std::min(each.end(), whole.end()) - std::max(each.start, whole.start));
  return sum;
}

} // namespace

Result<Scenario> scenarioOf(const launcher::ProcessTrace &trace, Nanoseconds block) {
  constexpr double least = 0.5; // microseconds
  if (trace.work.empty())
    return Error{"the trace has no best-effort work"};
  if (trace.active.empty())
    return Error{"the trace has no time with high-priority work"};
  Scenario scenario;
  double begin = trace.active.front().start, end = begin;
  for (const launcher::TraceSlice &each : trace.active) {
    begin = std::min(begin, each.start);
    end = std::max(end, each.end());
  }
  for (const launcher::TracedWork &each : trace.work)
    end = std::max(end, each.end());
  double busy = 0;
  for (const launcher::TraceSlice &each : trace.active) {
    double service = std::max(each.duration - within(each, trace.turnarounds), least);
    scenario.requests.arrivals.push_back(fromMicroseconds(each.start - begin));
    scenario.requests.services.push_back(fromMicroseconds(service));
    busy += service;
  }
  scenario.requests.load = std::min(busy / std::max(end - begin, least), 0.99);
  for (const launcher::TracedWork &each : trace.work) {
    TrainingKernel kernel;
    kernel.name = each.name;
    kernel.duration = fromMicroseconds(std::max(each.duration, least));
    kernel.hasVariants = kindFromName(each.kind).has_value();
    kernel.block = kernel.hasVariants ? block : Nanoseconds(0);
    scenario.step += kernel.duration;
    scenario.training.push_back(std::move(kernel));
  }
  scenario.length = fromMicroseconds(end - begin);
  return scenario;
}

} // namespace tally::sim
