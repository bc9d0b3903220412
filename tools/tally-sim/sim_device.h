// A device in virtual time: kernels take the time that the scenario says and compute nothing.
//
// The device has the clock. A call of the host takes time on it, and all events of the device and
// of the application that fall into this time happen on the way. Memory is the host's.
//
// Model:
// - Streams run in order, and side by side. Kernels of the training that run at a time share the
//   device evenly.
// - A kernel runs its thread blocks in waves. A persistent variant that is told to yield runs its
//   blocks to their ends. The blocks do not end at the same time, so the last one ends about a
//   block's time later.
// - A request starts when the blocks that run at its begin have ended: a GPU places the blocks of
//   the higher priority first. While the request runs, other work has the SMs that the request does
//   not fill, and slows the request down by the scenario's factor.
// - Work on a confined stream keeps its SMs beside a request. The request has the other SMs.
#ifndef TALLY_SIM_SIM_DEVICE_H
#define TALLY_SIM_SIM_DEVICE_H

#include "scenario.h"

#include "tally/bundle/abi.h"
#include "tally/bundle/bundle.h"
#include "tally/runtime/device.h"

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <queue>
#include <set>
#include <vector>

namespace tally::sim {

class SimDevice final : public runtime::StreamDevice {
public:
  explicit SimDevice(const Scenario &scenario);

  Nanoseconds now() const { return time; }
  /// Lets time pass until `until`, with all events on the way.
  void passUntil(Nanoseconds until);
  /// The time of the next event; nothing where none is to come.
  std::optional<Nanoseconds> nextEvent();
  /// Calls `event` at that time, not while the dispatcher makes a call in which the application
  /// could not run.
  void at(Nanoseconds when, std::function<void()> event);
  /// Forgets all events that at() was given.
  void endApplication() { applications = {}; }

  /// A request's work begins to wait for the device; `done` is called when it is over.
  void startRequest(const Requests::Work &work, std::function<void()> done);

  /// The bundle's kernels: the scenario's, by number.
  static bundle::Bundle bundleOf(const Scenario &scenario);
  /// Launches a kernel without variants.
  void launchPlain(runtime::StreamId stream, std::size_t kernel);

  const runtime::DeviceInfo &info() const override { return facts; }
  Result<runtime::FunctionId> function(runtime::ModuleId module, std::string_view entry) override;
  Result<runtime::FunctionAttributes> attributes(runtime::FunctionId function) override;
  Result<std::uint32_t> residentBlocksPerSm(runtime::FunctionId function, Dim3 block,
                                            std::uint32_t dynamicSharedBytes) override;
  Result<void> writeValue(runtime::StreamId stream, runtime::DevicePtr to,
                          std::uint64_t value) override;
  Result<bool> isIdle(runtime::StreamId stream) override;
  Result<void> synchronize(runtime::StreamId stream) override;
  Result<runtime::DevicePtr> allocate(std::size_t bytes) override;
  Result<void> free(runtime::DevicePtr pointer) override;
  Result<runtime::MappedMemory> allocateMapped(std::size_t bytes) override;
  Result<runtime::StreamId> createStream(runtime::StreamPriority priority) override;
  Result<runtime::StreamId> createConfinedStream(std::uint32_t sms) override;
  Result<void> destroyStream(runtime::StreamId stream) override;
  Result<void> copyToDevice(runtime::StreamId stream, runtime::DevicePtr to,
                            std::span<const std::byte> from) override;
  Result<void> copyToHost(runtime::StreamId stream, std::span<std::byte> to,
                          runtime::DevicePtr from) override;
  Result<void> fill(runtime::StreamId stream, runtime::DevicePtr to, std::byte value,
                    std::size_t bytes) override;
  Result<void> launch(runtime::StreamId stream, runtime::FunctionId function,
                      const LaunchShape &shape, std::span<const std::byte> parameters) override;
  Result<bool> waitFor(runtime::StreamId later, runtime::StreamId earlier) override;

private:
  struct Kernel {
    std::optional<tally_launch_params> variant; ///< nothing: the user's kernel
    double left = 0;                            ///< blocks that have not ended
    double width = 0;                           ///< blocks at a time, with the device to itself
    double block = 0;                           ///< nanoseconds of a block
    bool isTold = false;                        ///< told to yield: `left` are the last blocks
    bool isConfined = false;                    ///< to `width` SMs
    std::uint32_t notBegun = 0;                 ///< told: blocks that the launch leaves over
  };
  struct Item {
    std::optional<Kernel> kernel;
    std::function<void()> act; ///< of other items, when their turn comes
    /// For waits: the stream and how much of its work has to be done.
    std::optional<std::pair<std::size_t, std::uint64_t>> behind;
  };
  struct Stream {
    bool isControl = false;
    std::uint32_t sms = 0; ///< the stream is confined to; 0: to none
    std::deque<Item> items;
    std::uint64_t put = 0, done = 0;
    Nanoseconds ready{0}; ///< when the front item may begin
    bool isRunning = false;
  };
  struct Event {
    Nanoseconds when{0};
    std::uint64_t order = 0;
    std::function<void()> run;
    bool operator>(const Event &other) const {
      return std::pair(when, order) > std::pair(other.when, other.order);
    }
  };
  using EventQueue = std::priority_queue<Event, std::vector<Event>, std::greater<>>;
  struct Request {
    Requests::Work work;
    double left = 0; ///< nanoseconds alone
    Nanoseconds from{0};
    std::function<void()> done;
  };

  static std::size_t indexOf(runtime::StreamId id) { return static_cast<std::size_t>(id) - 1; }
  Stream &of(runtime::StreamId id) { return *streams[indexOf(id)]; }
  void put(runtime::StreamId stream, Item item);
  void spend(Nanoseconds took, bool mayRunApplication = true);
  void startReady();
  void tellRunning();
  double shareOf(const Kernel &kernel) const;
  double shareOfTraining() const;
  double shareTaken() const;
  double speedOf(const Kernel &kernel) const;
  double speedOfRequest() const;
  std::optional<Nanoseconds> nextEnd();
  std::optional<Nanoseconds> findEnd() const;
  void progress(Nanoseconds until);
  void finishEnded();
  static void begin(Kernel &kernel);
  static void end(Kernel &kernel);
  Nanoseconds blocksEndAt() const;

  const Scenario &scenario;
  runtime::DeviceInfo facts;
  Nanoseconds time{0};
  std::vector<std::unique_ptr<Stream>> streams;
  std::vector<std::vector<std::byte>> memory;
  std::set<runtime::DevicePtr> mapped; ///< first addresses
  EventQueue events;                   ///< of the device
  EventQueue applications;             ///< of the application
  std::uint64_t eventCount = 0;
  std::size_t runningCount = 0; ///< kernels of the training
  std::optional<Request> request;
  std::optional<std::optional<Nanoseconds>> knownEnd; ///< nextEnd()'s, until then at most
  runtime::DevicePtr controlWord = 0;                 ///< of the launches so far
  bool isApplicationHeld = false;
};

} // namespace tally::sim

#endif
