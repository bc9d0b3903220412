// Runs the blocks of a launch on the fake device: one block at a time, each variant as abi.h says.
#include "fake_device.h"

#include "tally/runtime/control_word.h"

#include <numeric>
#include <stdexcept>

namespace tally::runtime {

bool FakeDevice::toldToYield(const tally_launch_params &params) {
  pollingState = reinterpret_cast<tally_launch_state *>(params.state);
  if (onPoll) {
    onPoll(pollCount);
    for (auto &[number, stream] : streams)
      while (stream->priority == StreamPriority::Control && !stream->queue.empty() &&
             isReady(stream->queue.front()))
        runOne(*stream);
  }
  ++pollCount;
  std::uint64_t word = *reinterpret_cast<const std::uint64_t *>(params.control);
  return decodeControl(word).epoch > params.epoch;
}

void FakeDevice::runVirtual(const Running &launch, std::uint64_t linear,
                            const tally_launch_params &params) {
  ++blockCount;
  if (onBlock)
    onBlock(launch.function->kind);
  Dim3 grid{params.grid[0], params.grid[1], params.grid[2]};
  auto x = static_cast<std::uint32_t>(linear % grid.x);
  auto y = static_cast<std::uint32_t>(linear / grid.x % grid.y);
  auto z = static_cast<std::uint32_t>(linear / grid.x / grid.y);
  launch.function->body({linear, {x, y, z}, grid, launch.parameters.data()});
}

static tally_control_mode modeOf(const tally_launch_params &params) {
  return decodeControl(*reinterpret_cast<const std::uint64_t *>(params.control)).mode;
}

/// Runs one turn of a worker: a poll, and then a block unless the worker leaves, sleeps or stays.
/// Returns whether the worker leaves.
bool FakeDevice::runWorker(Running &launch, std::uint32_t worker,
                           const tally_launch_params &params) {
  bool yields = toldToYield(params);
  bool naps = launch.function->kind == Kind::Pause && modeOf(params) == TALLY_CONTROL_PAUSE;
  if (launch.staying.contains(worker)) {
    bool leaves = !naps && (yields || launch.staying.size() == launch.left.size());
    if (leaves) {
      launch.staying.erase(worker);
      --staying;
    }
    return leaves;
  }
  auto *state = reinterpret_cast<tally_launch_state *>(params.state);
  if (!yields && naps)
    return false;
  if (!yields)
    if (std::uint32_t id = state->next_block++; id < params.blocks) {
      runVirtual(launch, id, params);
      return false;
    }
  if (params.stay == 0)
    return true;
  ++staying;
  launch.staying.insert(worker);
  return false;
}

/// The same for checkpoint. Each block polls twice before it does its work: a turn is a poll and
/// the code up to the next poll.
bool FakeDevice::runSavingWorker(Running &launch, std::uint32_t worker,
                                 const tally_launch_params &params) {
  constexpr std::uint32_t lastPoint = 1;
  auto *state = reinterpret_cast<tally_launch_state *>(params.state);
  auto *header = reinterpret_cast<tally_save_slot *>(params.save_area) - (worker + 1);
  launch.inside.resize(launch.shape.grid.x);
  auto &[isInside, block, point, hasStarted] = launch.inside[worker];
  if (!std::exchange(hasStarted, true) && params.resume != 0 && header->launch == params.resume) {
    // A restored block goes on to its next poll, even when the word asks to stop.
    isInside = true;
    block = header->block;
    point = header->point + 1;
  } else if (isInside) {
    if (toldToYield(params) && modeOf(params) == TALLY_CONTROL_CHECKPOINT) {
      *header = {TALLY_SAVED_UNDER(params.epoch), block, point, {}};
      std::memset(reinterpret_cast<void *>(params.save_area + worker * params.save_stride), 0x5a,
                  params.save_stride);
      ++state->saved;
      return true;
    }
    ++point;
  } else {
    if (toldToYield(params) || state->next_block >= params.blocks)
      return true;
    isInside = true;
    block = state->next_block++;
    point = 0;
  }
  if (point > lastPoint) {
    isInside = false;
    runVirtual(launch, block, params);
  }
  return false;
}

/// Runs one block of the launch, or one turn of a persistent worker. Returns whether the launch is
/// done.
bool FakeDevice::runBlock(Running &launch) {
  if (!launch.started) {
    launch.started = true;
    launch.left.resize(launch.shape.grid.count());
    std::iota(launch.left.begin(), launch.left.end(), 0);
  }
  std::size_t pick = random() % launch.left.size();
  std::uint32_t physical = launch.left[pick];
  bool leaves = true;
  tally_launch_params params{};
  const Dim3 &box = launch.shape.grid;
  if (!launch.function->kind) {
    params.grid[0] = box.x;
    params.grid[1] = box.y;
    params.grid[2] = box.z;
    runVirtual(launch, physical, params);
  } else {
    std::memcpy(&params, launch.parameters.data() + launch.function->tallyOffset, sizeof params);
    auto *state = reinterpret_cast<tally_launch_state *>(params.state);
    switch (*launch.function->kind) {
    case Kind::Slice: {
      std::uint64_t x = params.offset[0] + physical % box.x;
      std::uint64_t y = params.offset[1] + physical / box.x % box.y;
      std::uint64_t z = params.offset[2] + physical / box.x / box.y;
      runVirtual(launch, x + params.grid[0] * (y + params.grid[1] * z), params);
      break;
    }
    case Kind::Guard: {
      std::uint32_t id = physical;
      if (launch.function->resume)
        id = reinterpret_cast<const std::uint32_t *>(params.list_in)[physical];
      if (toldToYield(params))
        reinterpret_cast<std::uint32_t *>(params.list_out)[state->yielded++] = id;
      else
        runVirtual(launch, id, params);
      break;
    }
    case Kind::Persistent:
    case Kind::Pause:
      leaves = runWorker(launch, physical, params);
      break;
    case Kind::Checkpoint:
      leaves = runSavingWorker(launch, physical, params);
      break;
    }
  }
  if (leaves) {
    launch.left[pick] = launch.left.back();
    launch.left.pop_back();
  }
  return launch.left.empty();
}

} // namespace tally::runtime
