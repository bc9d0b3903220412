#include "device/emulator_device.h"

#include "tally/ptx/syntax/parser.h"

#include <algorithm>
#include <cstring>

namespace tally::runtime {

EmulatorDevice::EmulatorDevice(const EmulatorOptions &options)
    : options(options), emulated(options.hostAddressed), queue(options.smCount) {
  facts.name = "emulator";
  facts.uuid = options.uuid;
  facts.arch = 90;
  facts.smCount = options.smCount;
  facts.maxSharedBytesPerBlock = maximumSharedBytes;
  emulated.setVirtualSmCount(options.smCount);
}

namespace {

/// Error text with the name of the failed call before the message.
Error failed(std::string_view call, const std::string &message) {
  return Error{"emulator: " + std::string(call) + ": " + message};
}

} // namespace

Result<ModuleId> EmulatorDevice::loadModule(const bundle::Bundle &bundle) {
  if (Result<void> healthy = queue.health(); !healthy)
    return healthy.error();
  for (const bundle::Image &image : bundle.images) {
    if (image.format != bundle::ImageFormat::Ptx)
      continue;
    auto parsed = ptx::parse(image.bytes);
    if (const auto *wrong = std::get_if<ptx::Diagnostic>(&parsed))
      return failed("loadModule", "the bundle's PTX at byte " + std::to_string(wrong->offset) +
                                      ": " + wrong->message);
    const ptx::Module *module = &std::get<ptx::Module>(parsed);
    return loadModules(std::span(&module, 1));
  }
  return failed("loadModule", "the bundle holds no PTX");
}

Result<ModuleId> EmulatorDevice::loadModules(std::span<const ptx::Module *const> linked) {
  auto program = emulated.load(linked);
  if (!program)
    return failed("loadModule", program.error().message);
  std::scoped_lock lock(mutex);
  auto id = static_cast<ModuleId>(++lastModule);
  modules.emplace(id, *program);
  return id;
}

Result<void> EmulatorDevice::unloadModule(ModuleId module) {
  std::scoped_lock lock(mutex);
  auto known = modules.find(module);
  if (known == modules.end())
    return failed("unloadModule", "no such module");
  emulated.unload(*known->second);
  std::erase_if(functions, [&](const auto &each) { return each.second.module == module; });
  modules.erase(known);
  return {};
}

Result<emulator::ProgramVariable> EmulatorDevice::variable(ModuleId module, std::string_view name) {
  std::scoped_lock lock(mutex);
  auto known = modules.find(module);
  if (known == modules.end())
    return failed("variable", "no such module");
  return emulator::programVariable(*known->second, name);
}

Result<emulator::KernelInfo> EmulatorDevice::kernelInfo(FunctionId function) {
  auto found = entry(function);
  if (!found)
    return found.error();
  return found->info;
}

Result<FunctionId> EmulatorDevice::function(ModuleId module, std::string_view name) {
  std::scoped_lock lock(mutex);
  auto known = modules.find(module);
  if (known == modules.end())
    return failed("function", "no such module");
  auto info = emulator::kernelInfo(*known->second, name);
  if (!info)
    return failed("function", info.error().message);
  auto id = static_cast<FunctionId>(++lastFunction);
  functions.emplace(id, Entry{module, known->second, std::string(name), *info});
  return id;
}

Result<EmulatorDevice::Entry> EmulatorDevice::entry(FunctionId function) {
  std::scoped_lock lock(mutex);
  auto known = functions.find(function);
  if (known == functions.end())
    return Error{"emulator: no such function"};
  return known->second;
}

Result<FunctionAttributes> EmulatorDevice::attributes(FunctionId function) {
  auto found = entry(function);
  if (!found)
    return found.error();
  return FunctionAttributes{0, found->info.staticSharedBytes, found->info.maxThreadsPerBlock};
}

Result<std::uint32_t> EmulatorDevice::residentBlocksPerSm(FunctionId function, Dim3 block,
                                                          std::uint32_t dynamicSharedBytes) {
  auto found = entry(function);
  if (!found)
    return found.error();
  std::uint64_t shared = std::uint64_t{found->info.staticSharedBytes} + dynamicSharedBytes;
  if (block.count() == 0 || block.count() > found->info.maxThreadsPerBlock ||
      shared > maximumSharedBytes)
    return std::uint32_t{0};
  return options.residentBlocksPerSm;
}

Result<DevicePtr> EmulatorDevice::allocate(std::size_t bytes) {
  if (Result<void> healthy = queue.health(); !healthy)
    return healthy.error();
  return emulated.allocate(bytes);
}

Result<void> EmulatorDevice::free(DevicePtr pointer) { return emulated.free(pointer); }

Result<MappedMemory> EmulatorDevice::allocateMapped(std::size_t bytes) {
  auto pointer = emulated.allocateZeroed(bytes);
  if (!pointer)
    return pointer.error();
  auto view = emulated.view(*pointer, bytes);
  if (!view)
    return view.error();
  return MappedMemory{view->data(), *pointer};
}

Result<StreamId> EmulatorDevice::createStream(StreamPriority priority) {
  if (Result<void> healthy = queue.health(); !healthy)
    return healthy.error();
  return queue.createStream(priority);
}

Result<std::span<std::byte>> EmulatorDevice::memory(std::string_view call, DevicePtr pointer,
                                                    std::size_t bytes) {
  if (bytes == 0)
    return std::span<std::byte>{};
  auto view = emulated.view(pointer, bytes);
  if (!view)
    return failed(call, view.error().message);
  return view;
}

Result<void> EmulatorDevice::copyToDevice(StreamId stream, DevicePtr to,
                                          std::span<const std::byte> from) {
  auto target = memory("copyToDevice", to, from.size());
  if (!target)
    return target.error();
  return queue.enqueue(stream, [target = *target, from]() -> Result<void> {
    std::ranges::copy(from, target.begin());
    return {};
  });
}

Result<void> EmulatorDevice::copyToHost(StreamId stream, std::span<std::byte> to, DevicePtr from) {
  auto source = memory("copyToHost", from, to.size());
  if (!source)
    return source.error();
  return queue.enqueue(stream, [source = *source, to]() -> Result<void> {
    std::ranges::copy(source, to.begin());
    return {};
  });
}

Result<void> EmulatorDevice::fill(StreamId stream, DevicePtr to, std::byte value,
                                  std::size_t bytes) {
  auto target = memory("fill", to, bytes);
  if (!target)
    return target.error();
  return queue.enqueue(stream, [target = *target, value]() -> Result<void> {
    std::ranges::fill(target, value);
    return {};
  });
}

Result<void> EmulatorDevice::writeValue(StreamId stream, DevicePtr to, std::uint64_t value) {
  if (to % sizeof(value))
    return failed("writeValue", "the address is not 8-byte aligned");
  auto target = memory("writeValue", to, sizeof(value));
  if (!target)
    return target.error();
  auto *word = reinterpret_cast<std::uint64_t *>(target->data());
  return queue.enqueue(stream, [word, value]() -> Result<void> {
    // Kernels and the host may poll the word meanwhile.
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
    return {};
  });
}

Result<void> EmulatorDevice::waitForWords(StreamId stream, std::span<const WordWait> words) {
  for (const WordWait &each : words) {
    auto target = memory("waitForWords", each.address, sizeof each.value);
    if (!target)
      return target.error();
    auto *word = reinterpret_cast<std::uint32_t *>(target->data());
    auto holds = [word, wait = each] {
      return wait.holds(__atomic_load_n(word, __ATOMIC_ACQUIRE));
    };
    if (Result<void> waits = queue.waitUntil(stream, holds); !waits)
      return waits;
  }
  return {};
}

Result<void> EmulatorDevice::launch(StreamId stream, FunctionId function, const LaunchShape &shape,
                                    std::span<const std::byte> parameters) {
  return launch(stream, function, shape, parameters, emulator::Residency::AsTheyCome);
}

Result<void> EmulatorDevice::launch(StreamId stream, FunctionId function, const LaunchShape &shape,
                                    std::span<const std::byte> parameters,
                                    emulator::Residency residency) {
  auto found = entry(function);
  if (!found)
    return found.error();
  auto grid = std::make_unique<emulator::GridExecution>(emulated, found->program, found->name,
                                                        shape, parameters, residency);
  if (auto fault = grid->fault())
    return failed("launch", fault->message);
  return queue.launch(stream, std::move(grid));
}

Result<std::unique_ptr<Device>> openEmulatorDevice(const EmulatorOptions &options) {
  if (options.smCount == 0 || options.residentBlocksPerSm == 0 || options.smCount > 1024)
    return Error{"emulator: 1 to 1024 virtual SMs with at least one resident block each"};
  return std::unique_ptr<Device>(new EmulatorDevice(options));
}

} // namespace tally::runtime
