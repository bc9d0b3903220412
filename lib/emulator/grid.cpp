#include "machine_state.h"

#include "cluster.h"

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace tally::emulator {

struct GridExecution::State {
  Machine::State *machine = nullptr;
  std::shared_ptr<const Program> program;
  Launch launch;
  std::uint64_t total = 0; ///< clusters
  std::atomic<std::uint64_t> next{0}, done{0};
  std::atomic<bool> faulted{false};
  mutable std::mutex mutex; ///< guards the next members
  std::optional<Fault> fault;
  std::vector<std::unique_ptr<Cluster>> idle;

  std::unique_ptr<Cluster> takeCluster() {
    {
      std::scoped_lock lock(mutex);
      if (!idle.empty()) {
        std::unique_ptr<Cluster> cluster = std::move(idle.back());
        idle.pop_back();
        return cluster;
      }
    }
    return std::make_unique<Cluster>(launch);
  }

  std::uint64_t clusters = 0; ///< clusters of a cooperative grid, which is one unit of work; else 0

  void makeCooperative() {
    constexpr std::size_t workspaceBytes = 256;
    constexpr std::uint32_t shortSlice = 1u << 10; // blocks that wait for other blocks spin
    auto workspace = machine->globalMemory.allocate(workspaceBytes, std::byte{0});
    if (!workspace)
      return keepFault({FaultKind::BadLaunch, workspace.error().message});
    launch.environment.gridWorkspace = *workspace;
    launch.environment.warpSlice = shortSlice;
    clusters = std::exchange(total, 1);
  }

  /// Runs the cluster to its end or to the end of the grid.
  void runOne(std::uint64_t id, std::uint32_t virtualSm);
  /// Runs all of a cooperative grid.
  void runTogether(std::uint32_t virtualSm);
  /// Whether the cluster has used up its steps or another cluster has faulted; the former is a
  /// fault.
  bool mustStop(const Cluster &cluster) {
    bool isSpent = cluster.steps() > machine->stepLimit.load(std::memory_order_relaxed);
    if (isSpent)
      keepFault({FaultKind::StepLimit,
                 "the step limit is reached (an endless loop?)",
                 0,
                 cluster.blocks[0]->id,
                 {}});
    return isSpent || faulted.load(std::memory_order_relaxed);
  }

  void keepFault(const Fault &each) {
    std::scoped_lock lock(mutex);
    if (!fault)
      fault = each;
    faulted.store(true, std::memory_order_release);
  }
};

/// Duration of every nanosleep, whatever its argument: long enough for other threads to run, short
/// compared with the awaited work.
constexpr std::chrono::microseconds napTime{20};

void GridExecution::State::runOne(std::uint64_t id, std::uint32_t virtualSm) {
  std::unique_ptr<Cluster> cluster = takeCluster();
  cluster->reset(id, virtualSm);
  Chooser plain(0);
  BlockState after = BlockState::Running;
  for (std::uint32_t slice = 1; after == BlockState::Running; ++slice) {
    after = advance(*cluster, plain);
    // The block may be polling for the work of another thread.
    if (after == BlockState::Running && cluster->napped())
      std::this_thread::sleep_for(napTime);
    else if (slice % 16 == 0)
      std::this_thread::yield();
    // A block may wait for a block on another thread, but not for ever, and not past a fault.
    if (after == BlockState::Running && mustStop(*cluster))
      break;
  }
  if (after == BlockState::Faulted)
    keepFault(*cluster->fault());
  machine->executed.fetch_add(cluster->executed(), std::memory_order_relaxed);
  std::scoped_lock lock(mutex);
  idle.push_back(std::move(cluster));
}

void GridExecution::State::runTogether(std::uint32_t virtualSm) {
  std::vector<std::unique_ptr<Cluster>> running;
  for (std::uint64_t id = 0; id < clusters; ++id) {
    running.push_back(std::make_unique<Cluster>(launch));
    running.back()->reset(id, virtualSm);
  }
  Chooser plain(0);
  while (!running.empty()) {
    std::erase_if(running, [&](const std::unique_ptr<Cluster> &cluster) {
      BlockState after = advance(*cluster, plain);
      if (after == BlockState::Faulted)
        keepFault(*cluster->fault());
      if (after != BlockState::Finished && !mustStop(*cluster))
        return false;
      machine->executed.fetch_add(cluster->executed(), std::memory_order_relaxed);
      return true;
    });
  }
}

GridExecution::GridExecution(Machine &machine, std::shared_ptr<const Program> program,
                             std::string_view kernel, const LaunchShape &shape,
                             std::span<const std::byte> parameters, Residency residency)
    : state(std::make_unique<State>()) {
  state->machine = machine.state.get();
  state->program = std::move(program);
  if (auto fault =
          state->machine->prepare(state->launch, *state->program, kernel, shape, parameters)) {
    state->keepFault(*fault);
    return;
  }
  state->total = shape.grid.count() / state->launch.cluster.count();
  if (residency == Residency::Cooperative)
    state->makeCooperative();
}

GridExecution::~GridExecution() {
  if (std::uint64_t workspace = state->launch.environment.gridWorkspace)
    (void)state->machine->globalMemory.free(workspace); // live: only this function frees it
}

bool GridExecution::hasBlock() const {
  return !state->faulted.load(std::memory_order_acquire) &&
         state->next.load(std::memory_order_relaxed) < state->total;
}

bool GridExecution::runBlock(std::uint32_t virtualSm) {
  if (!hasBlock())
    return false;
  std::uint64_t id = state->next.fetch_add(1, std::memory_order_relaxed);
  if (id >= state->total)
    return false;
  if (state->clusters)
    state->runTogether(virtualSm);
  else
    state->runOne(id, virtualSm);
  state->done.fetch_add(1, std::memory_order_release);
  return true;
}

bool GridExecution::finished() const {
  std::uint64_t done = state->done.load(std::memory_order_acquire);
  if (state->faulted.load(std::memory_order_acquire))
    return true;
  return done == state->total;
}

std::optional<Fault> GridExecution::fault() const {
  std::scoped_lock lock(state->mutex);
  return state->fault;
}

} // namespace tally::emulator
