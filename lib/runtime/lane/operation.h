// What applications put on best-effort streams, as lanes keep it.
#ifndef TALLY_LIB_RUNTIME_LANE_OPERATION_H
#define TALLY_LIB_RUNTIME_LANE_OPERATION_H

#include "planning/loaded_kernel.h"

#include "tally/runtime/variant_launch.h"

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace tally::runtime {

class Lane;

/// A best-effort stream of the application. Fields but the constant ones are guarded by the lane's
/// mutex; the atomics may be read without it.
///
/// It may go once wait() has returned and nobody submits to it: the count of what has finished is
/// the last that the lane touches of it, and what is under way or queued was not counted.
struct LaneStream {
  explicit LaneStream(Lane &lane, std::uint32_t client = 0, std::atomic<bool> *anyFailed = nullptr,
                      std::uint32_t generation = 0)
      : lane(lane), client(client), generation(generation), anyFailed(anyFailed) {}
  Lane &lane;
  const std::uint32_t client;         ///< whose it is, as policies number them
  const std::uint32_t generation;     ///< of that number: ClientProgress
  std::atomic<bool> *const anyFailed; ///< where it is told that one of several has; or nullptr
  std::uint64_t submitted = 0;
  std::atomic<std::uint64_t> finished{0};
  std::atomic<bool> failed{false};
  Error failure; ///< set before `failed`, never changed after

  /// Whoever sees `failed` sees what was told before.
  void fail(const Error &why) {
    if (failed)
      return;
    failure = why;
    if (anyFailed)
      anyFailed->store(true);
    failed = true;
  }
};

/// An operation of a lane's, by its number there.
struct LanePosition {
  Lane *lane = nullptr;
  std::uint64_t number = 0;
};

/// Of copies and fills.
struct Transfer {
  DevicePtr device = 0;
  std::span<const std::byte> from;
  std::span<std::byte> to;
  std::byte value{};
  std::size_t bytes = 0;
};

/// What a launch's blocks take, where that decides on the kind (LaunchPlan::blocks).
struct BlockTiming {
  Nanoseconds ran{0};      ///< all of its launches
  bool isKnown = true;     ///< `ran` is known of all of them
  bool wasAlone = true;    ///< on the device
  bool wasStopped = false; ///< in the middle of a wave
  bool isOfOneKind = true; ///< all of its launches were
  bool wasMeasured = true; ///< all of its launches went alone for that
};

/// How an operation goes: the lane's own, chosen when it is first planned.
struct OperationRun {
  std::shared_ptr<LaunchPlan> plan;
  std::optional<VariantLaunch> progress; ///< of launches through a variant
  bool begun = false;                    ///< something was launched through it
  bool mayChange = false;                ///< it has yielded since it was planned
  bool failed = false;                   ///< nothing of it runs any more
  std::uint64_t headroomVersion = 0;     ///< Headroom::version() when it was planned
  BlockTiming timing;

  /// Lets the user's kernel stand in for a launch of which nothing has run. Returns whether it can.
  bool standIn() {
    if (!progress || begun)
      return false;
    progress.reset();
    plan = std::make_shared<LaunchPlan>();
    return true;
  }
};

/// One thing that an application put on a best-effort stream.
struct Operation {
  enum class Type : std::uint8_t { Launch, CopyToDevice, CopyToHost, Fill, Put, Call };
  Type type = Type::Launch;
  LaneStream *stream = nullptr;

  LoadedKernel *kernel = nullptr; ///< of launches; nullptr: there is `launchUserKernel` only
  LaunchShape shape;
  std::vector<std::byte> parameters; ///< the user's
  /// Of launches: makes a physical one where Device::launch() does not know enough. Empty: that.
  std::function<Result<void>(StreamId, FunctionId, const LaunchShape &, std::span<const std::byte>)>
      launchBy;
  /// Of launches: launches the user's kernel, and reports its own errors. Empty: as the others.
  std::function<void(StreamId)> launchUserKernel;
  /// Of launches without `kernel`, and of calls of kernels: what stands for the kernel where its
  /// duration is remembered, with the shape. 0: it is not.
  std::uint64_t identity = 0;
  /// Of launches: what the kernel took in this shape when it ran past the lanes, alone on the
  /// device; zero where it has not since the lanes were last told.
  Nanoseconds took{0};
  /// Of launches: what a trace calls it, or empty: as the kernel. It lives as long as they.
  std::string_view label;
  bool isOfProgram = true; ///< of launches: it is counted among them
  /// Of what may fail by itself: told why one of them does not run. Empty: all that
  /// follows on its stream fails with it.
  std::function<void(const Error &)> launchFailed;
  /// Of other lanes: what has to be over before this starts. Each was submitted before it.
  std::vector<LanePosition> behind;
  /// The application's stream that a launch or a put comes behind, or that a call works on.
  std::optional<StreamId> ordered;

  /// Of puts: puts on a stream what is no kernel and not known to the lane; reports its own errors.
  /// False: it put nothing, since that stream of the application takes part in a capture. Empty:
  /// there is nothing to put, and the operation is over when all before it is.
  std::function<bool(StreamId)> put;
  /// Of puts: what follows on the lane may start before this is put, once all before it is done.
  bool mayBeLate = false;

  std::function<void()> call; ///< of calls; made by the dispatcher's thread; reports its own errors
  bool callsKernel = false;   ///< of calls: the lane waits for what is put on `ordered`
  /// Of calls that `call` only begins: set by whoever ends it, who then wakes the dispatcher.
  std::shared_ptr<std::atomic<bool>> ended;

  Transfer transfer;
  OperationRun run;
};

} // namespace tally::runtime

#endif
