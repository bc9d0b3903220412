// The dispatcher's parts on a FakeDevice. One thread drives them step by step, with a clock that
// the test sets: the same seed gives the same run.
#ifndef TALLY_UNITTESTS_RUNTIME_HARNESS_H
#define TALLY_UNITTESTS_RUNTIME_HARNESS_H

#include "dispatch/dispatcher.h"
#include "program.h"

#include <doctest/doctest.h>

#include <memory>

namespace tally::runtime {

/// Long loops over polls and seeds take one in so many: a sanitizer makes a run some twenty times
/// longer, and looks for other faults than an order in which one poll alone goes wrong.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint64_t oneIn = 7;
#else
constexpr std::uint64_t oneIn = 1;
#endif

struct Harness {
  explicit Harness(std::uint64_t seed,
                   std::vector<Kind> kinds = {Kind::Persistent, Kind::Guard, Kind::Slice},
                   AnyPolicy policy = {}, std::uint32_t smsOfNonPreemptible = 0,
                   ProfileStore *profiles = nullptr, Trace *trace = nullptr,
                   std::uint32_t recordBytes = 4, std::uint32_t registersPerSm = 65536,
                   std::uint32_t reserve = 25, ConfinedSizes confinedSizes = {})
      : device(seed), random(seed * 77 + 1) {
    device.setRegisters(registersPerSm);
    bundle::Bundle bundle = mixBundle(device, recordBytes);
    ModuleId module = *device.loadModule(bundle);
    for (const bundle::Kernel &kernel : bundle.kernels)
      kernels.push_back(std::move(*LoadedKernel::find(device, module, kernel, 77)));
    control = *device.createStream(StreamPriority::Control);
    wordAddress = *device.allocate(64);
    REQUIRE(device.writeValue(control, wordAddress, DeviceControl::initialWord()));
    REQUIRE(device.synchronize(control));
    ClockFunction clock = [this] { return now; };
    word.emplace(ControlWriter{&device, control, wordAddress}, clock);
    high = std::make_unique<RequestScopeTracker>(device, *word);
    high->wakeTrace().to(trace);
    DispatcherOptions options;
    options.policy = std::move(policy);
    // The smallest ring, so that it wraps often.
    options.lane = {std::move(kinds), wordAddress, clock, 64};
    options.lane.warn = [this](const std::string &text) { warnings.push_back(text); };
    options.lane.smsOfNonPreemptible = smsOfNonPreemptible;
    options.lane.confinedSizes = std::move(confinedSizes);
    options.lane.reserve = reserve;
    options.lane.profiles = profiles;
    options.lane.trace = trace;
    options.lane.boundsToDrain = 0.4; // six waves are many here
    options.lane.measures = profiles != nullptr;
    dispatcher = std::move(*Dispatcher::create(device, *word, *high, std::move(options)));
  }
  ~Harness() { dispatcher.reset(); }

  void addStreams(const Program &program) {
    Outcome initial = initialOutcome(program);
    for (std::size_t s = 0; s < program.streams; ++s) {
      streams.push_back(std::make_unique<LaneStream>(**dispatcher->assignLane()));
      memory.emplace_back();
      for (std::size_t b = 0; b < Program::buffers; ++b) {
        memory[s][b] = *device.allocate(Program::words * 8);
        std::memcpy(reinterpret_cast<void *>(memory[s][b]), initial.buffers[s][b].data(),
                    Program::words * 8);
      }
    }
    hostOut = initial.hostOut;
  }

  Result<void> submit(const Program &program, std::size_t n) {
    const Step &step = program.steps[n];
    auto &buffers = memory[step.stream];
    Operation operation;
    operation.stream = streams[step.stream].get();
    operation.transfer.device = buffers[step.to];
    switch (step.type) {
    case Step::Type::Launch: {
      operation.kernel = kernels[step.kernel].get();
      operation.shape = {step.grid, block, sharedBytes};
      MixArguments arguments{buffers[step.to], buffers[step.from], Program::words, step.key};
      auto bytes = std::as_bytes(std::span(&arguments, 1));
      operation.parameters = SharedBytes(bytes);
      break;
    }
    case Step::Type::CopyIn:
      operation.type = Operation::Type::CopyToDevice;
      operation.transfer.from = std::as_bytes(std::span(program.hostIn[n]));
      break;
    case Step::Type::CopyOut:
      operation.type = Operation::Type::CopyToHost;
      operation.transfer.to = std::as_writable_bytes(std::span(hostOut[n]));
      break;
    case Step::Type::Fill:
      operation.type = Operation::Type::Fill;
      operation.transfer.value = static_cast<std::byte>(step.key & 0xff);
      operation.transfer.bytes = Program::words * 8;
      break;
    }
    Result<std::uint64_t> submitted = streams[step.stream]->lane.submit(std::move(operation));
    return submitted ? Result<void>() : submitted.error();
  }

  bool allFinished() const {
    for (const auto &stream : streams)
      if (stream->finished != stream->submitted)
        return false;
    return true;
  }

  Outcome outcome() const {
    Outcome result;
    result.buffers.resize(streams.size());
    for (std::size_t s = 0; s < streams.size(); ++s)
      for (std::size_t b = 0; b < Program::buffers; ++b) {
        auto *words = reinterpret_cast<const std::uint64_t *>(memory[s][b]);
        result.buffers[s][b].assign(words, words + Program::words);
      }
    result.hostOut = hostOut;
    return result;
  }

  Statistics statistics() const {
    Statistics statistics;
    dispatcher->addTo(statistics);
    return statistics;
  }

  FakeDevice device;
  std::mt19937_64 random;
  Nanoseconds now{1000000};
  std::uint64_t mostStep = 3000; ///< largest time in nanoseconds between two steps of runRandomly()
  std::vector<std::string> warnings;                  ///< the lanes'
  std::vector<std::unique_ptr<LoadedKernel>> kernels; ///< in the order of mixNames
  StreamId control{};
  DevicePtr wordAddress = 0;
  std::optional<DeviceControl> word;
  std::unique_ptr<RequestScopeTracker> high;
  std::unique_ptr<Dispatcher> dispatcher;
  std::vector<std::unique_ptr<LaneStream>> streams;
  std::vector<std::array<DevicePtr, Program::buffers>> memory;
  std::vector<Words> hostOut;
  Dim3 block{64, 1, 1};
  std::uint32_t sharedBytes = 0; ///< dynamic, of each launch
  int openRequests = 0;          ///< high-priority scopes that a test has opened and not closed
};

/// Relative frequencies of the next step's kinds.
struct Mood {
  std::uint64_t submit, dispatch, device, wake, end;
};

/// Runs a program with random interleavings of application, dispatcher, device and requests.
inline void runRandomly(Harness &harness, const Program &program, const Mood &mood) {
  std::mt19937_64 &random = harness.random;
  std::size_t next = 0;
  int &open = harness.openRequests;
  std::uint64_t total = mood.submit + mood.dispatch + mood.device + mood.wake + mood.end;
  for (std::uint64_t turn = 0; next < program.steps.size() || !harness.allFinished(); ++turn) {
    REQUIRE(turn < 2000000);
    harness.now += Nanoseconds(random() % harness.mostStep);
    std::uint64_t pick = random() % total;
    if (pick < mood.submit) {
      if (next < program.steps.size())
        REQUIRE(harness.submit(program, next++));
    } else if ((pick -= mood.submit) < mood.dispatch) {
      harness.dispatcher->step();
    } else if ((pick -= mood.dispatch) < mood.device) {
      harness.device.advance();
    } else if ((pick -= mood.device) < mood.wake) {
      REQUIRE(harness.high->beginRequest());
      ++open;
    } else if (open > 0) {
      REQUIRE(harness.high->endRequest());
      --open;
    }
  }
  for (; open > 0; --open)
    REQUIRE(harness.high->endRequest());
}

} // namespace tally::runtime

#endif
