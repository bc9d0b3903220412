#include "machine_state.h"

#include "cluster.h"
#include "decoder.h"

#include <fmt/format.h>

#include <memory>
#include <vector>

namespace tally::emulator {

Environment Machine::State::environment() {
  Environment result;
  result.globalMemory = &globalMemory;
  result.textures = &textures;
  result.watchedWord = &watchedWord;
  result.watchedRead = [](void *context) { static_cast<State *>(context)->watchedRead(); };
  result.watchContext = this;
  if (printer) {
    result.print = [](void *context, std::string_view text) {
      static_cast<State *>(context)->printer(text);
    };
    result.printContext = this;
  }
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

/// Returns the extents that the launch or the kernel demands, else 1 each.
Dim3 clusterOf(const FunctionCode &function, const LaunchShape &shape) {
  if (shape.cluster.x != 0)
    return shape.cluster;
  return function.requiredCluster.x != 0 ? function.requiredCluster : Dim3{1, 1, 1};
}

std::optional<std::string> clusterComplaint(const FunctionCode &function,
                                            const LaunchShape &shape) {
  constexpr Dim3 none{0, 0, 0};
  if (!(shape.cluster == none) && !(function.requiredCluster == none) &&
      !(shape.cluster == function.requiredCluster))
    return "the cluster is not the one that .reqnctapercluster demands";
  if (!(shape.cluster == none) && shape.cluster.count() == 0)
    return "an extent of the cluster is 0";
  Dim3 cluster = clusterOf(function, shape);
  if (cluster.count() > function.maxClusterRank)
    return fmt::format("clusters of {} blocks where {} are allowed", cluster.count(),
                       function.maxClusterRank);
  if (shape.grid.x % cluster.x || shape.grid.y % cluster.y || shape.grid.z % cluster.z)
    return "the grid is no whole number of clusters";
  if (function.demandsExplicitCluster && shape.cluster == none && function.requiredCluster == none)
    return "the kernel has .explicitcluster and the launch names no cluster";
  return std::nullopt;
}

std::optional<std::string> launchComplaint(const FunctionCode &function, const LaunchShape &shape,
                                           std::size_t parameterBytes) {
  std::uint64_t threads = shape.block.count();
  if (threads == 0 || shape.grid.count() == 0)
    return "an extent of the grid or the block is 0";
  if (threads > function.maxThreads)
    return fmt::format("{} threads in a block where {} are allowed", threads, function.maxThreads);
  if (function.requiredBlock.x && !(function.requiredBlock == shape.block))
    return "the block is not the one that .reqntid demands";
  if (auto wrong = clusterComplaint(function, shape))
    return wrong;
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
  launch.cluster = clusterOf(function, shape);
  launch.explicitCluster = launch.cluster.count() > 1 || shape.cluster.x != 0;
  launch.environment = environment();
  return std::nullopt;
}

Machine::Machine(bool hostAddressed) : state(std::make_unique<State>(hostAddressed)) {}
Machine::~Machine() = default;

bool Machine::isHostAddressed() const { return state->globalMemory.isHostAddressed(); }

Result<std::shared_ptr<const Program>> Machine::load(const ptx::Module &module) {
  const ptx::Module *one = &module;
  return load(std::span(&one, 1));
}

Result<std::shared_ptr<const Program>> Machine::load(std::span<const ptx::Module *const> modules) {
  return ModuleDecoder(modules, state->globalMemory).decode();
}

void Machine::unload(const Program &program) {
  for (DevicePtr each : program.ownedMemory)
    (void)state->globalMemory.free(each); // each is live: only this function frees them
}

Result<DevicePtr> Machine::allocateZeroed(std::size_t bytes) {
  return state->globalMemory.allocate(bytes, std::byte{0});
}

Result<void> Machine::adopt(std::span<std::byte> memory) {
  return state->globalMemory.adopt(reinterpret_cast<std::uintptr_t>(memory.data()), memory.size());
}

Result<std::span<std::byte>> Machine::allocationAt(DevicePtr pointer) {
  Segment segment = state->globalMemory.find(pointer);
  if (segment.end == 0)
    return Error{fmt::format("nothing is allocated at {:#x}", pointer)};
  return std::span(state->globalMemory.host(segment.begin), segment.end - segment.begin);
}

std::uint64_t Machine::createTexture(const Texture &texture) {
  return state->textures.add(texture);
}

Result<void> Machine::destroyTexture(std::uint64_t handle) {
  if (state->textures.remove(handle))
    return {};
  return Error{fmt::format("{:#x} is no texture or surface object", handle)};
}

void Machine::setPrinter(Printer printer) { state->printer = std::move(printer); }

Result<DevicePtr> Machine::allocate(std::size_t bytes) {
  return state->globalMemory.allocate(bytes, unwrittenByte);
}

Result<void> Machine::free(DevicePtr pointer) { return state->globalMemory.free(pointer); }

Result<std::span<std::byte>> Machine::view(DevicePtr pointer, std::size_t bytes) {
  Segment segment = state->globalMemory.find(pointer);
  if (segment.end == 0 || bytes > segment.end - pointer)
    return Error{
        fmt::format("[{:#x}, {:#x}) does not lie inside one allocation", pointer, pointer + bytes)};
  return std::span(state->globalMemory.host(pointer), bytes);
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

/// Returns the place of a warp of the block that still runs.
std::optional<Fault> spinningIn(const Block &block) {
  for (const Warp &warp : block.warps)
    for (const Group &group : warp.groups) {
      if (!group.mask || group.state != GroupState::Ready)
        continue;
      const Op &op = block.program->code[group.pc];
      Fault fault{FaultKind::StepLimit, {}, block.program->lineOf(op), block.id, {}};
      fault.message = fmt::format(
          "the step limit is reached (an endless loop?), at line {} of {} by block ({}, {}, {}), "
          "warp {}: {}",
          fault.line, block.program->functions[group.function].name, block.id.x, block.id.y,
          block.id.z, warp.index, block.program->textOf(op));
      return fault;
    }
  return std::nullopt;
}

Fault stepLimitFault(const Cluster &cluster) {
  const Block &block = *cluster.blocks[0];
  Fault fault{FaultKind::StepLimit, {}, 0, block.id, {}};
  for (const auto &each : cluster.blocks)
    if (auto named = spinningIn(*each))
      return *named;
  fault.message = "the step limit is reached";
  return fault;
}

/// The clusters in flight of a run, and their order.
class Wave {
public:
  Wave(const Launch &launch, const Schedule &schedule)
      : launch(launch), chooser(schedule.seed),
        total(launch.shape.grid.count() / launch.cluster.count()) {
    resident = static_cast<std::uint32_t>(
        std::max<std::uint64_t>(schedule.residentBlocks / launch.cluster.count(), 1));
  }

  std::optional<Fault> run(std::uint64_t stepLimit, std::uint64_t &executed) {
    std::uint64_t steps = 0;
    while (admit()) {
      std::size_t index = chooser.random()
                              ? chooser.below(static_cast<std::uint32_t>(running.size()))
                              : turn++ % running.size();
      Cluster &cluster = *running[index];
      std::uint64_t stepsBefore = cluster.steps(), executedBefore = cluster.executed();
      BlockState after = advanceFor(cluster);
      steps += cluster.steps() - stepsBefore;
      executed += cluster.executed() - executedBefore;
      if (after == BlockState::Faulted)
        return cluster.fault();
      if (after == BlockState::Finished) {
        idle.push_back(std::move(running[index]));
        running.erase(running.begin() + static_cast<std::ptrdiff_t>(index));
        turn = 0;
      } else if (steps > stepLimit) {
        return stepLimitFault(cluster);
      }
    }
    return std::nullopt;
  }

private:
  /// In the plain order a cluster runs to its end. If it runs for long, other clusters get a turn.
  BlockState advanceFor(Cluster &cluster) {
    if (chooser.random())
      return advance(cluster, chooser);
    BlockState after = BlockState::Running;
    for (int slice = 0; slice < 256 && after == BlockState::Running; ++slice) {
      after = advance(cluster, chooser);
      if (cluster.napped())
        break;
    }
    return after;
  }

  bool admit() {
    while (running.size() < resident && next < total) {
      std::unique_ptr<Cluster> cluster;
      if (idle.empty()) {
        cluster = std::make_unique<Cluster>(launch);
      } else {
        cluster = std::move(idle.back());
        idle.pop_back();
      }
      cluster->reset(next++);
      running.push_back(std::move(cluster));
    }
    return !running.empty();
  }

  const Launch &launch;
  Chooser chooser;
  std::uint64_t total, next = 0; ///< clusters
  std::uint32_t resident;
  std::size_t turn = 0;
  std::vector<std::unique_ptr<Cluster>> running, idle;
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
  KernelInfo info{function.parameterBytes,
                  function.staticSharedBytes,
                  function.maxThreads,
                  function.localBytes,
                  0,
                  function.requiredCluster,
                  {}};
  for (const Segment &each : program.constSegments)
    info.constantBytes += static_cast<std::uint32_t>(each.end - each.begin);
  for (const ParameterPlace &each : function.entryParameters)
    info.parameters.push_back({each.offset, each.bytes});
  return info;
}

Result<ProgramVariable> programVariable(const Program &program, std::string_view name) {
  auto found = program.variables.find(name);
  if (found == program.variables.end())
    return Error{fmt::format("no variable {} in the module", name)};
  const VariableInfo &info = found->second;
  return ProgramVariable{info.address, info.bytes, info.isConstant, info.isManaged};
}

} // namespace tally::emulator
