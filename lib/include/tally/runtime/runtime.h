// The runtime's C++ interface: open a device, load bundles, make clients and streams, launch.
//
//   auto runtime = tally::runtime::Runtime::open({.device = "cuda"});
//   auto module = (*runtime)->load("kernels.tally");
//   auto kernel = (*runtime)->kernel(*module, "gemm");
//   auto trainer = (*runtime)->createClient(Class::BestEffort, "trainer");
//   auto stream = (*runtime)->createStream(*trainer);
//   (*runtime)->launch(*stream, *kernel, shape, Arguments(a, b, n));
//
// All calls are thread-safe; calls on one stream keep the order in which they are made. Errors are
// values that name what failed; no call aborts or prints.
//
// Streams, clients, modules and adopted functions may be destroyed at any time, beside any call on
// any other handle, and made again without limit: only their counts in statistics() are kept.
// During the call that destroys an object, no other thread may have a call with its handle under
// way or begin one. A handle that has ended stays an error ("no such stream: 1, which was
// destroyed"), even when another object has taken its place.
#ifndef TALLY_RUNTIME_RUNTIME_H
#define TALLY_RUNTIME_RUNTIME_H

#include "tally/runtime/any_policy.h"
#include "tally/runtime/device.h"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace tally::runtime {

/// High-priority work passes through; best-effort work yields to it. Unspecified means high.
enum class Class : std::uint8_t { High, BestEffort };

/// A kernel's arguments, packed as PTX lays out parameters: each one at its natural alignment.
class Arguments {
public:
  template <class... T> explicit Arguments(const T &...values) { (append(values), ...); }
  /// Arguments that are packed already.
  static Arguments fromBytes(std::span<const std::byte> bytes) {
    Arguments arguments;
    arguments.packed.assign(bytes.begin(), bytes.end());
    return arguments;
  }
  std::span<const std::byte> bytes() const { return packed; }

private:
  template <class T> void append(const T &value) {
    static_assert(std::is_trivially_copyable_v<T>, "a kernel argument is copied byte for byte");
    packed.resize((packed.size() + alignof(T) - 1) / alignof(T) * alignof(T));
    packed.resize(packed.size() + sizeof(T));
    std::memcpy(packed.data() + packed.size() - sizeof(T), &value, sizeof(T));
  }
  std::vector<std::byte> packed;
};

/// The mode in which best-effort work shares the GPU. `Tally` is the product; the others are
/// baselines to measure it against, with the same calls.
enum class Sharing : std::uint8_t {
  Tally,       ///< variants under the policy
  LowPriority, ///< the user's kernels on a low-priority stream, nothing held back
  SamePriority ///< the user's kernels on a stream of the same priority
};

/// Options of the arena, by which high-priority work of one process makes best-effort work of other
/// processes on the GPU yield (docs/guide/processes.md).
struct ArenaOptions {
  /// A file on a local file system, or a folder for one file per GPU. Empty: $TALLY_ARENA, and if
  /// that is not set the user's file for this GPU in /dev/shm.
  std::string path;
  /// The group, by name or number, whose members may join. Empty: $TALLY_ARENA_GROUP, and if that
  /// is not set only the user may join.
  std::string group;
  /// No client of this process is of high priority: createClient() refuses high-priority clients.
  /// Then open() sets CUDA_MPS_CLIENT_PRIORITY=1, the lower of the two priorities that MPS has for
  /// clients, unless the variable is set. The driver reads it when it starts, so the driver must
  /// not have started before. As with any setenv(), no other thread may read the environment
  /// meanwhile.
  bool bestEffortOnly = false;
  /// The class of the process's best-effort work, 1 (the highest) to 4. The work makes way for
  /// high-priority work and for best-effort work of higher classes in other processes.
  std::uint32_t bestEffortClass = 1;
};

/// Whether the kinds of variants are chosen by measuring the application's launches.
enum class Profiling : std::uint8_t { Off, On };

/// Options of Runtime::open(). open() fails for options that contradict each other, and for any
/// wrong TALLY_ variable of the environment, even one that only another part of Tally reads
/// (docs/reference/settings.md).
struct RuntimeOptions {
  std::string device = "cuda"; ///< "cuda" or "emulator"
  Sharing sharing = Sharing::Tally;
  /// When best-effort work may run (docs/reference/policies.md).
  AnyPolicy policy;
  /// Longest time that a request may wait for a block of best-effort work. The runtime sends ahead
  /// kernels that cannot yield for at most twice this time, or a single longer kernel. 1 us to 1 s.
  std::chrono::nanoseconds bound{20000};
  /// Above 0: best-effort kernels that cannot yield run on only this many of the device's SMs (in a
  /// green context). open() fails where the device cannot divide its SMs. Only for Sharing::Tally.
  std::uint32_t smsOfNonPreemptible = 0;
  EmulatorOptions emulator;
  Profiling profiling = Profiling::Off;
  /// The file that keeps the measurements. Empty: for a GPU a file in $XDG_CACHE_HOME/tally, or
  /// ~/.cache/tally; for an emulator no file.
  std::string profilePath;
  /// Kinds that may be used, in the order of preference; a kernel takes the first kind that was
  /// emitted for it, or the kind that measuring finds better. Pause and checkpoint, if listed after
  /// kinds that yield between blocks, are taken for launches whose blocks are measured to be longer
  /// than the bound (docs/design/kinds.md); if listed before them, always. Without any kind the
  /// user's kernel is launched, non-preemptible, while no high-priority work is active.
  std::vector<Kind> kinds = {Kind::Persistent, Kind::Guard, Kind::Slice, Kind::Checkpoint};
  /// Launches through Kind::Pause: the most percent of each SM's threads, registers, shared memory
  /// and places for blocks that they leave free, 0 to 90. They leave the resources that
  /// high-priority launches were seen to take; before the first of these they leave this maximum.
  /// While high-priority kernels are launched whose blocks do not fit there, no launch pauses; with
  /// 0 no launch ever pauses.
  std::uint32_t pauseReserve = 25;
  /// Time that launches stay paused while high-priority work shows no progress; then they go on to
  /// the end of their blocks and leave. 10 us to 10 s.
  std::chrono::nanoseconds pauseDeadline{2000000};
  /// The arena; without it the process knows of no other process. Only for Sharing::Tally. A
  /// process takes a slot of the arena with its first client of each class; createClient() fails
  /// where all slots are taken.
  std::optional<ArenaOptions> arena;
  /// Above 0: if the program has left SIGTERM at its default, then on SIGTERM best-effort work
  /// yields and ends, and so does all other work on the device, before the process ends. The
  /// process waits for this at most the given time, up to 600 s. Under MPS a process that dies with
  /// kernels in flight may end the server. 0: SIGTERM is not handled.
  std::chrono::milliseconds drainOnTermination{0};
  /// Path of a trace for Perfetto or chrome://tracing, with the times at which work ran and yielded
  /// (docs/guide/watch.md). The destructor or writeTrace() writes it. %p in the path stands for the
  /// process's number. Empty: $TALLY_TRACE, and if that is not set no trace. Only for
  /// Sharing::Tally.
  std::string trace;
  /// Number of events, the newest ones, in the trace: 16 to 16,777,216; 40 bytes each. 0:
  /// $TALLY_TRACE_EVENTS, and if that is not set 131,072.
  std::uint32_t traceEvents = 0;
};

/// Counts of all that the runtime has done; work of destroyed streams stays counted.
struct Statistics {
  std::uint64_t highPriorityLaunches = 0;
  std::uint64_t bestEffortLaunches = 0; ///< finished launches of user's kernels
  KindCounts launchesByKind{};          ///< those through variants, by the kind in which they ended
  std::uint64_t physicalLaunches = 0;   ///< launches sent to the device for best-effort launches
  std::uint64_t requestsToYield = 0;    ///< times that best-effort work was asked to yield
  std::uint64_t yields = 0;             ///< physical launches that left blocks to run
  std::uint64_t savedBlocks = 0;        ///< blocks that yields left saved inside a loop
  /// Times that the device had no memory for a save area, so that a launch took another kind.
  std::uint64_t saveAreasRefused = 0;
  std::uint64_t pauses = 0; ///< requests for which work paused in place
  /// Physical launches that a policy confined to a part of the SMs, in green contexts; and the SMs
  /// of a stream's newest of them, the most of any stream, 0: none so far.
  std::uint64_t confinedLaunches = 0;
  std::uint32_t confinedSms = 0;
  /// Times from a request to yield, issued while best-effort work was on the device, until the host
  /// saw the last of that work gone: upper bounds of the turnaround. Nanoseconds, newest last, at
  /// most the last 65,536.
  std::vector<std::uint64_t> turnaroundNanoseconds;
};

enum class LoadedModule : std::uint64_t {};
enum class Kernel : std::uint64_t {};
enum class Client : std::uint64_t {};
enum class Stream : std::uint64_t {};

class Runtime {
public:
  static Result<std::unique_ptr<Runtime>> open(const RuntimeOptions &options);
  /// Opens the runtime on a device that the caller opened; ignores `options.device` and
  /// `options.emulator`.
  static Result<std::unique_ptr<Runtime>> openOn(std::unique_ptr<Device> device,
                                                 const RuntimeOptions &options);
  /// Ends requests that are still open, then waits for all work.
  ~Runtime();
  Runtime(const Runtime &) = delete;
  Runtime &operator=(const Runtime &) = delete;

  const DeviceInfo &deviceInfo() const;

  /// Reads and loads a bundle file; fails for a damaged file and names the offset.
  Result<LoadedModule> load(const std::string &path);
  Result<LoadedModule> load(const bundle::Bundle &bundle);
  Result<Kernel> kernel(LoadedModule module, std::string_view kernelName);
  /// Waits for all streams, as free() does, then unloads the module. Returns the device's result;
  /// the handles of the module and of its kernels have ended in any case. Meanwhile no thread may
  /// call kernel() for the module or launch its kernels.
  Result<void> unload(LoadedModule module);

  /// Makes a kernel of the program's own CUfunction, of the device's primary context, as
  /// cuModuleGetFunction() and cudaGetFuncBySymbol() give it; valid until forget(). The kernel has
  /// no variants: high priority launches it as it is, best effort as a kernel that cannot yield.
  /// `name` is its name in errors and traces. The arguments of launches are checked only where the
  /// driver tells the function's parameters (CUDA 12.4). Fails on the emulator.
  Result<Kernel> adoptFunction(std::uint64_t nativeFunction, std::string name);
  /// Waits for all streams, then ends the handle of a kernel of adoptFunction(). The program may
  /// unload the function afterwards.
  Result<void> forget(Kernel kernel);

  Result<DevicePtr> allocate(std::size_t bytes);
  /// Waits for all streams, even those that another thread is destroying, then frees the memory.
  Result<void> free(DevicePtr pointer);

  /// Creates a tenant of the device. Its class holds for all its streams. Errors show its name,
  /// which need not be unique, or its number if it has no name.
  Result<Client> createClient(Class clientClass, std::string name = {});
  /// Creates a best-effort client of a class within this process, 1 (the highest, and the class of
  /// createClient()) to 4. Work of a class stands aside while there is work of a higher class,
  /// unless the higher class or high-priority work waits for it. Only for Sharing::Tally. For every
  /// class but one, the first stream takes device memory: for saved blocks, where checkpoint is
  /// among the kinds, some 64 MiB on an H200 for each of two lanes.
  Result<Client> createBestEffortClient(std::uint32_t bestEffortClass, std::string name = {});
  /// Fails while the client has streams or open requests. The number by which policies know a
  /// best-effort client goes to the next new client, whose device time begins at 0. The process's
  /// slots of an arena stay until the runtime ends.
  Result<void> destroyClient(Client client);

  Result<Stream> createStream(Client client);
  /// Wraps the program's own stream for a high-priority client: a CUstream or cudaStream_t of the
  /// device's primary context that is no default stream. The stream keeps its priority, which
  /// should be above the lowest, the priority of best-effort work. Until destroyStream() the stream
  /// must neither be destroyed nor captured: the runtime asks the driver whether it is idle. Work
  /// that the program puts there by its own calls keeps its order with the runtime's calls;
  /// best-effort work makes way for it while a request is open. Fails for best-effort clients and
  /// on the emulator.
  Result<Stream> adoptStream(Client client, std::uint64_t nativeStream);
  /// Waits for the work on the stream and returns like synchronize(); the handle has ended in any
  /// case. A stream of adoptStream() stays with the program, unchanged.
  Result<void> destroyStream(Stream stream);

  /// Copies are ordered on their stream; the host memory is used until the stream is synchronised.
  Result<void> copyToDevice(Stream stream, DevicePtr to, std::span<const std::byte> from);
  Result<void> copyToHost(Stream stream, std::span<std::byte> to, DevicePtr from);
  Result<void> fill(Stream stream, DevicePtr to, std::byte value, std::size_t bytes);

  /// Launches a kernel. Fails for a wrong shape, wrong clusters or wrong parameters; after a fault
  /// on the device the next synchronize() fails. `shape.cluster` is the launch's cluster attribute,
  /// needed where the kernel does not demand its cluster itself.
  Result<void> launch(Stream stream, Kernel kernel, const LaunchShape &shape,
                      const Arguments &arguments);
  /// Blocks until all work put on the stream so far is done. Best-effort work that a caller waits
  /// for still yields to open requests.
  Result<void> synchronize(Stream stream);

  /// Begin and end a request of a high-priority client; in between best-effort work stands aside.
  /// Requests may nest and overlap, within a client and between clients; best-effort work goes on
  /// when all have ended. A launch on a high-priority stream outside of any request opens a scope
  /// by itself, which closes once the stream is seen idle. With any sharing, both calls fail for a
  /// best-effort client, and endRequest() fails where the client has no open request. They take no
  /// lock and allocate nothing, except that the last endRequest() locks to wake a sleeping
  /// dispatcher.
  Result<void> beginRequest(Client client);
  Result<void> endRequest(Client client);

  Statistics statistics() const;
  /// Writes the trace so far, replacing the whole file. Fails without RuntimeOptions::trace.
  Result<void> writeTrace() const;

  class State; ///< internal

private:
  Result<Client> addClient(Class clientClass, std::uint32_t bestEffortClass, std::string name);
  explicit Runtime(std::unique_ptr<State> made);
  std::unique_ptr<State> state;
};

} // namespace tally::runtime

#endif
