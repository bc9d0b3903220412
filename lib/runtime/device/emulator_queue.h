// The emulator device's streams: which thread runs which operation next.
//
// Worker threads are the virtual SMs. Each worker takes one thread block at a time, always from the
// stream of highest priority whose head operation is a grid with a block left. So a high-priority
// grid overtakes a best-effort grid between blocks. The thread that enqueues another operation (a
// copy, fill, write or wait) runs it at once if the stream is empty. Otherwise the worker that
// finished the operation before it runs it, or a separate thread that never runs blocks. So a write
// on an idle stream never waits for other work.
#ifndef TALLY_LIB_RUNTIME_DEVICE_EMULATOR_QUEUE_H
#define TALLY_LIB_RUNTIME_DEVICE_EMULATOR_QUEUE_H

#include "tally/emulator/machine.h"
#include "tally/runtime/device.h"

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace tally::runtime {

class EmulatorQueue {
  struct Stream;

public:
  /// A place in a stream: after all operations put on it before mark().
  class Marker {
    friend class EmulatorQueue;
    std::shared_ptr<Stream> stream;
    std::uint64_t count = 0;
  };

  explicit EmulatorQueue(std::uint32_t virtualSms);
  /// Drops operations that have not started and waits for the running blocks.
  ~EmulatorQueue();
  EmulatorQueue(const EmulatorQueue &) = delete;
  EmulatorQueue &operator=(const EmulatorQueue &) = delete;

  StreamId createStream(StreamPriority priority);
  /// Waits for the stream's work first.
  Result<void> destroyStream(StreamId id);

  Result<void> launch(StreamId id, std::unique_ptr<emulator::GridExecution> grid);
  /// Enqueues `action`, which does the work; an error that it returns fails the device.
  Result<void> enqueue(StreamId id, std::function<Result<void>()> action);
  /// Enqueues an action for a thread that runs nothing else, so that the action may wait for the
  /// caller's next steps.
  Result<void> enqueueForHost(StreamId id, std::function<void()> action);
  /// Operations put on the stream later start when holds() is true, which may change at any time.
  Result<void> waitUntil(StreamId id, std::function<bool()> holds);
  Result<bool> waitFor(StreamId later, StreamId earlier);
  Result<Marker> mark(StreamId id);
  /// Operations put on `later` from now on start when the marker is reached.
  Result<void> waitFor(StreamId later, const Marker &marker);
  Result<bool> isReached(const Marker &marker);
  Result<void> synchronize(const Marker &marker);
  Result<bool> isIdle(StreamId id);
  Result<void> synchronize(StreamId id);

  /// The error that ended the device, if any.
  Result<void> health();
  /// The kernel's fault that ended the device, if any.
  std::optional<emulator::Fault> fault();

private:
  /// A grid, an action, a wait until `awaited` has done `count` operations, or a wait for holds().
  struct Operation {
    std::shared_ptr<emulator::GridExecution> grid;
    std::function<Result<void>()> action;
    std::shared_ptr<Stream> awaited;
    std::uint64_t count = 0;
    std::function<bool()> holds;
    bool isForHost = false;
  };
  struct Stream {
    StreamPriority priority = StreamPriority::Low;
    std::deque<Operation> operations;
    std::uint64_t enqueued = 0, done = 0;
    bool busy = false; ///< a thread is running the head operation, outside the lock
  };
  using Lock = std::unique_lock<std::mutex>;

  Result<std::shared_ptr<Stream>> find(StreamId id);
  Result<void> add(StreamId id, Operation operation);
  enum class Runner : std::uint8_t { Anyone, HostThread };
  static bool headIsReady(const Stream &stream, Runner runner);
  void finishHead(Stream &stream);
  void drain(Lock &lock, const std::shared_ptr<Stream> &stream, Runner runner = Runner::Anyone);
  std::shared_ptr<Stream> nextGrid();
  std::shared_ptr<Stream> nextAction(Runner runner);
  void fail(std::string message);
  void runBlocks(std::uint32_t virtualSm);
  void runActions(Runner runner);
  bool isPolled() const;

  std::mutex mutex; ///< guards everything below
  std::condition_variable changed;
  std::map<StreamId, std::shared_ptr<Stream>> streams;
  std::uint64_t lastStream = 0;
  std::string failure;
  std::optional<emulator::Fault> kernelFault;
  bool stopping = false;
  std::vector<std::thread> threads;
};

} // namespace tally::runtime

#endif
