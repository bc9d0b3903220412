#include "work/own_kernels.h"

#include "kernels/copy_shape.h"
#include "state/own_thread.h"
#include "work/own_bundle.h"

#include "tally/bundle/bundle_reader.h"
#include "tally/bundle/fatbin.h"
#include "tally/bundle/fatbin_writer.h"

#include <algorithm>
#include <cassert>
#include <charconv>
#include <cstring>
#include <thread>
#include <utility>

namespace tally::hooks {

namespace {

/// Largest sizes by unit. `mostBytes` has a million blocks, whose list takes 4 MiB where the launch
/// yields. Units below 16 bytes do not reach the memory's speed.
constexpr std::uint64_t mostBytes = std::uint64_t{16} << 30, mostByWords = std::uint64_t{64} << 20,
                        mostByBytes = std::uint64_t{1} << 20;
/// CUDA_ERROR_INVALID_CONTEXT: the calling thread has no context.
constexpr int invalidContext = 201;

CopyPlan planOf(std::uint64_t to, std::uint64_t bytes, std::uint32_t unit) {
  CopyPlan plan;
  plan.unit = unit;
  plan.head = static_cast<std::uint32_t>(std::min((unit - to % unit) % unit, bytes));
  std::uint64_t body = (bytes - plan.head) / unit * unit;
  plan.blocks = static_cast<std::uint32_t>(
      std::max<std::uint64_t>((body + copyBlockBytes - 1) / copyBlockBytes, 1));
  return plan;
}

/// The bundle's images in the driver's form: one container, from which the driver takes the image
/// that suits the device.
Result<std::string> containerOf(const bundle::Bundle &bundle) {
  bundle::FatbinWriter writer;
  for (const bundle::Image &image : bundle.images) {
    bundle::NewFatbinEntry entry;
    entry.arch = image.arch;
    entry.payload = image.bytes;
    if (image.format == bundle::ImageFormat::Ptx) {
      constexpr std::string_view directive = "\n.version ";
      std::size_t at = image.bytes.find(directive);
      if (at == std::string::npos)
        return Error{"PTX without a version"};
      const char *text = image.bytes.c_str() + at + directive.size();
      const char *end = image.bytes.c_str() + image.bytes.size();
      text = std::from_chars(text, end, entry.major).ptr;
      std::from_chars(std::min(text + 1, end), end, entry.minor);
      entry.kind = bundle::FatbinKind::Ptx;
    } else {
      entry.kind = bundle::FatbinKind::Elf;
      entry.major = 1;
      entry.minor = static_cast<unsigned char>(image.bytes.at(8)); // the ELF file's ABI version
    }
    if (Result<void> added = writer.add(entry); !added)
      return added.error();
  }
  return writer.container();
}

/// Appends a value after the earlier ones, at the offset that the kernel's facts give.
template <class Value> void put(OwnLaunch &launch, std::size_t index, const Value &value) {
  const bundle::Parameter &parameter = launch.kernel->facts->parameters.at(index);
  assert(parameter.size == sizeof value);
  std::memcpy(launch.parameters.data() + parameter.offset, &value, sizeof value);
}

} // namespace

std::optional<CopyPlan> planCopy(std::uint64_t to, std::uint64_t from, std::uint64_t bytes) {
  std::uint64_t distance = to < from ? from - to : to - from;
  if (bytes == 0 || distance < bytes)
    return std::nullopt;
  bool byWords = distance % 4 == 0;
  std::uint32_t unit = distance % 16 == 0 ? 16 : byWords ? 4 : 1;
  if (bytes > (unit == 16 ? mostBytes : byWords ? mostByWords : mostByBytes))
    return std::nullopt;
  return planOf(to, bytes, unit);
}

std::optional<CopyPlan> planFill(std::uint64_t to, std::uint64_t bytes) {
  if (bytes == 0 || bytes > mostBytes)
    return std::nullopt;
  return planOf(to, bytes, 16);
}

std::optional<OwnLaunch> OwnKernels::copy(void *to, const void *from, std::size_t bytes,
                                          cudaMemcpyKind kind) {
  // A copy of any other kind fails.
  bool isKnown = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToHost ||
                 kind == cudaMemcpyDeviceToDevice || kind == cudaMemcpyDefault;
  if (!isKnown || state == State::Unusable)
    return std::nullopt;
  bool toHost = kind == cudaMemcpyDeviceToHost, fromHost = kind == cudaMemcpyHostToDevice;
  // The copy's direction is right, or the call gives none.
  bool toOwn = !toHost && isWithin(to, bytes), fromOwn = !fromHost && isWithin(from, bytes);
  if (toOwn && fromOwn)
    return launchCopy(to, from, bytes);
  if ((!toOwn && !fromOwn) || kind == cudaMemcpyDeviceToDevice || bytes > mostOfHost)
    return std::nullopt;
  const void *host = pinned(toOwn ? from : to, bytes);
  if (!host)
    return std::nullopt;
  return toOwn ? launchCopy(to, host, bytes) : launchCopy(const_cast<void *>(host), from, bytes);
}

std::optional<OwnLaunch> OwnKernels::launchCopy(void *to, const void *from, std::size_t bytes) {
  auto target = reinterpret_cast<std::uint64_t>(to), source = reinterpret_cast<std::uint64_t>(from);
  std::optional<CopyPlan> plan = planCopy(target, source, bytes);
  if (!plan || !isUsable())
    return std::nullopt;
  OwnLaunch launch = launchOf(copyKernel, "(copy)", plan->blocks);
  put(launch, 0, target);
  put(launch, 1, source);
  put(launch, 2, std::uint64_t{bytes});
  put(launch, 3, plan->head);
  put(launch, 4, plan->unit);
  return launch;
}

std::optional<OwnLaunch> OwnKernels::fill(void *to, int value, std::size_t bytes) {
  auto target = reinterpret_cast<std::uint64_t>(to);
  std::optional<CopyPlan> plan = planFill(target, bytes);
  if (!plan || state == State::Unusable || !isWithin(to, bytes) || !isUsable())
    return std::nullopt;
  OwnLaunch launch = launchOf(fillKernel, "(fill)", plan->blocks);
  put(launch, 0, target);
  put(launch, 1, std::uint64_t{bytes});
  put(launch, 2, plan->head);
  put(launch, 3, std::uint32_t{0x01010101} * static_cast<unsigned char>(value));
  return launch;
}

OwnLaunch OwnKernels::launchOf(KernelRecord &kernel, std::string_view label, std::uint32_t blocks) {
  OwnLaunch launch;
  launch.kernel = &kernel;
  launch.label = label;
  launch.shape.grid = {blocks, 1, 1};
  launch.shape.block = {copyThreads, 1, 1};
  launch.parameters.resize(kernel.facts->parameterBytes);
  return launch;
}

/// Whether the memory is the device's own: not managed, not the host's and not another device's.
bool OwnKernels::isOwn(const void *memory) const {
  cudaPointerAttributes attributes{};
  return memory && api.cudaPointerGetAttributes(&attributes, memory) == cudaSuccess &&
         attributes.type == cudaMemoryTypeDevice && attributes.device == device.number();
}

/// The address by which the device reaches pinned host memory; nullptr where the memory is not
/// pinned.
const void *OwnKernels::pinned(const void *memory, std::size_t bytes) const {
  if (bytes == 0)
    return nullptr;
  auto ask = [&](std::size_t offset) -> const std::byte * {
    cudaPointerAttributes attributes{};
    const void *at = static_cast<const std::byte *>(memory) + offset;
    bool isPinned = api.cudaPointerGetAttributes(&attributes, at) == cudaSuccess &&
                    attributes.type == cudaMemoryTypeHost;
    return isPinned ? static_cast<const std::byte *>(attributes.devicePointer) : nullptr;
  };
  const std::byte *first = ask(0), *last = first ? ask(bytes - 1) : nullptr;
  return last && last == first + (bytes - 1) ? first : nullptr;
}

/// CUDA refuses a copy that leaves its allocation, where a kernel would fault. Where the driver
/// cannot be asked, the other end of the range has to be device memory.
bool OwnKernels::isOneAllocation(const void *memory, std::size_t bytes) const {
  if (!rangeOf)
    return isOwn(static_cast<const std::byte *>(memory) + bytes - 1);
  auto address = reinterpret_cast<std::uint64_t>(memory);
  std::uint64_t base = 0;
  std::size_t size = 0;
  int status = rangeOf(&base, &size, address);
  // The runtime gives a thread its context at the first call that needs one. A thread that only
  // puts work on queues has made no such call.
  int current = 0;
  if (status == invalidContext && api.cudaGetDevice(&current) == cudaSuccess &&
      api.cudaSetDevice(current) == cudaSuccess)
    status = rangeOf(&base, &size, address);
  return status == 0 && address - base <= size && bytes <= size - (address - base);
}

bool OwnKernels::isUsable() {
  if (state == State::New && !captures.any()) {
    std::unique_lock lock(loading, std::try_to_lock);
    if (lock && state == State::New)
      state = load() ? State::Usable : State::Unusable;
  }
  return state == State::Usable;
}

/// Runs on a thread of its own: a failing call leaves no error behind that the application would
/// find.
bool OwnKernels::load() {
  auto read = bundle::readBundles(ownBundle());
  if (!read || read->empty())
    return false;
  bundle = std::move(read->front());
  bool isLoaded = false;
  std::thread([&] {
    beOnOwnThread(api, device.number());
    isLoaded = registerAll();
  }).join();
  return isLoaded;
}

/// Registers the kernels as the host code of nvcc registers a program's kernels. They stay
/// registered.
bool OwnKernels::registerAll() {
  Result<std::string> container = containerOf(bundle);
  if (!container)
    return false;
  image.resize((container->size() + 7) / 8);
  std::memcpy(image.data(), container->data(), container->size());
  wrapper = {bundle::fatbinWrapperMagic, 1, image.data(), nullptr};
  void **handle = api.__cudaRegisterFatBinary(&wrapper);
  bool areThere = add(handle, copyKernel, "tally_copy") && add(handle, fillKernel, "tally_fill");
  api.__cudaRegisterFatBinaryEnd(handle);
  return areThere && find(copyKernel) && find(fillKernel);
}

/// Returns false where there is no variant of a kind that may be used.
bool OwnKernels::add(void **handle, KernelRecord &kernel, const char *name) {
  kernel.api = &api;
  kernel.name = name;
  kernel.facts = bundle.kernel(name);
  kernel.moduleHash = bundle.moduleHash;
  if (!kernel.facts)
    return false;
  kernel.function = addEntry(handle, name);
  bool isThere = false;
  for (Kind kind : allKinds) {
    if (!kernel.facts->emitted(kind))
      continue;
    isThere = isThere || contains(kinds, kind);
    auto &entries = kernel.variants[static_cast<std::size_t>(kind)];
    entries[0] = addEntry(handle, bundle::entryName(name, kind));
    if (kind == Kind::Guard && !kernel.facts->guardTakesTickets())
      entries[1] = addEntry(handle, bundle::entryName(name, kind, true));
  }
  return isThere;
}

const char *OwnKernels::addEntry(void **handle, std::string name) {
  std::string &kept = names.emplace_back(std::move(name)); // the runtime keeps pointers to it
  const char *address = &addresses.emplace_back('\0');
  api.__cudaRegisterFunction(handle, address, kept.data(), kept.c_str(), -1, nullptr, nullptr,
                             nullptr, nullptr, nullptr);
  return address;
}

/// Makes the driver load the module: the error of a device or a driver that refuses it comes here.
bool OwnKernels::find(KernelRecord &kernel) {
  kernel.looked = true;
  auto found = runtime::LoadedKernel::find(device, idOf(kernel), *kernel.facts, kernel.moduleHash);
  if (found)
    kernel.loaded = std::move(*found);
  return kernel.loaded != nullptr;
}

} // namespace tally::hooks
