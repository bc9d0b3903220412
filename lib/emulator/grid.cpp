#include "machine_state.h"

#include "cluster.h"

#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

namespace tally::emulator {

struct GridExecution::State {
  Machine::State *machine = nullptr;
  std::shared_ptr<const Program> program;
  Launch launch;
  std::uint64_t total = 0; ///< clusters
  std::atomic<std::uint64_t> next{0}, done{0};
  std::atomic<bool> faulted{false};
  mutable std::mutex mutex; ///< guards what follows
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

  void keepFault(const Fault &each) {
    std::scoped_lock lock(mutex);
    if (!fault)
      fault = each;
    faulted.store(true, std::memory_order_release);
  }
};

GridExecution::GridExecution(Machine &machine, std::shared_ptr<const Program> program,
                             std::string_view kernel, const LaunchShape &shape,
                             std::span<const std::byte> parameters)
    : state(std::make_unique<State>()) {
  state->machine = machine.state.get();
  state->program = std::move(program);
  if (auto fault =
          state->machine->prepare(state->launch, *state->program, kernel, shape, parameters))
    state->keepFault(*fault);
  else
    state->total = shape.grid.count() / state->launch.cluster.count();
}

GridExecution::~GridExecution() = default;

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
  std::unique_ptr<Cluster> cluster = state->takeCluster();
  cluster->reset(id, virtualSm);
  Chooser plain(0);
  std::uint64_t limit = state->machine->stepLimit.load(std::memory_order_relaxed);
  BlockState after = BlockState::Running;
  for (std::uint32_t slice = 1; after == BlockState::Running; ++slice) {
    after = advance(*cluster, plain);
    if (slice % 16 == 0)
      std::this_thread::yield(); // it may be polling for what another thread is to do
    // A block may wait for one that another thread runs, but not for ever, and not past a fault.
    if (after == BlockState::Running &&
        (cluster->steps() > limit || state->faulted.load(std::memory_order_relaxed))) {
      if (cluster->steps() > limit)
        state->keepFault({FaultKind::StepLimit,
                          "the step limit is reached (an endless loop?)",
                          0,
                          cluster->blocks[0]->id,
                          {}});
      break;
    }
  }
  if (after == BlockState::Faulted)
    state->keepFault(*cluster->fault());
  state->machine->executed.fetch_add(cluster->executed(), std::memory_order_relaxed);
  {
    std::scoped_lock lock(state->mutex);
    state->idle.push_back(std::move(cluster));
  }
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
