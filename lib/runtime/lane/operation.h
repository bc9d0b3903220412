// Operations: the work that applications put on best-effort streams, as lanes keep it.
#ifndef TALLY_LIB_RUNTIME_LANE_OPERATION_H
#define TALLY_LIB_RUNTIME_LANE_OPERATION_H

#include "base/shared_bytes.h"
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

/// A best-effort stream of the application. The lane's mutex guards all fields that are not
/// constant; the atomics may be read without it.
///
/// It may be destroyed once wait() has returned and no thread submits to it: the last field that
/// the lane touches is `finished`, which does not count operations under way or queued.
struct LaneStream {
  explicit LaneStream(Lane &lane, std::uint32_t client = 0, std::atomic<bool> *anyFailed = nullptr,
                      std::uint32_t generation = 0)
      : lane(lane), client(client), generation(generation), anyFailed(anyFailed) {}
  Lane &lane;
  const std::uint32_t client;         ///< number of its client for policies
  const std::uint32_t generation;     ///< ClientProgress::generation of the client's number
  std::atomic<bool> *const anyFailed; ///< shared by several streams: set when one fails; or nullptr
  std::uint64_t submitted = 0;
  std::atomic<std::uint64_t> finished{0};
  std::atomic<bool> failed{false};
  Error failure; ///< set before `failed`, never changed after

  /// A thread that sees `failed` also sees `failure` and `anyFailed`.
  void fail(const Error &why) {
    if (failed)
      return;
    failure = why;
    if (anyFailed)
      anyFailed->store(true);
    failed = true;
  }
};

/// An operation, by its lane and its number there.
struct LanePosition {
  Lane *lane = nullptr;
  std::uint64_t number = 0;
};

/// Arguments of copies and fills.
struct Transfer {
  DevicePtr device = 0;
  std::span<const std::byte> from;
  std::span<std::byte> to;
  std::byte value{};
  std::size_t bytes = 0;
};

/// Timing of a launch's blocks, where it decides the kind (LaunchPlan::blocks).
struct BlockTiming {
  Nanoseconds ran{0};      ///< sum over all its physical launches
  bool isKnown = true;     ///< the time of each physical launch is known
  bool wasAlone = true;    ///< no other work was on the device
  bool wasStopped = false; ///< in the middle of a wave
  bool isOfOneKind = true; ///< all physical launches had the same kind
  bool wasMeasured = true; ///< all physical launches went alone to be measured
};

/// The form in which the lane runs an operation; chosen when the operation is first planned.
struct OperationRun {
  std::shared_ptr<LaunchPlan> plan;
  std::optional<VariantLaunch> progress; ///< for launches through a variant
  bool begun = false;                    ///< a variant was launched for it
  bool mayChange = false;                ///< the launch has yielded since it was planned
  bool failed = false;                   ///< no part of it runs any more
  std::uint64_t headroomVersion = 0;     ///< Headroom::version() when it was planned
  BlockTiming timing;

  /// Replaces the variant by the user's kernel if nothing has run yet. Returns whether it could.
  bool standIn() {
    if (!progress || begun)
      return false;
    progress.reset();
    plan = std::make_shared<LaunchPlan>();
    return true;
  }
};

/// One operation that an application put on a best-effort stream.
struct Operation {
  enum class Type : std::uint8_t { Launch, CopyToDevice, CopyToHost, Fill, Put, Call };
  Type type = Type::Launch;
  LaneStream *stream = nullptr;

  LoadedKernel *kernel = nullptr; ///< for launches; nullptr: there is only `launchUserKernel`
  LaunchShape shape;
  SharedBytes parameters; ///< the parameters of the user's kernel
  /// For launches: makes a physical launch, where Device::launch() does not know enough. Empty:
  /// Device::launch() does.
  std::function<Result<void>(StreamId, FunctionId, const LaunchShape &, std::span<const std::byte>)>
      launchBy;
  /// For launches: launches the user's kernel and reports its own errors. Empty: like a variant.
  std::function<void(StreamId)> launchUserKernel;
  /// What the functions of this operation use.
  std::shared_ptr<const void> uses;
  /// For launches without `kernel`: a thread that submits may free what the operation holds, at any
  /// later time.
  bool mayBeFreedLate = false;
  /// For launches without `kernel`, and calls of kernels: identifies the kernel, so that the lane
  /// can remember durations by kernel and shape. 0: not remembered.
  std::uint64_t identity = 0;
  /// For launches: the kernel's duration in this shape when it ran outside of the lanes, alone on
  /// the device; zero if it has not since the lanes were last told.
  Nanoseconds took{0};
  /// For launches: name in traces; empty: the kernel's name. Must live as long as the launch.
  std::string_view label;
  bool isOfProgram = true; ///< for launches: count it in the statistics
  /// For operations that may fail alone: called with the reason if the operation does not run.
  /// Empty: the stream fails with it.
  std::function<void(const Error &)> launchFailed;
  /// Operations of other lanes that must be over before this starts; all were submitted earlier.
  std::vector<LanePosition> behind;
  /// The application's stream that a launch or a put waits for, or on which a call works.
  std::optional<StreamId> ordered;

  /// For puts: puts work other than a kernel, unknown to the lane, on a stream, and reports its own
  /// errors. Returns false if the application's stream takes part in a capture: then nothing was
  /// put. Empty: there is nothing to put, and the operation is over when all earlier operations
  /// are.
  std::function<bool(StreamId)> put;
  /// For puts: later operations of the lane may start before this put is made. The put is made once
  /// all earlier operations are done.
  bool mayBeLate = false;

  std::function<void()> call; ///< for calls; run by the dispatcher's thread; reports its own errors
  bool callsKernel = false;   ///< for calls: the lane waits for the work that it puts on `ordered`
  /// For calls that `call` only begins: the thread that ends the call sets it and wakes the
  /// dispatcher.
  std::shared_ptr<std::atomic<bool>> ended;

  Transfer transfer;
  OperationRun run;
};

} // namespace tally::runtime

#endif
