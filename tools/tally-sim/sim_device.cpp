#include "sim_device.h"

#include "tally/runtime/control_word.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <utility>

namespace tally::sim {

using runtime::DevicePtr;
using runtime::FunctionId;
using runtime::StreamId;

namespace {

/// Function ids: a kernel's number from 1, and above that the variant's mark.
constexpr std::uint64_t variantMark = std::uint64_t{1} << 32;
constexpr double nothingLeft = 1e-6;
/// Beside a request that fills the device a kernel still gets the pauses between its kernels.
constexpr double leastShare = 0.02;

Nanoseconds rounded(double nanoseconds) {
  return Nanoseconds(static_cast<std::int64_t>(std::ceil(std::max(nanoseconds, 0.0))));
}

} // namespace

SimDevice::SimDevice(const Scenario &scenario) : scenario(scenario) {
  facts.name = "simulated";
  facts.arch = 90;
  facts.smCount = scenario.smCount;
  facts.maxSharedBytesPerBlock = 227 << 10;
  facts.threadsPerSm = 2048;
  facts.registersPerSm = 65536;
  facts.sharedBytesPerSm = 228 << 10;
  facts.blocksPerSm = 32;
  facts.launchTurn = std::chrono::microseconds(10);
}

bundle::Bundle SimDevice::bundleOf(const Scenario &scenario) {
  bundle::Bundle bundle;
  for (std::size_t i = 0; i < scenario.training.size(); ++i) {
    bundle::Kernel kernel;
    kernel.name = "kernel_" + std::to_string(i);
    for (Kind kind : allKinds) {
      bool isEmitted = kind == Kind::Persistent && scenario.training[i].hasVariants;
      kernel.verdicts.push_back({kind, isEmitted ? Status::Emitted : Status::Refused,
                                 isEmitted ? "" : "simulated", isEmitted ? "" : "Not simulated.", 0,
                                 0});
    }
    bundle.kernels.push_back(std::move(kernel));
  }
  return bundle;
}

void SimDevice::at(Nanoseconds when, std::function<void()> event) {
  applications.push({std::max(when, time), ++eventCount, std::move(event)});
}

void SimDevice::startRequest(const Requests::Work &work, std::function<void()> done) {
  assert(!request);
  request = {work, static_cast<double>(work.service.count()), blocksEndAt(), std::move(done)};
  knownEnd.reset();
}

/// When the blocks that run now have made room for a request.
Nanoseconds SimDevice::blocksEndAt() const {
  double longest = 0;
  for (const auto &stream : streams)
    if (stream->isRunning && !stream->items.front().kernel->isConfined) {
      const Kernel &kernel = *stream->items.front().kernel;
      double rest = kernel.left / std::max(kernel.width, 1.0) * kernel.block;
      longest = std::max(longest, std::min(rest, kernel.block));
    }
  return time + rounded(longest);
}

/// Part of the SMs that a kernel of the training has. Beside a request it has those that the
/// request does not fill; its blocks that had begun before have ended when the request starts.
double SimDevice::shareOf(const Kernel &kernel) const {
  double wanted = kernel.width / scenario.smCount;
  bool isBesideRequest = request && time >= request->from;
  if (!isBesideRequest || kernel.isTold || kernel.isConfined)
    return wanted;
  return std::min(wanted, std::max(1 - request->work.fills, leastShare));
}

double SimDevice::shareOfTraining() const {
  double all = 0;
  for (const auto &stream : streams)
    if (stream->isRunning)
      all += shareOf(*stream->items.front().kernel);
  return std::min(all, 1.0);
}

/// Part of the SMs that the request would fill, and that confined work has.
double SimDevice::shareTaken() const {
  double confined = 0;
  for (const auto &stream : streams)
    if (stream->isRunning && stream->items.front().kernel->isConfined)
      confined += shareOf(*stream->items.front().kernel);
  return std::clamp(confined - (1 - request->work.fills), 0.0, request->work.fills);
}

double SimDevice::speedOfRequest() const {
  if (time < request->from)
    return 0;
  double fills = request->work.fills;
  double sms = fills > 0 ? (fills - shareTaken()) / fills : 1;
  return sms / (1 + request->work.slowdown * shareOfTraining());
}

/// Blocks in a nanosecond. Kernels that run at a time share the device evenly.
double SimDevice::speedOf(const Kernel &kernel) const {
  double part = shareOf(kernel) / (kernel.width / scenario.smCount);
  return kernel.width / kernel.block * part /
         static_cast<double>(std::max<std::size_t>(runningCount, 1));
}

/// When the next thing on the device ends or begins, if nothing is put there before. It stays so
/// until something begins, ends or is told to yield.
std::optional<Nanoseconds> SimDevice::nextEnd() {
  if (!knownEnd)
    knownEnd = findEnd();
  return *knownEnd;
}

std::optional<Nanoseconds> SimDevice::findEnd() const {
  std::optional<Nanoseconds> next;
  auto take = [&](Nanoseconds when) { next = next ? std::min(*next, when) : when; };
  for (const auto &stream : streams)
    if (stream->isRunning) {
      const Kernel &kernel = *stream->items.front().kernel;
      take(time + rounded(kernel.left / speedOf(kernel)));
    } else if (!stream->items.empty() && stream->ready > time) {
      take(stream->ready);
    }
  if (request)
    take(time < request->from ? request->from : time + rounded(request->left / speedOfRequest()));
  return next;
}

std::optional<Nanoseconds> SimDevice::nextEvent() {
  std::optional<Nanoseconds> next = nextEnd();
  for (const auto *queue : {&events, &applications})
    if (!queue->empty())
      next = next ? std::min(*next, queue->top().when) : queue->top().when;
  return next;
}

void SimDevice::progress(Nanoseconds until) {
  auto passed = static_cast<double>((until - time).count());
  if (request)
    request->left -= passed * speedOfRequest();
  // No kernel's speed depends on how far another one has come.
  for (const auto &stream : streams)
    if (stream->isRunning) {
      Kernel &kernel = *stream->items.front().kernel;
      kernel.left -= passed * speedOf(kernel);
    }
  // At that time something changes, be it only that a stream is ready which then waits for another.
  if (knownEnd && *knownEnd && until >= **knownEnd)
    knownEnd.reset();
  time = until;
}

/// Reads the state that the launch starts from.
void SimDevice::begin(Kernel &kernel) {
  if (!kernel.variant)
    return;
  const auto *state = reinterpret_cast<const tally_launch_state *>(kernel.variant->state);
  kernel.left = kernel.variant->blocks - std::min(state->next_block, kernel.variant->blocks);
}

/// Writes the state that the launch leaves.
void SimDevice::end(Kernel &kernel) {
  if (!kernel.variant)
    return;
  auto *state = reinterpret_cast<tally_launch_state *>(kernel.variant->state);
  state->next_block = kernel.variant->blocks - kernel.notBegun;
}

/// Told to yield: the blocks that run go on to their ends, the others are left over.
void SimDevice::tellRunning() {
  if (controlWord == 0)
    return;
  std::uint64_t epoch =
      runtime::decodeControl(*reinterpret_cast<std::uint64_t *>(controlWord)).epoch;
  for (const auto &stream : streams) {
    if (!stream->isRunning)
      continue;
    Kernel &kernel = *stream->items.front().kernel;
    if (!kernel.variant || kernel.isTold || epoch <= kernel.variant->epoch)
      continue;
    kernel.isTold = true;
    knownEnd.reset();
    // The blocks that run have half of their time left, in the mean, and the last one all of it.
    double running = std::min(kernel.left, kernel.width / 2);
    kernel.notBegun = static_cast<std::uint32_t>(std::floor(kernel.left - running));
    if (kernel.left >= kernel.width / 2)
      kernel.width = running;
    kernel.left = running;
  }
}

void SimDevice::startReady() {
  for (bool progressed = true; progressed;) {
    progressed = false;
    for (const auto &each : streams) {
      Stream &stream = *each;
      if (stream.isRunning || stream.items.empty() || stream.ready > time)
        continue;
      Item &front = stream.items.front();
      if (front.behind && streams[front.behind->first]->done < front.behind->second)
        continue;
      progressed = true;
      knownEnd.reset();
      if (front.kernel) {
        stream.isRunning = true;
        ++runningCount;
        if (stream.sms != 0) {
          front.kernel->isConfined = true;
          front.kernel->width = std::min(front.kernel->width, static_cast<double>(stream.sms));
        }
        begin(*front.kernel);
        auto all = static_cast<std::uint32_t>(front.kernel->left);
        tellRunning();
        if (front.kernel->isTold) { // it never runs a block
          front.kernel->notBegun = all;
          front.kernel->left = 0;
        }
        continue;
      }
      if (front.act)
        front.act();
      stream.items.pop_front();
      ++stream.done;
    }
  }
}

void SimDevice::finishEnded() {
  for (const auto &stream : streams)
    if (stream->isRunning && stream->items.front().kernel->left <= nothingLeft) {
      end(*stream->items.front().kernel);
      stream->items.pop_front();
      ++stream->done;
      stream->isRunning = false;
      stream->ready = time + scenario.costs.begin;
      --runningCount;
      knownEnd.reset();
    }
  if (request && time >= request->from && request->left <= 0.5) {
    std::function<void()> done = std::move(request->done);
    request.reset();
    knownEnd.reset();
    at(time, std::move(done));
  }
}

void SimDevice::passUntil(Nanoseconds until) {
  startReady();
  while (true) {
    std::optional<Nanoseconds> ends = nextEnd();
    Nanoseconds next = std::max(time, std::min(ends.value_or(until), until));
    EventQueue *queue = nullptr;
    for (EventQueue *each : {&events, &applications})
      if (!each->empty() && each->top().when <= next &&
          !(each == &applications && isApplicationHeld) && (!queue || queue->top() > each->top()))
        queue = each;
    if (queue)
      next = std::max(time, queue->top().when);
    if (next > time)
      progress(next);
    finishEnded();
    if (queue) {
      // The queue gives out constants; the event leaves it right here.
      std::function<void()> run = std::move(const_cast<Event &>(queue->top()).run);
      queue->pop();
      run();
    }
    startReady();
    if (!queue && time >= until && (!nextEnd() || *nextEnd() > time))
      return;
  }
}

void SimDevice::spend(Nanoseconds took, bool mayRunApplication) {
  bool wasHeld = std::exchange(isApplicationHeld, isApplicationHeld || !mayRunApplication);
  passUntil(time + took);
  isApplicationHeld = wasHeld;
}

void SimDevice::put(StreamId stream, Item item) {
  Stream &on = of(stream);
  if (on.items.empty() && !on.isRunning)
    on.ready = std::max(on.ready, time);
  on.items.push_back(std::move(item));
  ++on.put;
  knownEnd.reset();
  startReady();
}

Result<FunctionId> SimDevice::function(runtime::ModuleId, std::string_view entry) {
  constexpr std::string_view prefix = "kernel_";
  std::uint64_t number =
      std::strtoull(std::string(entry.substr(prefix.size())).c_str(), nullptr, 10);
  bool isVariant = entry.find("$tally_") != std::string_view::npos;
  return static_cast<FunctionId>(number + 1 + (isVariant ? variantMark : 0));
}

Result<runtime::FunctionAttributes> SimDevice::attributes(FunctionId) {
  return runtime::FunctionAttributes{32, 0, 1024};
}

Result<std::uint32_t> SimDevice::residentBlocksPerSm(FunctionId, Dim3, std::uint32_t) { return 1u; }

Result<void> SimDevice::writeValue(StreamId stream, DevicePtr to, std::uint64_t value) {
  auto store = [to, value] { std::memcpy(reinterpret_cast<void *>(to), &value, sizeof value); };
  if (of(stream).isControl) {
    // The write of a wake passes all other work. The application does not run within it: it is the
    // caller.
    events.push({time + scenario.costs.write, ++eventCount, [this, store] {
                   store();
                   tellRunning();
                 }});
    spend(scenario.costs.call, false);
    return {};
  }
  put(stream, {{},
               [this, to, store] {
                 // The host sees a word of mapped memory a little later.
                 if (mapped.contains(to))
                   events.push({time + scenario.costs.marker, ++eventCount, store});
                 else
                   store();
               },
               {}});
  spend(scenario.costs.call);
  return {};
}

Result<bool> SimDevice::isIdle(StreamId stream) {
  spend(scenario.costs.call, false);
  return of(stream).done == of(stream).put;
}

Result<void> SimDevice::synchronize(StreamId stream) {
  while (of(stream).done != of(stream).put)
    if (std::optional<Nanoseconds> next = nextEvent())
      passUntil(*next);
    else
      return Error{"the simulated device waits for nothing that comes"};
  return {};
}

Result<DevicePtr> SimDevice::allocate(std::size_t bytes) {
  memory.emplace_back(bytes);
  return reinterpret_cast<DevicePtr>(memory.back().data());
}

Result<void> SimDevice::free(DevicePtr) { return {}; }

Result<runtime::MappedMemory> SimDevice::allocateMapped(std::size_t bytes) {
  Result<DevicePtr> made = allocate(bytes);
  mapped.insert(*made);
  return runtime::MappedMemory{reinterpret_cast<std::byte *>(*made), *made};
}

Result<StreamId> SimDevice::createStream(runtime::StreamPriority priority) {
  streams.push_back(std::make_unique<Stream>());
  streams.back()->isControl = priority == runtime::StreamPriority::Control;
  return static_cast<StreamId>(streams.size());
}

Result<StreamId> SimDevice::createConfinedStream(std::uint32_t sms) {
  if (!scenario.greenContexts)
    return Error{"the simulated device has no green contexts"};
  Result<StreamId> made = createStream(runtime::StreamPriority::Low);
  of(*made).sms = sms;
  return made;
}

Result<void> SimDevice::destroyStream(StreamId) { return {}; }

Result<void> SimDevice::copyToDevice(StreamId stream, DevicePtr to,
                                     std::span<const std::byte> from) {
  put(stream, {{},
               [to, from] { std::memcpy(reinterpret_cast<void *>(to), from.data(), from.size()); },
               {}});
  spend(scenario.costs.call);
  return {};
}

Result<void> SimDevice::copyToHost(StreamId stream, std::span<std::byte> to, DevicePtr from) {
  put(stream,
      {{},
       [to, from] { std::memcpy(to.data(), reinterpret_cast<const void *>(from), to.size()); },
       {}});
  spend(scenario.costs.call);
  return {};
}

Result<void> SimDevice::fill(StreamId stream, DevicePtr to, std::byte value, std::size_t bytes) {
  put(stream, {{},
               [to, value, bytes] {
                 std::memset(reinterpret_cast<void *>(to), std::to_integer<int>(value), bytes);
               },
               {}});
  spend(scenario.costs.call);
  return {};
}

Result<void> SimDevice::launch(StreamId stream, FunctionId function, const LaunchShape &shape,
                               std::span<const std::byte> parameters) {
  auto id = static_cast<std::uint64_t>(function);
  std::size_t number = (id & (variantMark - 1)) - 1;
  if (id < variantMark) {
    launchPlain(stream, number);
    return {};
  }
  Item item;
  Kernel &kernel = item.kernel.emplace();
  std::memcpy(&kernel.variant.emplace(),
              parameters.data() + parameters.size() - sizeof(tally_launch_params),
              sizeof(tally_launch_params));
  controlWord = kernel.variant->control;
  const TrainingKernel &of = scenario.training[number];
  kernel.width = static_cast<double>(std::min<std::uint64_t>(shape.grid.count(), scenario.smCount));
  kernel.block = static_cast<double>(of.duration.count()) / static_cast<double>(of.waves());
  put(stream, std::move(item));
  spend(scenario.costs.launch);
  return {};
}

void SimDevice::launchPlain(StreamId stream, std::size_t number) {
  const TrainingKernel &of = scenario.training[number];
  Item item;
  Kernel &kernel = item.kernel.emplace();
  kernel.left = static_cast<double>(of.waves() * scenario.smCount);
  kernel.width = scenario.smCount;
  kernel.block = static_cast<double>(of.duration.count()) / static_cast<double>(of.waves());
  put(stream, std::move(item));
  spend(scenario.costs.launch);
}

Result<bool> SimDevice::waitFor(StreamId later, StreamId earlier) {
  put(later, {{}, {}, std::pair(indexOf(earlier), of(earlier).put)});
  spend(scenario.costs.call);
  return true;
}

} // namespace tally::sim
