#include "yield_plan.h"

#include "random.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <charconv>

namespace tally::verify {

namespace {

std::string requestText(const YieldPlan &plan, Kind kind) {
  if (kind == Kind::Slice)
    return fmt::format("slices of about {} blocks", plan.sliceBlocks);
  switch (plan.request) {
  case RequestKind::Quiet:
    return "no request to yield";
  case RequestKind::At:
    return fmt::format("a request at poll {}", plan.poll);
  case RequestKind::Always:
    return "a request at every poll";
  case RequestKind::RaisedAndWithdrawn:
    return fmt::format("a request raised at poll {} and withdrawn at poll {}", plan.poll,
                       plan.poll + 1);
  case RequestKind::Random:
    return fmt::format("random requests of seed {}", plan.seed);
  case RequestKind::Widths:
    return fmt::format("random widths and requests of seed {}", plan.seed);
  case RequestKind::Pause:
    return fmt::format("a pause from poll {}", plan.poll);
  case RequestKind::PauseAndRaise:
    return fmt::format("a request that pauses at poll {}", plan.poll);
  case RequestKind::Modes:
    return fmt::format("random modes and requests of seed {}", plan.seed);
  case RequestKind::LateWrite:
    return plan.poll == neverPolled
               ? "the control word behind the launch's epoch"
               : fmt::format("the control word behind the launch's epoch until poll {}", plan.poll);
  case RequestKind::Storm:
    return fmt::format("a storm of requests of seed {}", plan.seed);
  case RequestKind::Early:
    return "a request before the launch starts";
  }
  assert(false && "a request kind without a name");
  return {};
}

/// Returns a plan in which the seed decides all random choices.
YieldPlan randomPlan(RequestKind request, std::uint64_t seed, const PlanShape &shape) {
  Random random(seed);
  YieldPlan plan;
  plan.request = request;
  plan.seed = seed;
  plan.schedule.seed = seed;
  auto blocks = static_cast<std::uint32_t>(std::min<std::uint64_t>(shape.blocks, 16));
  plan.schedule.residentBlocks = static_cast<std::uint32_t>(1 + random.below(blocks));
  plan.workers = static_cast<std::uint32_t>(1 + random.below(2 * shape.wave));
  plan.sliceBlocks = static_cast<std::uint32_t>(1 + random.below(blocks));
  plan.stormLaunches = shape.stormLaunches;
  plan.stays = seed % 4 != 0;
  return plan;
}

std::vector<YieldPlan> slicePlans(const YieldMode &mode, const PlanShape &shape) {
  std::vector<YieldPlan> plans;
  YieldPlan plan = quietPlan(shape);
  if (mode.choice == YieldMode::Choice::AtPoll) {
    plan.sliceBlocks = static_cast<std::uint32_t>(std::min(mode.value + 1, shape.blocks));
    return {plan};
  }
  if (mode.choice == YieldMode::Choice::Every)
    for (std::uint32_t size = 1; size <= std::min<std::uint64_t>(shape.blocks, 32); ++size) {
      plan.sliceBlocks = size;
      plans.push_back(plan);
    }
  return plans;
}

/// The largest number of polls at which pauses begin.
constexpr std::uint64_t mostPauses = 64;

void appendPauses(std::vector<YieldPlan> &plans, const PlanShape &shape) {
  std::uint64_t count = std::min(shape.polls, mostPauses);
  for (std::uint64_t i = 0; i < count; ++i) {
    YieldPlan plan = quietPlan(shape);
    plan.poll = i * shape.polls / count;
    for (RequestKind request : {RequestKind::Pause, RequestKind::PauseAndRaise}) {
      plan.request = request;
      plan.schedule.seed = 0;
      plans.push_back(plan);
      plan.schedule.seed = i + 1;
      plans.push_back(plan);
      plans.back().workers = i % 2 == 0 ? plan.workers : 1;
    }
  }
}

/// Returns the distance of polls for a kind, so that pause, which polls in loops too, gets plans
/// for fewer than twice mostPauses polls.
std::uint64_t strideOf(Kind kind, const PlanShape &shape) {
  return kind == Kind::Pause ? std::max<std::uint64_t>(shape.polls / mostPauses, 1) : 1;
}

void appendEvery(std::vector<YieldPlan> &plans, Kind kind, const PlanShape &shape) {
  YieldPlan plain = quietPlan(shape);
  std::uint64_t stride = strideOf(kind, shape);
  for (std::uint64_t k = 0; k < shape.polls; k += stride) {
    plans.push_back(plain);
    plans.back().request = RequestKind::At;
    plans.back().poll = k;
  }
  plans.push_back(plain);
  plans.back().request = RequestKind::Always;
  for (std::uint64_t k = 0; k < shape.polls; k += stride) {
    plans.push_back(plain);
    plans.back().request = RequestKind::RaisedAndWithdrawn;
    plans.back().poll = k;
    plans.back().schedule.seed = k + 1;
    if (hasWorkers(kind) && plain.workers > 1) {
      plans.push_back(plans.back());
      plans.back().workers = 1;
    }
  }
  for (std::uint64_t k : {std::uint64_t{0}, shape.polls / 2, neverPolled}) {
    plans.push_back(plain);
    plans.back().request = RequestKind::LateWrite;
    plans.back().poll = k;
  }
  if (kind == Kind::Pause)
    appendPauses(plans, shape);
}

} // namespace

std::string toText(const YieldPlan &plan, Kind kind) {
  std::string text = requestText(plan, kind);
  if (plan.request == RequestKind::Storm || plan.request == RequestKind::Early)
    return text;
  text += fmt::format(", schedule seed {}, {} resident blocks", plan.schedule.seed,
                      plan.schedule.residentBlocks);
  if (hasWorkers(kind))
    text += fmt::format(", {} workers{}", plan.workers,
                        kind == Kind::Pause && plan.stays ? " that stay" : "");
  return text;
}

Result<YieldMode> parseYieldMode(std::string_view text) {
  YieldMode mode;
  if (text == "every")
    return mode;
  std::string_view digits = text;
  mode.choice = YieldMode::Choice::AtPoll;
  if (text.starts_with("random:")) {
    mode.choice = YieldMode::Choice::Random;
    digits = text.substr(7);
  }
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), mode.value);
  if (error != std::errc() || end != digits.data() + digits.size() || digits.empty())
    return Error{fmt::format("'{}' is none of every, N, random:SEED", text)};
  return mode;
}

std::uint32_t waveOf(std::uint64_t blocks) {
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(blocks / 2, 1, 4));
}

YieldPlan quietPlan(const PlanShape &shape) {
  YieldPlan plan;
  plan.schedule.residentBlocks = plan.workers = plan.sliceBlocks = shape.wave;
  return plan;
}

std::vector<YieldPlan> plansFor(Kind kind, const YieldMode &mode, const PlanShape &shape) {
  using Choice = YieldMode::Choice;
  std::vector<YieldPlan> plans;
  if (kind == Kind::Slice)
    plans = slicePlans(mode, shape);
  else if (mode.choice == Choice::AtPoll && shape.isMicroscope) {
    plans.push_back(quietPlan(shape));
    plans.back().request = RequestKind::At;
    plans.back().poll = mode.value;
  } else if (mode.choice == Choice::Every && shape.isMicroscope)
    appendEvery(plans, kind, shape);
  else if (!shape.isMicroscope) {
    plans.push_back(quietPlan(shape));
    plans.back().request = RequestKind::Early;
  }
  RequestKind request = shape.isMicroscope ? RequestKind::Random : RequestKind::Storm;
  if (mode.choice == Choice::Random)
    plans.push_back(randomPlan(request, mode.value, shape));
  if (mode.choice == Choice::Every)
    for (std::uint64_t seed = 1; seed <= shape.randomPlans; ++seed) {
      plans.push_back(randomPlan(request, shape.scheduleSeed + seed, shape));
      if (hasWorkers(kind) && shape.isMicroscope)
        plans.push_back(randomPlan(RequestKind::Widths, shape.scheduleSeed + seed, shape));
      if (kind == Kind::Pause && shape.isMicroscope)
        plans.push_back(randomPlan(RequestKind::Modes, shape.scheduleSeed + seed, shape));
      plans.back().pauses = kind == Kind::Pause && seed % 2 == 0;
    }
  if (shape.scheduleSeed != 0)
    for (std::size_t i = 0; i < plans.size(); ++i)
      plans[i].schedule.seed = Random(shape.scheduleSeed + i).next() | 1;
  return plans;
}

} // namespace tally::verify
