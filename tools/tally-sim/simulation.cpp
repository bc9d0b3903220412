#include "simulation.h"

#include "sim_device.h"

#include "dispatch/dispatcher.h"

#include "tally/runtime/policy_text.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <utility>

namespace tally::sim {

using namespace std::chrono_literals;
using runtime::Operation;

namespace {

double quantile(std::vector<Nanoseconds> values, double part) {
  if (values.empty())
    return 0;
  auto at = static_cast<std::size_t>(part * static_cast<double>(values.size()));
  at = std::min(at, values.size() - 1);
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(at), values.end());
  return static_cast<double>(values[at].count());
}

/// A server with a queue, in an open loop.
class Server {
public:
  Server(const Scenario &scenario, SimDevice &device, runtime::RequestScopeTracker &high)
      : scenario(scenario), device(device), high(high), random(scenario.requests.seed) {
    Nanoseconds mean = std::accumulate(services().begin(), services().end(), Nanoseconds(0)) /
                       static_cast<std::int64_t>(services().size());
    between = static_cast<double>(mean.count()) / std::max(scenario.requests.load, 1e-9);
    arrive();
  }

  std::vector<Nanoseconds> latencies, alone;
  Nanoseconds busyAlone{0};

private:
  const std::vector<Nanoseconds> &services() const { return scenario.requests.services; }

  std::optional<Nanoseconds> nextArrival() {
    if (scenario.requests.think)
      return device.now() + *scenario.requests.think;
    if (!scenario.requests.arrivals.empty())
      return count < scenario.requests.arrivals.size()
                 ? std::optional(scenario.requests.arrivals[count])
                 : std::nullopt;
    if (scenario.requests.load <= 0)
      return std::nullopt;
    std::exponential_distribution<double> gaps(1 / between);
    return last + Nanoseconds(static_cast<std::int64_t>(gaps(random)));
  }

  void arrive() {
    std::optional<Nanoseconds> when = nextArrival();
    if (!when)
      return;
    last = *when;
    Requests::Work work = scenario.requests.work(count++);
    device.at(*when, [this, when = *when, work] {
      // With nobody else on the device a request waits for earlier requests only.
      endAlone = std::max(endAlone, when) + work.service;
      busyAlone += work.service;
      alone.push_back(scenario.requests.think ? work.service : endAlone - when);
      waiting.emplace_back(when, work);
      if (!isBusy)
        begin();
      if (!scenario.requests.think)
        arrive();
    });
  }

  void begin() {
    isBusy = true;
    static_cast<void>(high.beginRequest());
    auto [arrival, work] = waiting.front();
    waiting.pop_front();
    device.startRequest(work, [this, arrival = arrival] {
      latencies.push_back(device.now() - arrival);
      high.waits().note(device.now());
      bool goesOn = !waiting.empty();
      if (goesOn && scenario.requests.merged)
        begin(); // one busy time with this one
      static_cast<void>(high.endRequest());
      if (goesOn && !scenario.requests.merged)
        begin();
      isBusy = goesOn;
      if (scenario.requests.think)
        arrive();
    });
  }

  const Scenario &scenario;
  SimDevice &device;
  runtime::RequestScopeTracker &high;
  std::mt19937_64 random;
  double between = 0; // nanoseconds
  Nanoseconds last{0}, endAlone{0};
  std::size_t count = 0;
  std::deque<std::pair<Nanoseconds, Requests::Work>> waiting; ///< since when
  bool isBusy = false;
};

/// A training in a loop: each step's kernels in order, some steps ahead of the device.
class Trainer {
public:
  Trainer(const Scenario &scenario, SimDevice &device, runtime::Dispatcher &dispatcher,
          const std::vector<std::unique_ptr<runtime::LoadedKernel>> &kernels)
      : scenario(scenario), device(device), kernels(kernels), stream(**dispatcher.assignLane()) {
    device.at(0ns, [this] { submit(); });
  }

  std::uint64_t finished() const { return stream.finished.load(); }
  /// What the lane reports of a launch that failed.
  const Error *failure() const { return stream.failed ? &stream.failure : nullptr; }

private:
  /// One launch; then the next, when the program comes to it.
  void submit() {
    constexpr Nanoseconds look = 60us;        // at a step that has to end first
    constexpr std::uint64_t mostAhead = 1024; // launches, as CUDA's own queue
    std::size_t inStep = submitted % kernels.size();
    std::uint64_t step = submitted / kernels.size();
    bool mustWait = inStep == 0 && step >= scenario.stepsAhead &&
                    finished() < (step - scenario.stepsAhead + 1) * kernels.size();
    if (mustWait || submitted - finished() >= mostAhead) {
      device.at(device.now() + look, [this] { submit(); });
      return;
    }
    const TrainingKernel &kernel = scenario.training[inStep];
    Operation operation;
    operation.stream = &stream;
    operation.shape = {{kernel.waves() * scenario.smCount, 1, 1}, {128, 1, 1}, 0};
    if (kernel.hasVariants) {
      operation.kernel = kernels[inStep].get();
    } else {
      operation.identity = inStep + 1;
      operation.launchUserKernel = [this, inStep](runtime::StreamId on) {
        device.launchPlain(on, inStep);
      };
    }
    if (!stream.lane.submit(std::move(operation)))
      return;
    ++submitted;
    device.at(device.now() + std::max(scenario.training[submitted % kernels.size()].host, 1ns),
              [this] { submit(); });
  }

  const Scenario &scenario;
  SimDevice &device;
  const std::vector<std::unique_ptr<runtime::LoadedKernel>> &kernels;
  runtime::LaneStream stream;
  std::uint64_t submitted = 0;
};

/// The runtime's parts, on the simulated device.
class Simulation {
public:
  explicit Simulation(const Scenario &scenario) : scenario(scenario), device(scenario) {}
  // The lanes wait for their work when they end.
  ~Simulation() { device.endApplication(); }

  Result<Outcome> run() {
    Result<runtime::AnyPolicy> policy = runtime::policyFromText(scenario.policy);
    if (!policy)
      return policy.error();
    if (Result<void> made = open(std::move(*policy)); !made)
      return made.error();
    server.emplace(scenario, device, *high);
    trainer.emplace(scenario, device, *dispatcher, kernels);
    Outcome outcome;
    std::uint64_t seen = 0;
    Nanoseconds lastProgress{0};
    while (device.now() < scenario.length) {
      bool progressed = dispatcher->step();
      if (std::uint64_t finished = trainer->finished(); finished != seen) {
        seen = finished;
        outcome.longestPause = std::max(outcome.longestPause, device.now() - lastProgress);
        lastProgress = device.now();
      }
      if (const Error *failure = trainer->failure())
        return *failure;
      rest(progressed);
    }
    outcome.longestPause = std::max(outcome.longestPause, device.now() - lastProgress);
    fill(outcome, seen);
    return outcome;
  }

private:
  Result<void> open(runtime::AnyPolicy policy) {
    bundle::Bundle bundle = SimDevice::bundleOf(scenario);
    for (const bundle::Kernel &kernel : bundle.kernels) {
      auto found = runtime::LoadedKernel::find(device, runtime::ModuleId{1}, kernel, 1);
      if (!found)
        return found.error();
      kernels.push_back(std::move(*found));
    }
    runtime::StreamId control = *device.createStream(runtime::StreamPriority::Control);
    runtime::DevicePtr address = *device.allocate(64);
    std::uint64_t initial = runtime::DeviceControl::initialWord();
    std::memcpy(reinterpret_cast<void *>(address), &initial, sizeof initial);
    runtime::ClockFunction clock = [this] { return device.now(); };
    word.emplace(runtime::ControlWriter{&device, control, address}, clock);
    high = std::make_unique<runtime::RequestScopeTracker>(device, *word);
    runtime::DispatcherOptions options;
    options.policy = std::move(policy);
    options.lane.kinds = {Kind::Persistent};
    options.lane.control = address;
    options.lane.clock = clock;
    options.lane.waits = false;
    if (options.policy.limitsSms())
      if (Result<runtime::ConfinedSizes> sizes = runtime::confinedSizesOf(device))
        options.lane.confinedSizes = std::move(*sizes);
    options.lane.bound = scenario.bound;
    options.lanes = 1;
    auto made = runtime::Dispatcher::create(device, *word, *high, std::move(options));
    if (!made)
      return made.error();
    dispatcher = std::move(*made);
    return {};
  }

  /// The dispatcher's thread looks again and again; looks that see nothing new are left out.
  void rest(bool progressed) {
    constexpr Nanoseconds seldom = 50us; // it also looks at times that have passed
    Nanoseconds next = device.now() + scenario.costs.look;
    if (!progressed)
      if (std::optional<Nanoseconds> event = device.nextEvent())
        next = std::max(next, std::min(*event, device.now() + seldom));
    device.passUntil(std::min(next, scenario.length));
  }

  void fill(Outcome &outcome, std::uint64_t finished) {
    outcome.latencies = std::move(server->latencies);
    outcome.alone = std::move(server->alone);
    outcome.alone.resize(outcome.latencies.size());
    outcome.length = device.now();
    auto length = static_cast<double>(outcome.length.count());
    outcome.active = static_cast<double>(server->busyAlone.count()) / length;
    outcome.steps = static_cast<double>(finished) / static_cast<double>(scenario.training.size());
    outcome.stepsAlone = length / static_cast<double>(scenario.step.count());
    runtime::Statistics statistics;
    dispatcher->addTo(statistics);
    outcome.yields = statistics.yields;
  }

  const Scenario &scenario;
  SimDevice device;
  std::vector<std::unique_ptr<runtime::LoadedKernel>> kernels;
  std::optional<runtime::DeviceControl> word;
  std::unique_ptr<runtime::RequestScopeTracker> high;
  std::optional<Server> server;
  std::optional<Trainer> trainer;
  std::unique_ptr<runtime::Dispatcher> dispatcher; ///< ends before the others do
};

} // namespace

double Outcome::p99() const { return quantile(latencies, 0.99); }
double Outcome::p99Alone() const { return quantile(alone, 0.99); }
double Outcome::p50() const { return quantile(latencies, 0.5); }
double Outcome::p50Alone() const { return quantile(alone, 0.5); }

Result<Outcome> simulate(const Scenario &scenario) {
  if (scenario.training.empty() || scenario.step <= 0ns)
    return Error{"the scenario has no training"};
  if (scenario.requests.services.empty() || scenario.requests.fills.empty() ||
      scenario.requests.slowdown.empty())
    return Error{"the scenario has no requests"};
  for (const TrainingKernel &kernel : scenario.training)
    if (kernel.duration <= 0ns)
      return Error{"kernel " + kernel.name + " takes no time"};
  return Simulation(scenario).run();
}

} // namespace tally::sim
