// Random programs of best-effort work whose result depends on every order that a stream promises,
// and on each block running exactly once; and the expected result, of running the steps one by one.
#ifndef TALLY_UNITTESTS_RUNTIME_PROGRAM_H
#define TALLY_UNITTESTS_RUNTIME_PROGRAM_H

#include "fake_device.h"

#include "tally/runtime/runtime.h"

#include <array>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace tally::runtime {

using Words = std::vector<std::uint64_t>;

constexpr std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

/// The work of one block: computes to[i] from its old value and from words of `from` that other
/// blocks of the previous kernel wrote.
constexpr std::uint64_t mixWord(std::uint64_t old, std::uint64_t a, std::uint64_t b,
                                std::uint64_t key) {
  return mixed(old * 31 + a + 7 * b + key);
}

inline void mixBlock(std::uint64_t *to, const std::uint64_t *from, std::uint64_t i,
                     std::uint64_t count, std::uint64_t key) {
  to[i] = mixWord(to[i], from[(i * 5 + key) % count], from[(i + 1) % count], key);
}

struct MixArguments {
  std::uint64_t to, from, count, key;
};

/// Kernels with the same body and different sets of emitted kinds.
inline const std::array<std::string, 5> mixNames = {"mix", "mix_guard", "mix_persistent",
                                                    "mix_slice", "mix_non_preemptible"};

/// `recordBytes`: bytes that each thread of a checkpoint variant saves.
inline bundle::Bundle mixBundle(FakeDevice &device, std::uint32_t recordBytes = 4) {
  bundle::Bundle bundle;
  for (const std::string &name : mixNames) {
    bundle::Kernel kernel{name, {{0, 8}, {8, 8}, {16, 8}, {24, 8}}, 32, 0, true, {}};
    for (Kind kind : allKinds) {
      bool emitted = name == "mix" || name == "mix_" + std::string(tally::name(kind));
      kernel.verdicts.push_back({kind, emitted ? Status::Emitted : Status::Refused,
                                 emitted ? "" : "test", emitted ? "" : "Not wanted.", 0,
                                 kind == Kind::Checkpoint ? recordBytes : 0});
    }
    bundle.kernels.push_back(kernel);
    device.define(name, [&device](const FakeBlock &block) {
      auto arguments = block.argument<MixArguments>(0);
      mixBlock(reinterpret_cast<std::uint64_t *>(arguments.to),
               reinterpret_cast<const std::uint64_t *>(arguments.from), block.linear,
               arguments.count, arguments.key);
      if (device.onStepsBlock)
        device.onStepsBlock(arguments.key);
    });
  }
  return bundle;
}

/// One step of a program, on one of its streams.
struct Step {
  enum class Type : std::uint8_t { Launch, CopyIn, CopyOut, Fill };
  Type type = Type::Launch;
  std::size_t stream = 0, kernel = 0;
  std::size_t to = 0, from = 1; ///< buffers of the stream
  Dim3 grid;
  std::uint64_t key = 0;
  std::size_t host = 0; ///< index of the stream's host buffer
};

struct Program {
  static constexpr std::size_t buffers = 3, words = 24;
  std::size_t streams = 0;
  std::vector<Step> steps;
  std::vector<Words> hostIn; ///< inputs of the copies

  static Program make(std::mt19937_64 &random, std::size_t streams, std::size_t length,
                      std::size_t kernels) {
    static const std::vector<Dim3> grids = {{24, 1, 1}, {6, 4, 1}, {2, 3, 4}, {1, 1, 24},
                                            {1, 1, 1},  {3, 2, 1}, {17, 1, 1}};
    Program program;
    program.streams = streams;
    for (std::size_t i = 0; i < length; ++i) {
      Step step;
      std::uint64_t what = random() % 16;
      step.type = what < 13    ? Step::Type::Launch
                  : what == 13 ? Step::Type::CopyIn
                  : what == 14 ? Step::Type::CopyOut
                               : Step::Type::Fill;
      step.stream = random() % streams;
      step.kernel = random() % kernels;
      step.to = random() % buffers;
      step.from = (step.to + 1 + random() % (buffers - 1)) % buffers;
      step.grid = grids[random() % grids.size()];
      step.key = random();
      step.host = i;
      program.steps.push_back(step);
      Words in(words);
      for (std::uint64_t &word : in)
        word = random();
      program.hostIn.push_back(in);
    }
    return program;
  }

  /// Launches of one kernel on one stream; each reads the buffer that the previous one wrote.
  static Program launches(std::size_t count, std::size_t kernel = 0, Dim3 grid = {24, 1, 1}) {
    Program program;
    program.streams = 1;
    for (std::uint64_t n = 1; n <= count; ++n)
      program.steps.push_back({Step::Type::Launch, 0, kernel, n % 2, (n + 1) % 2, grid, n, 0});
    program.hostIn.resize(count);
    return program;
  }
};

/// Contents of the device's and the host's memory after a program.
struct Outcome {
  std::vector<std::array<Words, Program::buffers>> buffers; ///< by stream
  std::vector<Words> hostOut;                               ///< by step
  friend bool operator==(const Outcome &, const Outcome &) = default;
};

inline Outcome initialOutcome(const Program &program) {
  Outcome outcome;
  outcome.buffers.resize(program.streams);
  for (std::size_t stream = 0; stream < program.streams; ++stream)
    for (std::size_t buffer = 0; buffer < Program::buffers; ++buffer)
      for (std::size_t i = 0; i < Program::words; ++i)
        outcome.buffers[stream][buffer].push_back(mixed(stream * 1000 + buffer * 100 + i));
  outcome.hostOut.assign(program.steps.size(), Words(Program::words));
  return outcome;
}

/// Runs the steps one after the other, each to its end.
inline Outcome runInOrder(const Program &program) {
  Outcome outcome = initialOutcome(program);
  for (std::size_t n = 0; n < program.steps.size(); ++n) {
    const Step &step = program.steps[n];
    auto &buffers = outcome.buffers[step.stream];
    Words &to = buffers[step.to];
    switch (step.type) {
    case Step::Type::Launch:
      for (std::uint64_t i = 0; i < step.grid.count(); ++i)
        mixBlock(to.data(), buffers[step.from].data(), i, Program::words, step.key);
      break;
    case Step::Type::CopyIn:
      to = program.hostIn[n];
      break;
    case Step::Type::CopyOut:
      outcome.hostOut[n] = to;
      break;
    case Step::Type::Fill:
      to.assign(Program::words, 0x0101010101010101u * (step.key & 0xff));
      break;
    }
  }
  return outcome;
}

} // namespace tally::runtime

#endif
