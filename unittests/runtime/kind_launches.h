// Launches of one kernel; the lane chooses the kind by measured durations.
#ifndef TALLY_UNITTESTS_RUNTIME_KIND_LAUNCHES_H
#define TALLY_UNITTESTS_RUNTIME_KIND_LAUNCHES_H

#include "harness.h"

#include "planning/profile_store.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace tally::test {

using namespace tally::runtime;
using namespace std::chrono_literals;

inline const std::vector<Kind> everyKind = {Kind::Persistent, Kind::Guard, Kind::Slice,
                                            Kind::Checkpoint};

/// Launches of one kernel and shape, one after the other on one stream. Blocks run one at a time
/// and a wave has four blocks, so the measured time of a block is that of four.
struct Launches : Harness {
  explicit Launches(std::size_t count, std::vector<Kind> kinds = everyKind,
                    std::uint32_t recordBytes = 32, Dim3 grid = {24, 1, 1},
                    ProfileStore *store = nullptr, AnyPolicy policy = {},
                    std::uint32_t registersPerSm = 65536)
      : Harness(count, std::move(kinds), std::move(policy), 0, store, nullptr, recordBytes,
                registersPerSm) {
    program = Program::launches(count, 0, grid);
    addStreams(program);
    device.onBlock = [this](std::optional<Kind> kind) {
      ++blocks[kind];
      now += eachBlock;
      if (inBlock)
        inBlock();
    };
  }
  void turn() {
    dispatcher->step();
    device.advance();
  }
  /// Runs launch `n`; returns the number of its blocks by kind.
  std::map<std::optional<Kind>, int> run(std::size_t n) {
    blocks.clear();
    REQUIRE(submit(program, n));
    for (int i = 0; i < 100000 && !allFinished(); ++i)
      turn();
    REQUIRE(allFinished());
    return blocks;
  }
  /// Submits a launch behind that stream of the application's; nothing: behind no stream.
  void submitBehind(std::optional<StreamId> ahead) {
    Operation operation;
    operation.stream = streams[0].get();
    operation.kernel = kernels[0].get();
    operation.shape = {{24, 1, 1}, {64, 1, 1}, 0};
    auto bytes = std::as_bytes(std::span(&scratchArguments, 1));
    operation.parameters = SharedBytes(bytes);
    operation.ordered = ahead;
    operation.took = took;
    REQUIRE(streams[0]->lane.submit(std::move(operation)));
  }
  std::map<std::optional<Kind>, int> runAll() {
    std::map<std::optional<Kind>, int> last;
    for (std::size_t n = 0; n < program.steps.size(); ++n)
      last = run(n);
    CHECK((outcome() == runInOrder(program)));
    return last;
  }
  /// Makes a request in the block after that many; the request ends when no work runs any more.
  void stopBehind(int count) {
    inBlock = [this, count, seen = 0]() mutable {
      if (++seen == count)
        REQUIRE(high->beginRequest());
    };
  }
  ControlFields told() const {
    return decodeControl(*reinterpret_cast<const std::uint64_t *>(wordAddress));
  }

  Program program;
  Nanoseconds eachBlock = 1us;
  /// Duration that launches of submitBehind() had before, measured without the lane.
  Nanoseconds took{0};
  std::function<void()> inBlock;
  std::map<std::optional<Kind>, int> blocks;
  Words scratch = Words(2 * Program::words);
  MixArguments scratchArguments{reinterpret_cast<std::uint64_t>(scratch.data()),
                                reinterpret_cast<std::uint64_t>(&scratch[Program::words]),
                                Program::words, 1};
};

using Blocks = std::map<std::optional<Kind>, int>;

} // namespace tally::test

#endif
