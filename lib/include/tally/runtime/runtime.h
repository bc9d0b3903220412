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
// values that name what failed; nothing aborts, nothing prints.
//
// Streams, clients, modules and adopted functions may be destroyed at any time, beside any other
// call on any other handle, and made again without end: nothing is kept of them but their counts in
// statistics(). Whoever destroys one sees to it that no other thread has a call with that handle
// under way, or makes one later at the same time. A handle that has ended stays an error ("no such
// stream: 1, which was destroyed"), also when its place is taken by another object.
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

/// A kernel's arguments, packed as PTX lays out parameters: each at its natural alignment.
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

/// How best-effort work is made to share the GPU. `Tally` is the product; the others are what it is
/// measured against, through the same calls.
enum class Sharing : std::uint8_t {
  Tally,       ///< variants under the policy
  LowPriority, ///< the user's kernels on a low-priority stream, nothing held back
  SamePriority ///< the user's kernels on a stream of the same priority
};

/// Where processes on one GPU meet, so that high-priority work of one makes best-effort work of the
/// others yield (docs/guide/processes.md).
struct ArenaOptions {
  /// A file on a local file system, or a folder for one file per GPU. Empty: $TALLY_ARENA, and
  /// without that the user's own for this GPU in /dev/shm.
  std::string path;
  /// The group, by name or number, whose members may join. Empty: $TALLY_ARENA_GROUP, and without
  /// that nobody but the user.
  std::string group;
  /// No client of this process will be of high priority: createClient() refuses such. Then open()
  /// sets CUDA_MPS_CLIENT_PRIORITY=1, the lower of the two priorities that MPS has for clients,
  /// unless it is set; the driver reads it when it starts, which must not have happened before. As
  /// with any setenv(), no other thread may read the environment meanwhile.
  bool bestEffortOnly = false;
  /// Which of the classes of best-effort work the process's is of, 1 (the highest) to 4. It makes
  /// way for high-priority work and, while there is any, for processes' work of classes above it.
  std::uint32_t bestEffortClass = 1;
};

/// Whether the kinds of variants are chosen by measuring the application's launches.
enum class Profiling : std::uint8_t { Off, On };

/// What contradicts itself is an error of open(), and so is whatever is wrong with a TALLY_
/// variable of the environment, whoever reads it (docs/reference/settings.md).
struct RuntimeOptions {
  std::string device = "cuda"; ///< "cuda" or "emulator"
  Sharing sharing = Sharing::Tally;
  /// When best-effort work may run (docs/reference/policies.md).
  AnyPolicy policy;
  /// What a request may have to wait for best-effort work: so much of kernels that cannot yield is
  /// sent ahead at most, or one longer one. 1 us to 1 s.
  std::chrono::nanoseconds bound{20000};
  /// Above 0: best-effort kernels that cannot yield run on so many of the device's SMs only, where
  /// it can divide them (a green context). open() fails where it cannot. Only for Sharing::Tally.
  std::uint32_t smsOfNonPreemptible = 0;
  EmulatorOptions emulator;
  Profiling profiling = Profiling::Off;
  /// The file that what was measured is kept in. Empty: for a GPU one in $XDG_CACHE_HOME/tally, or
  /// ~/.cache/tally; for an emulator none.
  std::string profilePath;
  /// Kinds that may be used, in the order of preference; a kernel takes the first that was emitted
  /// for it, or what measuring finds better. Pause and checkpoint, where they stand behind kinds
  /// that yield between blocks, are taken for launches whose blocks are measured to be longer than
  /// the bound (docs/design/kinds.md); in front of them, always. Without any the user's kernel is
  /// launched, non-preemptible, while no high-priority work is active.
  std::vector<Kind> kinds = {Kind::Persistent, Kind::Guard, Kind::Slice, Kind::Checkpoint};
  /// Of launches through Kind::Pause: the most of each SM's threads, registers, shared memory and
  /// places for blocks that they leave to others, in percents, 0 to 90. They leave what
  /// high-priority launches were seen to take, and so much before any was. While high-priority
  /// kernels are launched whose blocks do not fit there, nothing pauses; with 0 nothing ever does.
  std::uint32_t pauseReserve = 25;
  /// How long they stay paused while nothing of the high-priority work is seen to happen; then they
  /// go on to the end of their blocks and leave. 10 us to 10 s.
  std::chrono::nanoseconds pauseDeadline{2000000};
  /// Without it the process is alone. Only for Sharing::Tally. A process takes a slot of the arena
  /// with its first client of each class; createClient() fails where all are taken.
  std::optional<ArenaOptions> arena;
  /// Above 0: where the program has left SIGTERM at its default, it has best-effort work yield and
  /// end, and all else that is on the device, before it ends the process; waited for so long at
  /// most, 600 s. Under MPS a process that dies with kernels in flight may take the server along.
  /// 0: SIGTERM is left alone.
  std::chrono::milliseconds drainOnTermination{0};
  /// A file that the destructor, or writeTrace(), writes: who ran when and who yielded, for
  /// Perfetto or chrome://tracing (docs/guide/watch.md). %p in it stands for the process's number.
  /// Empty: $TALLY_TRACE, and without that none. Only for Sharing::Tally.
  std::string trace;
  /// The newest events that it holds, 16 to 16,777,216; 40 bytes each. 0: $TALLY_TRACE_EVENTS, and
  /// without that 131,072.
  std::uint32_t traceEvents = 0;
};

/// Of all that the runtime has done; what was on streams that are destroyed stays counted.
struct Statistics {
  std::uint64_t highPriorityLaunches = 0;
  std::uint64_t bestEffortLaunches = 0; ///< launches of user's kernels that were finished
  KindCounts launchesByKind{};          ///< of them through variants, by the kind they ended in
  std::uint64_t physicalLaunches = 0;   ///< launches given to the device for them
  std::uint64_t requestsToYield = 0;    ///< times the epoch was advanced
  std::uint64_t yields = 0;             ///< physical launches that left blocks to run
  std::uint64_t savedBlocks = 0;        ///< that they left saved inside of a loop
  /// Times that the device had no memory to save blocks in, so that another kind was taken.
  std::uint64_t saveAreasRefused = 0;
  std::uint64_t pauses = 0; ///< requests for which work paused where it was
  /// From a request to yield, issued while best-effort work was on the device, until the host saw
  /// the last of it gone; an upper bound of the turnaround. Nanoseconds, newest last, at most the
  /// last 65,536.
  std::vector<std::uint64_t> turnaroundNanoseconds;
};

enum class LoadedModule : std::uint64_t {};
enum class Kernel : std::uint64_t {};
enum class Client : std::uint64_t {};
enum class Stream : std::uint64_t {};

class Runtime {
public:
  static Result<std::unique_ptr<Runtime>> open(const RuntimeOptions &options);
  /// The same on a device that the caller opened; `options.device` and `options.emulator` are not
  /// read.
  static Result<std::unique_ptr<Runtime>> openOn(std::unique_ptr<Device> device,
                                                 const RuntimeOptions &options);
  /// Waits for all work; requests that are still open are ended first.
  ~Runtime();
  Runtime(const Runtime &) = delete;
  Runtime &operator=(const Runtime &) = delete;

  const DeviceInfo &deviceInfo() const;

  /// Reads and loads a bundle file; fails on a damaged one, naming the offset.
  Result<LoadedModule> load(const std::string &path);
  Result<LoadedModule> load(const bundle::Bundle &bundle);
  Result<Kernel> kernel(LoadedModule module, std::string_view kernelName);
  /// Waits for all streams first, as free() does. The handles of the module and of its kernels have
  /// ended whatever is returned: what the device says to the unloading. Nobody calls kernel() for
  /// the module, or launches kernels of it, meanwhile.
  Result<void> unload(LoadedModule module);

  /// A kernel of the program's own: a CUfunction of the device's primary context, as
  /// cuModuleGetFunction() and cudaGetFuncBySymbol() give it; valid until forget(). There are no
  /// variants of it: high priority launches it as it is, best effort as a kernel that cannot yield.
  /// `name` is what errors and traces call it. The arguments of launches are checked where the
  /// driver tells the function's parameters (CUDA 12.4), else by nobody. Fails on the emulator.
  Result<Kernel> adoptFunction(std::uint64_t nativeFunction, std::string name);
  /// Ends the handle of a kernel of adoptFunction(). Waits for all streams first: the program may
  /// unload the function then.
  Result<void> forget(Kernel kernel);

  Result<DevicePtr> allocate(std::size_t bytes);
  /// Waits first for all streams, those that another thread destroys too.
  Result<void> free(DevicePtr pointer);

  /// A tenant of the device. Its class holds for all its streams; errors call it by its name, which
  /// need not be unique, or by its number when it has none.
  Result<Client> createClient(Class clientClass, std::string name = {});
  /// A best-effort client of one of the classes that best-effort work of this process has, 1 (the
  /// highest, and of createClient()) to 4. Work of a class stands aside while there is work of a
  /// higher one, unless that, or work of high priority, waits for it. Only for Sharing::Tally. The
  /// first stream of each class but one takes memory of the device: for saved blocks, where
  /// checkpoint is among the kinds, some 64 MiB on an H200 for each of two lanes.
  Result<Client> createBestEffortClient(std::uint32_t bestEffortClass, std::string name = {});
  /// Fails while the client has streams or open requests. The number by which policies know a
  /// best-effort client goes to the next one that is created; what the client had of the device is
  /// not that one's. The process's slots of an arena stay until the runtime ends.
  Result<void> destroyClient(Client client);

  Result<Stream> createStream(Client client);
  /// A stream of the program's for a high-priority client: a CUstream or cudaStream_t of the
  /// device's primary context that is none of its default streams. It keeps its priority, which
  /// should be above the lowest, the one that best-effort work has. Until destroyStream() it must
  /// neither be destroyed nor captured: the runtime asks the driver whether it is idle. What the
  /// program puts there by calls of its own keeps its order with the runtime's calls; best-effort
  /// work makes way for it while a request is open. Fails for best-effort clients and on the
  /// emulator.
  Result<Stream> adoptStream(Client client, std::uint64_t nativeStream);
  /// Waits for what is on the stream, like synchronize(), and returns what that does. The handle
  /// has ended whatever is returned. A stream of adoptStream() stays the program's, and as it is.
  Result<void> destroyStream(Stream stream);

  /// Copies are ordered on their stream; the host memory is used until the stream is synchronised.
  Result<void> copyToDevice(Stream stream, DevicePtr to, std::span<const std::byte> from);
  Result<void> copyToHost(Stream stream, std::span<std::byte> to, DevicePtr from);
  Result<void> fill(Stream stream, DevicePtr to, std::byte value, std::size_t bytes);

  /// Launch errors that can be seen at once (shape, clusters, parameters) are returned here; a
  /// fault on the device by the next synchronize(). `shape.cluster` is the launch's cluster
  /// attribute, needed where the kernel does not demand its cluster itself.
  Result<void> launch(Stream stream, Kernel kernel, const LaunchShape &shape,
                      const Arguments &arguments);
  /// Blocks until everything put on the stream so far is done. Best-effort work that a caller waits
  /// for still yields to high-priority requests that are open.
  Result<void> synchronize(Stream stream);

  /// A request of a high-priority client: between begin and end best-effort work stands aside.
  /// Scopes nest and overlap, within a client and between clients; best-effort work goes on when
  /// all have ended. Launches on a high-priority stream outside of any scope open one by
  /// themselves, which closes once the stream is seen idle. Both fail for a best-effort client, and
  /// the end where that client has no open request, in whatever way the device is shared. The
  /// runtime takes no lock and allocates nothing for them, but that the last end locks to wake the
  /// dispatcher where that sleeps.
  Result<void> beginRequest(Client client);
  Result<void> endRequest(Client client);

  Statistics statistics() const;
  /// Writes the trace so far; the file is replaced as a whole. Fails without RuntimeOptions::trace.
  Result<void> writeTrace() const;

  class State; ///< internal

private:
  Result<Client> addClient(Class clientClass, std::uint32_t bestEffortClass, std::string name);
  explicit Runtime(std::unique_ptr<State> made);
  std::unique_ptr<State> state;
};

} // namespace tally::runtime

#endif
