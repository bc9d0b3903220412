#include "machine_state.h"

#include "decoder.h"
#include "scheduling.h"

#include <fmt/format.h>

#include <memory>
#include <vector>

namespace tally::emulator {

Environment Machine::State::environment() {
  Environment result;
  result.arena = &arena;
  result.watchedWord = &watchedWord;
  result.watchedRead = [](void *context) { static_cast<State *>(context)->watchedRead(); };
  result.watchContext = this;
  result.virtualSmCount = virtualSmCount.load(std::memory_order_relaxed);
  return result;
}

void Machine::State::watchedRead() {
  std::scoped_lock lock(watchMutex);
  if (observer)
    observer(reads++);
}

namespace {
constexpr std::uint32_t maximumSharedBytes = 227 * 1024;

std::optional<std::string> launchComplaint(const FunctionCode &function, const LaunchShape &shape,
                                           std::size_t parameterBytes) {
  std::uint64_t threads = shape.block.count();
  if (threads == 0 || shape.grid.count() == 0)
    return "an extent of the grid or the block is 0";
  if (threads > function.maxThreads)
    return fmt::format("{} threads in a block where {} are allowed", threads, function.maxThreads);
  if (function.requiredBlock.x && !(function.requiredBlock == shape.block))
    return "the block is not the one that .reqntid demands";
  std::uint64_t shared = std::uint64_t{function.staticSharedBytes} + shape.dynamicSharedBytes;
  if (shared > maximumSharedBytes)
    return fmt::format("{} bytes of shared memory where {} are allowed", shared,
                       maximumSharedBytes);
  if (parameterBytes < function.parameterBytes)
    return fmt::format("{} bytes of parameters where it takes {}", parameterBytes,
                       function.parameterBytes);
  return std::nullopt;
}
} // namespace

std::optional<Fault> Machine::State::prepare(Launch &launch, const Program &program,
                                             std::string_view kernel, const LaunchShape &shape,
                                             std::span<const std::byte> parameters) {
  auto found = program.functionIndex.find(kernel);
  if (found == program.functionIndex.end() || !program.functions[found->second].isEntry ||
      !program.functions[found->second].hasBody)
    return Fault{FaultKind::BadLaunch, fmt::format("no kernel {} in the module", kernel)};
  const FunctionCode &function = program.functions[found->second];
  if (auto wrong = launchComplaint(function, shape, parameters.size()))
    return Fault{FaultKind::BadLaunch, fmt::format("launching {}: {}", kernel, *wrong)};
  launch.program = &program;
  launch.function = &function;
  launch.shape = shape;
  launch.parameters.assign(parameters.begin(), parameters.end());
  launch.environment = environment();
  return std::nullopt;
}

Machine::Machine() : state(std::make_unique<State>()) {}
Machine::~Machine() = default;

Result<std::shared_ptr<const Program>> Machine::load(const ptx::Module &module) {
  return ModuleDecoder(module, state->arena).decode();
}

Result<DevicePtr> Machine::allocate(std::size_t bytes) {
  return state->arena.allocate(bytes, unwrittenByte);
}

Result<void> Machine::free(DevicePtr pointer) { return state->arena.free(pointer); }

Result<std::span<std::byte>> Machine::view(DevicePtr pointer, std::size_t bytes) {
  Segment segment = state->arena.find(pointer);
  if (segment.end == 0 || bytes > segment.end - pointer)
    return Error{
        fmt::format("[{:#x}, {:#x}) does not lie inside one allocation", pointer, pointer + bytes)};
  return std::span(state->arena.host(pointer), bytes);
}

void Machine::watchReads(DevicePtr pointer, ReadObserver observer) {
  std::scoped_lock lock(state->watchMutex);
  state->observer = std::move(observer);
  state->reads = 0;
  state->watchedWord.store(state->observer ? pointer : 0, std::memory_order_relaxed);
}

std::uint64_t Machine::executedThreadInstructions() const {
  return state->executed.load(std::memory_order_relaxed);
}

void Machine::setStepLimit(std::uint64_t warpInstructions) {
  state->stepLimit.store(warpInstructions, std::memory_order_relaxed);
}

void Machine::setVirtualSmCount(std::uint32_t count) {
  state->virtualSmCount.store(count, std::memory_order_relaxed);
}

namespace {

Fault stepLimitFault(const Block &block) {
  Fault fault{FaultKind::StepLimit, {}, 0, block.id, {}};
  for (const Warp &warp : block.warps)
    for (const Group &group : warp.groups) {
      if (!group.mask || group.state != GroupState::Ready)
        continue;
      const Op &op = block.program->code[group.pc];
      fault.line = block.program->lineOf(op);
      fault.message = fmt::format(
          "the step limit is reached (an endless loop?), at line {} of {} by block ({}, {}, {}), "
          "warp {}: {}",
          fault.line, block.program->functions[group.function].name, block.id.x, block.id.y,
          block.id.z, warp.index, block.program->textOf(op));
      return fault;
    }
  fault.message = "the step limit is reached";
  return fault;
}

/// The blocks in flight of a run, and the order in which they come.
class Wave {
public:
  Wave(const Launch &launch, const Schedule &schedule)
      : launch(launch), chooser(schedule.seed), total(launch.shape.grid.count()) {
    resident = std::max<std::uint32_t>(schedule.residentBlocks, 1);
  }

  std::optional<Fault> run(std::uint64_t stepLimit, std::uint64_t &executed) {
    std::uint64_t steps = 0;
    while (admit()) {
      std::size_t index = chooser.random()
                              ? chooser.below(static_cast<std::uint32_t>(running.size()))
                              : turn++ % running.size();
      Block &block = *running[index];
      std::uint64_t stepsBefore = block.steps, executedBefore = block.executed;
      BlockState after = advanceFor(block);
      steps += block.steps - stepsBefore;
      executed += block.executed - executedBefore;
      if (after == BlockState::Faulted)
        return block.fault;
      if (after == BlockState::Finished) {
        idle.push_back(std::move(running[index]));
        running.erase(running.begin() + static_cast<std::ptrdiff_t>(index));
        turn = 0;
      } else if (steps > stepLimit) {
        return stepLimitFault(block);
      }
    }
    return std::nullopt;
  }

private:
  /// In the plain order a block runs to its end unless it goes on for long; then others get a turn.
  BlockState advanceFor(Block &block) {
    if (chooser.random())
      return advance(block, chooser);
    BlockState after = BlockState::Running;
    for (int slice = 0; slice < 256 && after == BlockState::Running; ++slice)
      after = advance(block, chooser);
    return after;
  }

  bool admit() {
    while (running.size() < resident && next < total) {
      std::unique_ptr<Block> block;
      if (idle.empty()) {
        block = std::make_unique<Block>(launch);
      } else {
        block = std::move(idle.back());
        idle.pop_back();
      }
      block->reset(next++);
      running.push_back(std::move(block));
    }
    return !running.empty();
  }

  const Launch &launch;
  Chooser chooser;
  std::uint64_t total, next = 0;
  std::uint32_t resident;
  std::size_t turn = 0;
  std::vector<std::unique_ptr<Block>> running, idle;
};

} // namespace

std::optional<Fault> Machine::run(const Program &program, std::string_view kernel,
                                  const LaunchShape &shape, std::span<const std::byte> parameters,
                                  const Schedule &schedule) {
  Launch launch;
  if (auto fault = state->prepare(launch, program, kernel, shape, parameters))
    return fault;
  std::uint64_t executed = 0;
  auto fault =
      Wave(launch, schedule).run(state->stepLimit.load(std::memory_order_relaxed), executed);
  state->executed.fetch_add(executed, std::memory_order_relaxed);
  return fault;
}

Result<KernelInfo> kernelInfo(const Program &program, std::string_view kernel) {
  auto found = program.functionIndex.find(kernel);
  if (found == program.functionIndex.end() || !program.functions[found->second].isEntry)
    return Error{fmt::format("no kernel {} in the module", kernel)};
  const FunctionCode &function = program.functions[found->second];
  return KernelInfo{function.parameterBytes, function.staticSharedBytes, function.maxThreads};
}

} // namespace tally::emulator
