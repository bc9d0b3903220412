#include "run.h"

#include "requests.h"

#include "tally/bundle/abi.h"
#include "tally/runtime/variant_launch.h"

#include <fmt/format.h>

#include <cassert>
#include <cstring>
#include <utility>

namespace tally::verify {

namespace {

template <class T> std::span<const std::byte> bytesOf(const T &value) {
  return std::as_bytes(std::span(&value, 1));
}

/// Addresses of the buffers in device memory.
struct DeviceBuffers {
  std::vector<DeviceAddress> addresses;
};

Result<DeviceBuffers> upload(Target &target, const Workload &workload) {
  DeviceBuffers buffers;
  for (const Buffer &buffer : workload.buffers) {
    auto address = target.allocate(buffer.initial.size());
    if (!address)
      return address.error();
    if (auto written = target.write(*address, buffer.initial); !written)
      return written.error();
    buffers.addresses.push_back(*address);
  }
  return buffers;
}

/// Returns the addresses of the module's variables; the variable reader finds them on the device.
Result<std::vector<DeviceAddress>> variableAddresses(Target &target, std::size_t count) {
  std::vector<DeviceAddress> addresses(count);
  if (count == 0)
    return addresses;
  auto out = target.allocate(count * sizeof(DeviceAddress));
  if (!out)
    return out.error();
  LaunchShape one{{1, 1, 1}, {1, 1, 1}, 0};
  if (auto launched = target.launch(variableReader, one, bytesOf(*out)); !launched)
    return launched.error();
  if (auto read = target.read(std::as_writable_bytes(std::span(addresses)), *out); !read)
    return read.error();
  return addresses;
}

Result<RunResult> download(Target &target, const Workload &workload, const DeviceBuffers &buffers,
                           std::span<const ModuleVariable> variables) {
  RunResult result;
  auto readBack = [&](DeviceAddress from, std::size_t size) {
    result.memory.emplace_back(size);
    return target.read(result.memory.back(), from);
  };
  for (std::size_t i = 0; i < workload.buffers.size(); ++i)
    if (auto read = readBack(buffers.addresses[i], workload.buffers[i].initial.size()); !read)
      return read.error();
  auto addresses = variableAddresses(target, variables.size());
  if (!addresses)
    return addresses.error();
  for (std::size_t i = 0; i < variables.size(); ++i)
    if (auto read = readBack((*addresses)[i], variables[i].bytes); !read)
      return read.error();
  return result;
}

/// State of one kernel of the workload while a variant runs.
struct Progress {
  const KernelLaunch *kernel;
  runtime::VariantLaunch launch;
  std::vector<std::byte> parameters; ///< the user's, then space for tally's
  DeviceAddress state = 0, saveArea = 0;
  DeviceAddress lists[2] = {0, 0}; ///< the last launch wrote lists[written]
  unsigned written = 0;
};

class VariantRun {
public:
  VariantRun(Target &target, const Workload &workload, Kind kind, const YieldPlan &plan)
      : target(target), workload(workload), kind(kind), plan(plan), requests(target, plan, kind) {}

  Result<RunResult> run(std::span<const ModuleVariable> variables);

private:
  Result<void> prepare();
  Result<void> round(std::uint64_t epoch);
  Result<void> launchOnce(Progress &progress, std::uint64_t epoch);
  void checkPaused();
  Result<void> checkRequests() const;

  Target &target;
  const Workload &workload;
  Kind kind;
  const YieldPlan &plan;
  Requests requests;
  DeviceBuffers buffers;
  DeviceAddress control = 0;
  std::vector<Progress> kernels;
  std::uint64_t blocks = 0, physicalLaunches = 0, yields = 0, saved = 0;
  bool ranPaused = false; ///< a block was taken though all workers had been told to pause
};

Result<void> VariantRun::prepare() {
  auto uploaded = upload(target, workload);
  if (!uploaded)
    return uploaded.error();
  buffers = std::move(*uploaded);
  auto word = target.allocateControl(runtime::encodeControl({}));
  if (!word)
    return word.error();
  control = *word;
  for (const KernelLaunch &kernel : workload.launches) {
    assert(kernel.kernel->emitted(kind));
    assert(kernel.kernel->variantsTake(kernel.shape.grid));
    Progress progress{
        &kernel,
        {kind, runtime::shapeForVariants(*kernel.kernel, kernel.shape), plan.sliceBlocks,
         runtime::workersFor(*kernel.kernel, kernel.shape, plan.workers),
         kernel.kernel->guardTakesTickets(), runtime::saveStrideOf(*kernel.kernel, kernel.shape)},
        userParameters(kernel, buffers.addresses)};
    progress.parameters.resize(kernel.kernel->tallyParameterOffset() + sizeof(tally_launch_params));
    auto state = target.allocate(sizeof(tally_launch_state));
    if (!state)
      return state.error();
    progress.state = *state;
    if (std::uint64_t bytes = progress.launch.next().saveBytes; bytes != 0) {
      std::uint64_t headers = runtime::saveHeaderBytes(progress.launch.next().shape.grid.count());
      auto area = target.allocate(headers + bytes);
      if (!area)
        return area.error();
      if (auto cleared = target.write(*area, std::vector<std::byte>(headers)); !cleared)
        return cleared;
      progress.saveArea = *area + headers;
    }
    std::uint32_t capacity = progress.launch.next().listCapacity;
    for (DeviceAddress &list : progress.lists)
      if (capacity != 0) {
        auto allocated = target.allocate(capacity * sizeof(std::uint32_t));
        if (!allocated)
          return allocated.error();
        list = *allocated;
      }
    blocks += kernel.shape.grid.count();
    kernels.push_back(std::move(progress));
  }
  return {};
}

Result<void> VariantRun::launchOnce(Progress &progress, std::uint64_t epoch) {
  runtime::PhysicalLaunch physical = progress.launch.next();
  physical.params.control = control;
  physical.params.epoch = epoch;
  physical.params.state = progress.state;
  physical.params.save_area = progress.saveArea;
  physical.params.list_in = physical.readsList ? progress.lists[progress.written] : 0;
  physical.params.list_out = progress.lists[1 - progress.written];
  physical.params.stay = kind == Kind::Pause && plan.stays ? 1000 : 0;
  const bundle::Kernel &kernel = *progress.kernel->kernel;
  std::memcpy(progress.parameters.data() + kernel.tallyParameterOffset(), &physical.params,
              sizeof physical.params);
  if (auto written = target.write(progress.state, bytesOf(physical.state)); !written)
    return written;

  bool hadSaved = progress.launch.hasSaved();
  requests.beginLaunch(hadSaved);
  ++physicalLaunches;
  std::string entry = bundle::entryName(kernel.name, kind, physical.resumeEntry);
  if (auto launched = target.launch(entry, physical.shape, progress.parameters); !launched)
    return launched;

  tally_launch_state state{};
  if (auto read = target.read(std::as_writable_bytes(std::span(&state, 1)), progress.state); !read)
    return read;
  if (!progress.launch.plausible(state))
    return Error{
        fmt::format("{} left an impossible state: next_block {}, live {}, yielded {}, saved {}",
                    entry, state.next_block, state.live_workers, state.yielded, state.saved)};
  requests.endLaunch(!progress.launch.ranNothing(state));
  // A saved block goes on in any case.
  if (kind != Kind::Slice && !hadSaved && requests.deniedFirstPoll() &&
      !progress.launch.ranNothing(state))
    return Error{
        fmt::format("{} ran blocks though it was asked to yield at its first poll", entry)};
  saved += state.saved;
  progress.written = 1 - progress.written;
  if (!progress.launch.absorb(state, epoch, physical.shape.grid.x))
    return {};
  ++yields;
  // Work behind the launch on the stream was sent under the same epoch, and would run on half a
  // result.
  bool isAsked = plan.request != RequestKind::Quiet && plan.request != RequestKind::LateWrite &&
                 plan.request != RequestKind::Widths && plan.request != RequestKind::Pause &&
                 plan.request != RequestKind::Modes;
  if (!isAsked && requests.currentEpoch() <= epoch)
    return Error{
        fmt::format("{} left blocks to run though no request is newer than its epoch", entry)};
  return {};
}

Result<void> VariantRun::round(std::uint64_t epoch) {
  for (Progress &progress : kernels) {
    // A slice is one of several launches of a kernel and does not yield; work behind the kernel on
    // the stream follows the last slice.
    while (!progress.launch.finished()) {
      if (auto launched = launchOnce(progress, epoch); !launched)
        return launched;
      if (kind != Kind::Slice)
        break;
    }
  }
  return {};
}

/// Called at the end of a pause: checks a pause that began before any block was taken.
void VariantRun::checkPaused() {
  if (plan.request != RequestKind::Pause || plan.poll != 0)
    return;
  tally_launch_state state{};
  if (target.read(std::as_writable_bytes(std::span(&state, 1)), kernels.front().state))
    ranPaused = state.next_block != 0;
}

/// A variant that ignores requests gives right results and is still wrong.
Result<void> VariantRun::checkRequests() const {
  if (kind == Kind::Slice)
    return {};
  if (target.isMicroscope() && requests.polls() == 0)
    return Error{"the variant never polls the control word"};
  // The very first poll comes before any block is taken, and under guard each poll stands for a
  // block that has not run. (A persistent worker also polls when no block is left to take.)
  bool asked = plan.poll == 0 || (kind == Kind::Guard && plan.poll < requests.polls());
  bool mustYield = plan.request == RequestKind::Always || plan.request == RequestKind::Early ||
                   (plan.request == RequestKind::At && asked);
  if (yields == 0 && mustYield)
    return Error{"no block yielded though one was asked to"};
  if (plan.request == RequestKind::Pause && plan.poll == 0 &&
      (!requests.sawPauseOut() || ranPaused))
    return Error{"blocks ran though all workers were told to pause before they took any"};
  return {};
}

Result<RunResult> VariantRun::run(std::span<const ModuleVariable> variables) {
  if (auto prepared = prepare(); !prepared)
    return prepared.error();
  target.setSchedule(plan.schedule);
  target.setPollHook([this](std::uint64_t index) {
    bool before = requests.sawPauseOut();
    requests.poll(index);
    if (requests.sawPauseOut() != before)
      checkPaused();
  });
  // Each second or third round runs at least one block, or one turn of a loop in a block; a storm
  // takes more rounds but ends by itself.
  std::uint64_t roundsLeft = (kind == Kind::Checkpoint ? 16384 : 1024) + 4 * blocks;
  auto finished = [&] {
    for (const Progress &progress : kernels)
      if (!progress.launch.finished())
        return false;
    return true;
  };
  while (!finished()) {
    if (roundsLeft-- == 0)
      return Error{"the run does not end: launch after launch leaves blocks to run"};
    auto epoch = requests.beginRound();
    if (!epoch)
      return epoch.error();
    if (auto ran = round(*epoch); !ran)
      return ran.error();
  }
  target.setPollHook({});
  if (auto failure = requests.finish())
    return *failure;
  if (auto checked = checkRequests(); !checked)
    return checked.error();
  auto result = download(target, workload, buffers, variables);
  if (!result)
    return result;
  result->polls = requests.polls();
  result->physicalLaunches = physicalLaunches;
  result->yields = yields;
  result->saved = saved;
  return result;
}

} // namespace

Result<RunResult> runUser(Target &target, const Workload &workload,
                          std::span<const ModuleVariable> variables,
                          const emulator::Schedule &schedule) {
  if (auto fresh = target.reset(); !fresh)
    return fresh.error();
  auto buffers = upload(target, workload);
  if (!buffers)
    return buffers.error();
  target.setSchedule(schedule);
  for (const KernelLaunch &kernel : workload.launches)
    if (auto launched = target.launch(kernel.kernel->name, kernel.shape,
                                      userParameters(kernel, buffers->addresses));
        !launched)
      return launched.error();
  auto result = download(target, workload, *buffers, variables);
  if (result)
    result->physicalLaunches = workload.launches.size();
  return result;
}

Result<RunResult> runVariant(Target &target, const Workload &workload,
                             std::span<const ModuleVariable> variables, Kind kind,
                             const YieldPlan &plan) {
  if (auto fresh = target.reset(); !fresh)
    return fresh.error();
  return VariantRun(target, workload, kind, plan).run(variables);
}

} // namespace tally::verify
