// A device for tests of the runtime: kernels are functions on the host, run block by block, wrapped
// as the variants wrap them; memory is host memory. The caller or a seed chooses the next step, so
// a test can produce and repeat any order that real streams could have.
#ifndef TALLY_UNITTESTS_RUNTIME_FAKE_DEVICE_H
#define TALLY_UNITTESTS_RUNTIME_FAKE_DEVICE_H

#include "tally/bundle/abi.h"
#include "tally/runtime/device.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace tally::runtime {

/// One virtual block of a kernel.
struct FakeBlock {
  std::uint64_t linear;
  Dim3 id, grid;
  const std::byte *parameters;
  template <class T> T argument(std::size_t offset) const {
    T value;
    std::memcpy(&value, parameters + offset, sizeof value);
    return value;
  }
};
using FakeKernel = std::function<void(const FakeBlock &)>;

class FakeDevice final : public Device {
public:
  explicit FakeDevice(std::uint64_t seed) : random(seed) {
    facts = {"fake", 90, 2, 48 << 10, 2048, 65536, 228 << 10, 32};
  }
  ~FakeDevice() override;

  /// Call this before the device is opened.
  void setUuid(std::string uuid) { facts.uuid = std::move(uuid); }
  /// Sets the registers of an SM; call it before the device is opened.
  void setRegisters(std::uint32_t perSm) { facts.registersPerSm = perSm; }
  /// Sets the largest shared memory of a block; call it before the device is opened.
  void setShared(std::uint32_t bytes) { facts.maxSharedBytesPerBlock = bytes; }
  /// Sets the duration of a launch call; call it before the device is opened. The device itself
  /// takes no time.
  void setLaunchTurn(std::chrono::nanoseconds turn) { facts.launchTurn = turn; }
  /// Before loadModule.
  void define(const std::string &kernel, FakeKernel body) { bodies[kernel] = std::move(body); }

  /// Runs one block, copy or write of a stream picked at random; false when nothing can run.
  bool advance();
  /// Starts a thread that calls advance().
  void startThread();
  /// Called before every poll, with the poll's number. Stream writes that the callback causes take
  /// effect at once.
  std::function<void(std::uint64_t)> onPoll;
  /// Called without a lock at the start of every launch, and of every query whether a stream is
  /// idle.
  std::function<void()> onDriverCall;
  /// Called at the start of every launch call.
  std::function<void()> onLaunch;
  std::function<void(const LaunchShape &)> onLaunchShape;
  /// Called for every virtual block that runs, with its launch's kind; nothing for the user's
  /// kernel.
  std::function<void(std::optional<Kind>)> onBlock;
  /// Called after each block of a program's kernels (program.h), with the step's key.
  std::function<void(std::uint64_t)> onStepsBlock;
  /// After `steps` more steps every call fails with `message`.
  void breakAfter(std::uint64_t steps, std::string message);
  void breakNow(std::string message) {
    std::unique_lock lock(mutex);
    broken = std::move(message);
  }
  /// For use in onPoll: overwrites the state of the polling launch.
  void corruptState(std::uint32_t yielded) { pollingState->yielded = yielded; }
  /// Number of workers that take no further block and have not left.
  std::uint64_t staying = 0;
  /// Launches on streams of createConfinedStream().
  std::uint64_t confinedLaunches = 0;
  /// Waiting for this stream fails. `holdsUp`: it fails for a while only.
  std::optional<StreamId> unwaitable;
  bool holdsUp = false;
  /// Number of streams that the device holds, without destroyed ones.
  std::size_t streamsHeld() const {
    std::unique_lock lock(mutex);
    return streams.size() - goneStreams;
  }
  std::size_t modulesHeld() const {
    std::unique_lock lock(mutex);
    return modules.size();
  }
  std::size_t functionsHeld() const {
    std::unique_lock lock(mutex);
    return functions.size();
  }
  std::size_t adoptedHeld() const {
    std::unique_lock lock(mutex);
    return adoptedStreams.size() + adoptedFunctions.size();
  }
  /// Number of streams, modules and functions that were destroyed or released with work on the
  /// device.
  std::atomic<std::uint64_t> endedBusy{0};
  /// adoptFunction() tells the parameters.
  bool tellsParameters = true;
  /// Bytes of the newest launch's parameters.
  std::atomic<std::size_t> newestParameterBytes{0};
  /// Launches of this entry fail.
  std::string refusedEntry;
  /// A waiting stream does not hold up other streams.
  bool streamsAreApart = true;
  /// Streams may wait for words.
  bool waitsForWords = true;
  /// Returns whether a stream has unfinished work.
  bool hasWork() const {
    std::unique_lock lock(mutex);
    return std::ranges::any_of(streams,
                               [](const auto &each) { return !each.second->queue.empty(); });
  }
  /// Number of waits for words that were not over at once.
  std::uint64_t wordWaits() const { return wordWaitCount; }
  /// Number of times that a stream was made to wait for another stream.
  std::uint64_t waits() const { return waitCount; }
  /// Number of words that streams have written.
  std::uint64_t writes() const { return writeCount; }
  /// Largest fill in bytes with which a stream of kernels began.
  std::size_t mostFilledFirst = 0;
  /// Larger allocations fail.
  std::size_t mostBytes = std::size_t{1} << 30;
  /// Fills fail.
  bool refusesFills = false;
  std::uint64_t polls() const { return pollCount; }
  /// Number of writes that wait on a stream until a word has its value.
  std::uint64_t writesArmed() const { return armedWrites; }
  std::uint64_t blocksRun() const {
    std::unique_lock lock(mutex);
    return blockCount;
  }
  /// Gets blocksRun() when the device is destroyed.
  std::uint64_t *blocksRunAtEnd = nullptr;

  const DeviceInfo &info() const override { return facts; }
  Result<ModuleId> loadModule(const bundle::Bundle &bundle) override;
  Result<void> unloadModule(ModuleId module) override;
  /// One of createStream().
  Result<StreamId> adoptStream(std::uint64_t nativeStream) override;
  void releaseStream(StreamId stream) override;
  /// One of function().
  Result<AdoptedFunction> adoptFunction(std::uint64_t nativeFunction,
                                        std::string_view name) override;
  void releaseFunction(FunctionId function) override;
  Result<FunctionId> function(ModuleId module, std::string_view entry) override;
  Result<FunctionAttributes> attributes(FunctionId function) override;
  Result<std::uint32_t> residentBlocksPerSm(FunctionId function, Dim3 block,
                                            std::uint32_t dynamicSharedBytes) override;
  Result<DevicePtr> allocate(std::size_t bytes) override;
  Result<void> free(DevicePtr pointer) override;
  Result<MappedMemory> allocateMapped(std::size_t bytes) override;
  Result<StreamId> createStream(StreamPriority priority) override;
  Result<StreamId> createConfinedStream(std::uint32_t sms) override;
  Result<void> destroyStream(StreamId stream) override;
  Result<void> copyToDevice(StreamId stream, DevicePtr to,
                            std::span<const std::byte> from) override;
  Result<void> copyToHost(StreamId stream, std::span<std::byte> to, DevicePtr from) override;
  Result<void> fill(StreamId stream, DevicePtr to, std::byte value, std::size_t bytes) override;
  Result<void> writeValue(StreamId stream, DevicePtr to, std::uint64_t value) override;
  std::atomic<std::uint64_t> *trigger() override { return &triggerWord; }
  Result<void> writeValueWhen(StreamId stream, std::uint64_t reached, DevicePtr to,
                              std::uint64_t value) override;
  bool mayWait() const override { return true; }
  bool areStreamsApart() const override { return streamsAreApart; }
  Result<void> waitForWords(StreamId stream, std::span<const WordWait> words) override;
  bool hasWordWaits() const override { return waitsForWords; }
  Result<void> launch(StreamId stream, FunctionId function, const LaunchShape &shape,
                      std::span<const std::byte> parameters) override;
  Result<bool> isIdle(StreamId stream) override;
  Result<void> synchronize(StreamId stream) override;
  Result<bool> waitFor(StreamId later, StreamId earlier) override;
  bool isHeldUp(StreamId earlier) override { return holdsUp && unwaitable == earlier; }
  /// For streams that stand for the application's; no test uses such a stream here.
  bool hasNews(StreamId) override { return false; }

private:
  struct Function {
    std::string entry;
    FakeKernel body;
    std::optional<Kind> kind;
    bool resume = false;
    std::uint32_t tallyOffset = 0;
    ModuleId module{};
    std::vector<bundle::Parameter> parameters;
  };
  struct Inside { // position of a checkpoint worker
    bool isInside = false;
    std::uint32_t block = 0, point = 0; // the poll that comes
    bool hasStarted = false;
  };
  struct Running { // a launch
    std::shared_ptr<const Function> function;
    LaunchShape shape;
    std::vector<std::byte> parameters;
    std::vector<std::uint32_t> left; // physical blocks that have not finished
    bool started = false;
    std::vector<Inside> inside;      // by worker
    std::set<std::uint32_t> staying; // workers that take no further block
  };
  struct Work {
    std::function<bool()> ready, run; // run: returns whether the work is done
  };
  static bool isReady(const Work &work) { return !work.ready || work.ready(); }
  struct FakeStream {
    StreamPriority priority = StreamPriority::High;
    bool confined = false;
    bool isGone = false; // destroyed; work on it still runs
    std::deque<Work> queue;
    std::uint64_t put = 0, done = 0;
    // By other stream: the number of its operations that must be over first.
    std::map<StreamId, std::uint64_t> awaited;
    std::size_t filledFirst = 0;
  };

  Result<void> healthy() const;
  Result<void> put(StreamId stream, std::function<bool()> run);
  FakeStream &at(StreamId stream) const;
  void endFunctions(const std::function<bool(std::uint64_t, const Function &)> &isMeant);
  bool runOne(FakeStream &stream);
  bool runBlock(Running &launch);
  bool toldToYield(const tally_launch_params &params);
  bool runWorker(Running &launch, std::uint32_t worker, const tally_launch_params &params);
  bool runSavingWorker(Running &launch, std::uint32_t worker, const tally_launch_params &params);
  void runVirtual(const Running &launch, std::uint64_t linear, const tally_launch_params &params);

  DeviceInfo facts;
  mutable std::recursive_mutex mutex;
  std::mt19937_64 random;
  std::map<std::string, FakeKernel> bodies;
  std::map<ModuleId, bundle::Bundle> modules;
  std::map<std::uint64_t, std::shared_ptr<const Function>> functions;
  std::map<std::uint64_t, std::shared_ptr<FakeStream>> streams;
  std::size_t goneStreams = 0;
  std::multiset<StreamId> adoptedStreams;
  std::multiset<FunctionId> adoptedFunctions;
  std::uint64_t lastModule = 0, lastFunction = 0, lastStream = 0;
  std::map<DevicePtr, std::vector<std::byte>> allocations, mapped;
  std::atomic<std::uint64_t> triggerWord{0};
  std::atomic<std::uint64_t> armedWrites{0}, writeCount{0};
  tally_launch_state *pollingState = nullptr;
  std::uint64_t pollCount = 0, blockCount = 0, waitCount = 0, wordWaitCount = 0,
                stepsToBreak = ~std::uint64_t{0};
  std::optional<std::string> broken;
  std::string breakMessage;
  std::atomic<bool> stop{false}, threaded{false};
  std::thread thread;
};

} // namespace tally::runtime

#endif
