/**
 * @file
 * The runtime's C++ interface, C++17: values over the C interface (tally/tally.h), header-only.
 *
 *     auto runtime = tally::Runtime::open(options);
 *     auto kernels = runtime->load("kernels.tally");
 *     auto gemm = kernels->kernel("gemm");
 *     auto trainer = runtime->createClient(tally::Class::BestEffort, "trainer");
 *     auto stream = trainer->createStream();
 *     stream->launch(*gemm, tally::Shape(blocks, threads), a.device(), b.device(), n);
 *
 * Each object frees its resource when it is destroyed and keeps the runtime open until then, so
 * objects may be destroyed in any order. Objects can be moved, not copied. Errors are values that
 * say what failed: test a tally::Result before reading it.
 *
 * Threads: as tally/tally.h says. Only one thread at a time may move or destroy an object, as with
 * any value.
 */
#ifndef TALLY_TALLY_HPP
#define TALLY_TALLY_HPP

#include "tally/policies.h"
#include "tally/policy/chosen_policy.hpp"
#include "tally/support/result.h"
#include "tally/tally.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

/// Tally's C++ interface.
namespace tally {

/// High-priority work passes through; best-effort work yields to it.
enum class Class : std::uint8_t {
  High,      ///< latency-critical work
  BestEffort ///< work that may wait
};

/// The mode in which best-effort work shares the GPU; ::tally_sharing.
enum class Sharing : std::uint8_t {
  Tally,       ///< variants of the kernels, under the policy
  LowPriority, ///< baseline: the user's kernels on a stream of low priority
  SamePriority ///< baseline: the user's kernels on a stream of the same priority
};

/// @cond internal
namespace detail {

inline Error lastError() { return Error{tally_last_error()}; }

/// Reference that keeps the runtime open while a handle has an owner.
using Shared = std::shared_ptr<tally_runtime>;

/// Owner of a handle; its destructor calls `Destroy` on the handle.
template <class Handle, auto Destroy> class Owned {
public:
  Owned() = default;
  Owned(Shared runtime, Handle handle) : runtime(std::move(runtime)), handle(handle) {}
  Owned(Owned &&other) noexcept
      : runtime(std::move(other.runtime)), handle(std::exchange(other.handle, Handle{})) {}
  Owned &operator=(Owned &&other) noexcept {
    if (this != &other) {
      reset();
      runtime = std::move(other.runtime);
      handle = std::exchange(other.handle, Handle{});
    }
    return *this;
  }
  Owned(const Owned &) = delete;
  Owned &operator=(const Owned &) = delete;
  ~Owned() { reset(); }

  Handle get() const { return handle; }
  const Shared &owner() const { return runtime; }
  tally_runtime *raw() const { return runtime.get(); }

private:
  void reset() {
    if (runtime && handle != Handle{})
      static_cast<void>(Destroy(runtime.get(), handle)); // a destructor cannot report an error
    runtime.reset();
    handle = Handle{};
  }
  Shared runtime;
  Handle handle{};
};

inline Result<void> check(tally_status status) {
  return status == TALLY_OK ? Result<void>() : Result<void>(lastError());
}

} // namespace detail
/// @endcond

/// Options of Runtime::open(). Each field is a field of ::tally_options, which documents it. Zero
/// and empty mean the default.
struct Options {
  std::string device = "cuda";       ///< "cuda" or "emulator"
  Sharing sharing = Sharing::Tally;  ///< mode in which best-effort work shares the GPU
  Policy policy;                     ///< when best-effort work may run
  std::chrono::nanoseconds bound{0}; ///< longest wait for a block, 1 us to 1 s; 0: 20 us
  std::string kinds; ///< kinds of variants in the order of preference, "guard,slice"; or "none"
  std::uint32_t smsOfNonPreemptible = 0;   ///< SMs for kernels that cannot yield; 0: all
  std::uint32_t emulatorSms = 0;           ///< emulator: virtual SMs, each one a thread; 0: 2
  std::uint32_t emulatorResidentPerSm = 0; ///< emulator: thread blocks at a time on one SM; 0: 2
  std::string emulatorUuid;                ///< emulator: name of its default arena; empty: no arena
  bool profiling = false;                  ///< choose kinds by measuring launches
  std::string profilePath;                 ///< with `profiling`: path of the measurements
  std::string trace;                       ///< path of a trace for Perfetto (docs/guide/watch.md)
  std::uint32_t traceEvents = 0;     ///< newest events in the trace, 16 to 16,777,216; 0: 131,072
  bool usesArena = false;            ///< whether it joins an arena (docs/guide/processes.md)
  std::string arena;                 ///< with `usesArena`: path of the arena; empty: the default
  std::string arenaGroup;            ///< with `usesArena`: group whose members may join
  bool bestEffortOnly = false;       ///< with `usesArena`: no client is of high priority
  std::uint32_t bestEffortClass = 0; ///< with `usesArena`: 1 (the highest) to 4; 0: 1
  /// Longest wait of the process for the device on SIGTERM, at most 600 s; 0: SIGTERM is not
  /// handled.
  std::chrono::milliseconds drainOnTermination{0};
};

/// The device address of elements of type T. A plain value, which owns nothing.
template <class T> struct DevicePointer {
  std::uint64_t address = 0; ///< the address that kernels get
};

/// Device memory for `size()` elements. Its destructor waits for all streams, then frees it.
template <class T> class Buffer {
public:
  static_assert(std::is_trivially_copyable_v<T>, "device memory is copied byte for byte");
  /// No memory, of size 0.
  Buffer() = default;
  std::size_t size() const { return count; }                 ///< number of elements
  std::size_t bytes() const { return count * sizeof(T); }    ///< size in bytes
  DevicePointer<T> device() const { return {memory.get()}; } ///< address of the first element

private:
  friend class Runtime;
  Buffer(detail::Shared runtime, std::uint64_t address, std::size_t count)
      : memory(std::move(runtime), address), count(count) {}
  detail::Owned<tally_device_pointer, tally_free> memory;
  std::size_t count = 0;
};

/// A launch's extents; ::tally_launch_shape.
struct Shape {
  /// One dimension: a grid of `blocks` blocks, each of `threads` threads.
  Shape(std::uint32_t blocks, std::uint32_t threads) : Shape({blocks, 1, 1}, {threads, 1, 1}) {}
  /// Three dimensions: the grid in thread blocks, the block in threads.
  Shape(tally_dim3 grid, tally_dim3 block) : grid(grid), block(block) {}
  tally_dim3 grid;             ///< in thread blocks
  tally_dim3 block;            ///< in threads
  tally_dim3 cluster{0, 0, 0}; ///< cluster in thread blocks; zeros: the kernel's own
  std::uint32_t dynamicSharedBytes =
      0; ///< dynamic shared memory of a block, in addition to the kernel's own
};

/// A kernel of a loaded module; a plain handle, valid as long as its module is loaded.
class Kernel {
public:
  tally_kernel handle() const { return number; } ///< for calls of tally/tally.h

private:
  friend class Module;
  friend class AdoptedKernel;
  explicit Kernel(tally_kernel number) : number(number) {}
  tally_kernel number;
};

/// A kernel with the types of its parameters, so that a launch with other types does not compile:
/// `Function<DevicePointer<float>, int>`. The caller names the types; a launch compares their size
/// with the size of the kernel's parameters.
template <class... Parameters> class Function {
public:
  explicit Function(Kernel kernel) : untyped(kernel) {} ///< gives a kernel the parameter types
  Kernel kernel() const { return untyped; }             ///< the kernel without the types

private:
  Kernel untyped;
};

/// A CUfunction that the program has loaded itself (tally_adopt_function()). Its destructor calls
/// tally_forget_function().
class AdoptedKernel {
public:
  Kernel kernel() const { return Kernel(function.get()); } ///< the handle for launches

private:
  friend class Runtime;
  AdoptedKernel(detail::Shared runtime, tally_kernel handle)
      : function(std::move(runtime), handle) {}
  detail::Owned<tally_kernel, tally_forget_function> function;
};

/// A loaded bundle. Its destructor waits for all work, then unloads the bundle.
class Module {
public:
  /// Finds a kernel by its name in the PTX; fails where the module has no such kernel.
  Result<Kernel> kernel(const std::string &name) const {
    tally_kernel found = 0;
    if (tally_find_kernel(module.raw(), module.get(), name.c_str(), &found) != TALLY_OK)
      return detail::lastError();
    return Kernel(found);
  }
  /// Finds a kernel like kernel() and gives it the types of its parameters.
  template <class... Parameters>
  Result<Function<Parameters...>> function(const std::string &name) const {
    Result<Kernel> found = kernel(name);
    if (!found)
      return found.error();
    return Function<Parameters...>(*found);
  }
  tally_module handle() const { return module.get(); } ///< for calls of tally/tally.h

private:
  friend class Runtime;
  Module(detail::Shared runtime, tally_module handle) : module(std::move(runtime), handle) {}
  detail::Owned<tally_module, tally_unload> module;
};

/// A kernel's arguments, packed as PTX lays out parameters: each one at its natural alignment.
class Arguments {
public:
  /// Packs the values; a DevicePointer is packed as its address.
  template <class... T> explicit Arguments(const T &...values) { (append(values), ...); }
  const void *data() const { return packed.data(); } ///< the bytes for tally_launch()
  std::size_t size() const { return packed.size(); } ///< number of bytes

private:
  template <class T> void append(const T &value) {
    static_assert(std::is_trivially_copyable_v<T>, "a kernel argument is copied byte for byte");
    packed.resize((packed.size() + alignof(T) - 1) / alignof(T) * alignof(T) + sizeof(T));
    std::memcpy(packed.data() + packed.size() - sizeof(T), &value, sizeof(T));
  }
  std::vector<unsigned char> packed;
};

/// An in-order queue of a client. Its destructor waits for the work on it.
class Stream {
public:
  /// Launches a kernel. Fails for a wrong shape or wrong arguments; after a fault on the device the
  /// next synchronize() fails.
  template <class... T>
  Result<void> launch(Kernel kernel, const Shape &shape, const T &...arguments) {
    return launchPacked(kernel, shape, Arguments(arguments...));
  }
  /// Launches a typed kernel; the arguments convert to the function's types.
  template <class... Parameters>
  Result<void> launch(const Function<Parameters...> &function, const Shape &shape,
                      const std::common_type_t<Parameters> &...arguments) {
    return launchPacked(function.kernel(), shape, Arguments(arguments...));
  }
  /// Launches a kernel with arguments that are packed already.
  Result<void> launchPacked(Kernel kernel, const Shape &shape, const Arguments &arguments) {
    tally_launch_shape given = tally_shape(1, 1);
    given.grid = shape.grid;
    given.block = shape.block;
    given.cluster = shape.cluster;
    given.dynamic_shared_bytes = shape.dynamicSharedBytes;
    return detail::check(tally_launch(stream.raw(), stream.get(), kernel.handle(), &given,
                                      arguments.data(), arguments.size()));
  }

  /// Copies `count` elements; the host memory is used until the stream is synchronised.
  template <class T>
  Result<void> copyToDevice(const Buffer<T> &to, const T *from, std::size_t count) {
    if (count > to.size())
      return tooMany(count, to.size());
    return detail::check(tally_copy_to_device(stream.raw(), stream.get(), to.device().address, from,
                                              count * sizeof(T)));
  }
  /// Copies `count` elements; the host memory holds them once the stream is synchronised.
  template <class T> Result<void> copyToHost(T *to, const Buffer<T> &from, std::size_t count) {
    if (count > from.size())
      return tooMany(count, from.size());
    return detail::check(tally_copy_to_host(stream.raw(), stream.get(), to, from.device().address,
                                            count * sizeof(T)));
  }
  /// Copies all elements of the vector, up to the size of the buffer; the vector must stay as it is
  /// until the stream is synchronised.
  template <class T> Result<void> copyToDevice(const Buffer<T> &to, const std::vector<T> &from) {
    return copyToDevice(to, from.data(), from.size());
  }
  /// Copies as many elements as the vector has, up to the size of the buffer; the vector holds them
  /// once the stream is synchronised.
  template <class T> Result<void> copyToHost(std::vector<T> &to, const Buffer<T> &from) {
    return copyToHost(to.data(), from, to.size());
  }
  /// Sets every byte of the buffer to `value`.
  template <class T> Result<void> fill(const Buffer<T> &to, std::uint8_t value) {
    return detail::check(
        tally_fill(stream.raw(), stream.get(), to.device().address, value, to.bytes()));
  }
  /// Blocks until all work put on the stream so far is done. Fails for a fault on the device.
  Result<void> synchronize() {
    return detail::check(tally_synchronize(stream.raw(), stream.get()));
  }
  tally_stream handle() const { return stream.get(); } ///< for calls of tally/tally.h

private:
  friend class Client;
  Stream(detail::Shared runtime, tally_stream handle) : stream(std::move(runtime), handle) {}
  static Error tooMany(std::size_t count, std::size_t size) {
    return Error{"a copy of " + std::to_string(count) + " elements to or from a buffer of " +
                 std::to_string(size)};
  }
  detail::Owned<tally_stream, tally_destroy_stream> stream;
};

/// A request of a high-priority client: while it lives, best-effort work stands aside.
class ClientRequest {
public:
  ClientRequest(ClientRequest &&) noexcept = default; ///< takes over the request
  ClientRequest &operator=(ClientRequest &&) noexcept =
      default; ///< ends its own request and takes over the other request

private:
  friend class Client;
  ClientRequest(detail::Shared runtime, tally_client client)
      : request(std::move(runtime), client) {}
  detail::Owned<tally_client, tally_end_request> request;
};

/// A tenant of the device; its class holds for all its streams. Destroy it after its streams and
/// requests: a client that still has some stays until the runtime is closed.
class Client {
public:
  /// Creates a stream of the client.
  Result<Stream> createStream() {
    tally_stream made = 0;
    if (tally_create_stream(client.raw(), client.get(), &made) != TALLY_OK)
      return detail::lastError();
    return Stream(client.owner(), made);
  }
  /// Wraps the program's own cudaStream_t or CUstream; tally_adopt_stream().
  Result<Stream> adoptStream(void *native) {
    tally_stream made = 0;
    if (tally_adopt_stream(client.raw(), client.get(), native, &made) != TALLY_OK)
      return detail::lastError();
    return Stream(client.owner(), made);
  }
  /// Begins a request, which ends with the object. Fails for a best-effort client.
  Result<ClientRequest> beginRequest() {
    if (tally_begin_request(client.raw(), client.get()) != TALLY_OK)
      return detail::lastError();
    return ClientRequest(client.owner(), client.get());
  }
  tally_client handle() const { return client.get(); } ///< for calls of tally/tally.h

private:
  friend class Runtime;
  Client(detail::Shared runtime, tally_client handle) : client(std::move(runtime), handle) {}
  detail::Owned<tally_client, tally_destroy_client> client;
};

/// An open device. It closes when this object and all objects made from it are destroyed.
class Runtime {
public:
  /// Opens a device. Fails where there is no such device, where options contradict each other, and
  /// for a wrong TALLY_ variable of the environment (docs/reference/settings.md).
  static Result<Runtime> open(const Options &options = {}) {
    tally_options given = tally_default_options();
    auto text = [](const std::string &value) { return value.empty() ? nullptr : value.c_str(); };
    given.device = options.device.c_str();
    given.sharing = static_cast<tally_sharing>(options.sharing);
    given.policy = text(options.policy.text);
    given.bound_nanoseconds = static_cast<std::uint64_t>(options.bound.count());
    given.kinds = text(options.kinds);
    given.sms_of_non_preemptible = options.smsOfNonPreemptible;
    given.emulator_sms = options.emulatorSms;
    given.emulator_resident_per_sm = options.emulatorResidentPerSm;
    given.emulator_uuid = text(options.emulatorUuid);
    given.profiling = options.profiling ? 1 : 0;
    given.profile_path = text(options.profilePath);
    given.trace = text(options.trace);
    given.trace_events = options.traceEvents;
    given.arena = options.usesArena ? options.arena.c_str() : nullptr;
    given.arena_group = text(options.arenaGroup);
    given.best_effort_only = options.bestEffortOnly ? 1 : 0;
    given.best_effort_class = options.bestEffortClass;
    given.drain_milliseconds = static_cast<std::uint32_t>(options.drainOnTermination.count());
    tally_policy policy{};
    if (options.policy.make) {
      policy = options.policy.make();
      given.custom_policy = &policy;
    }
    tally_runtime *opened = nullptr;
    if (tally_open(&given, &opened) != TALLY_OK) {
      Error error = detail::lastError();
      if (policy.destroy)
        policy.destroy(policy.state);
      return error;
    }
    return Runtime(detail::Shared(opened, tally_close));
  }

  /// Returns the description of the device.
  tally_device_info deviceInfo() const {
    tally_device_info info = tally_default_device_info();
    static_cast<void>(tally_get_device_info(runtime.get(), &info)); // neither is null
    return info;
  }
  /// Reads and loads a bundle file that tally-ptxopt wrote.
  Result<Module> load(const std::string &path) {
    tally_module loaded = 0;
    if (tally_load(runtime.get(), path.c_str(), &loaded) != TALLY_OK)
      return detail::lastError();
    return Module(runtime, loaded);
  }
  /// Loads a bundle of `bytes` bytes in memory, which is copied.
  Result<Module> load(const void *bundle, std::size_t bytes) {
    tally_module loaded = 0;
    if (tally_load_memory(runtime.get(), bundle, bytes, &loaded) != TALLY_OK)
      return detail::lastError();
    return Module(runtime, loaded);
  }
  /// Makes a kernel of a CUfunction that the program has loaded itself; tally_adopt_function().
  Result<AdoptedKernel> adoptFunction(void *function, const std::string &name = {}) {
    tally_kernel adopted = 0;
    if (tally_adopt_function(runtime.get(), function, name.c_str(), &adopted) != TALLY_OK)
      return detail::lastError();
    return AdoptedKernel(runtime, adopted);
  }
  /// Allocates device memory for `count` elements, aligned to 256 bytes, not initialised.
  template <class T> Result<Buffer<T>> allocate(std::size_t count) {
    tally_device_pointer made = 0;
    if (tally_allocate(runtime.get(), count * sizeof(T), &made) != TALLY_OK)
      return detail::lastError();
    return Buffer<T>(runtime, made, count);
  }
  /// Creates a tenant of the device; errors, tally-top and traces show its name.
  Result<Client> createClient(Class clientClass, const std::string &name = {}) {
    tally_client made = 0;
    if (tally_create_client(runtime.get(), static_cast<tally_class>(clientClass), name.c_str(),
                            &made) != TALLY_OK)
      return detail::lastError();
    return Client(runtime, made);
  }
  /// Creates a best-effort client of a class, 1 (the highest) to 4. Its work stands aside for work
  /// of higher classes.
  Result<Client> createBestEffortClient(std::uint32_t bestEffortClass,
                                        const std::string &name = {}) {
    tally_client made = 0;
    if (tally_create_best_effort_client(runtime.get(), bestEffortClass, name.c_str(), &made) !=
        TALLY_OK)
      return detail::lastError();
    return Client(runtime, made);
  }
  /// Returns the counters of the runtime since it was opened.
  tally_statistics statistics() const {
    tally_statistics now = tally_default_statistics();
    static_cast<void>(tally_get_statistics(runtime.get(), &now)); // neither is null
    return now;
  }
  /// Writes the trace so far. Fails where the runtime was opened without a trace, and where the
  /// file cannot be written.
  Result<void> writeTrace() { return detail::check(tally_write_trace(runtime.get())); }
  tally_runtime *handle() const { return runtime.get(); } ///< for calls of tally/tally.h

private:
  explicit Runtime(detail::Shared runtime) : runtime(std::move(runtime)) {}
  detail::Shared runtime;
};

} // namespace tally

#endif
