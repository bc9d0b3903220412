#include "modules.h"

#include "tally/bundle/fatbin.h"
#include "tally/ptx/syntax/parser.h"

#include <algorithm>
#include <cstring>

namespace tally::hooks::emulated {

namespace {

/// The argument of `__cudaRegisterFatBinary`; bundle/fatbin.h.
struct Wrapper {
  std::uint32_t magic, version;
  const void *container;
  const void *const *prelinked;
};

/// The PTX of a container that this device uses: the newest for its architecture or an older one;
/// for equal ones, PTX with its own features (`sm_90a`) before plain PTX. Empty where there is
/// none.
Result<std::string> ptxFor(std::string_view container, std::uint32_t arch) {
  auto read = bundle::readFatbin(container);
  if (!read)
    return read.error();
  const bundle::FatbinEntry *best = nullptr;
  auto rank = [](const bundle::FatbinEntry &entry) {
    return entry.arch * 2 + (entry.flags & bundle::fatbinArchSpecific ? 1 : 0);
  };
  for (const bundle::FatbinEntry &each : read->entries) {
    bool isSpecific = each.flags & (bundle::fatbinArchSpecific | bundle::fatbinFamily);
    if (each.kind != bundle::FatbinKind::Ptx || each.arch > arch ||
        (isSpecific && each.arch != arch))
      continue;
    if (!best || rank(each) > rank(*best))
      best = &each;
  }
  return best ? bundle::decompress(*best) : std::string();
}

struct Failure {
  cudaError_t code = cudaErrorUnknown;
  std::string message;
};

std::variant<ptx::Module, Failure> parsed(std::string text) {
  auto result = ptx::parse(std::move(text));
  if (const auto *wrong = std::get_if<ptx::Diagnostic>(&result))
    return Failure{cudaErrorInvalidPtx,
                   "PTX at byte " + std::to_string(wrong->offset) + ": " + wrong->message};
  return std::move(std::get<ptx::Module>(result));
}

/// The PTX of all containers, parsed; containers without PTX are skipped if another container has
/// some.
std::variant<std::vector<ptx::Module>, Failure> ptxOf(const Module &module, std::uint32_t arch) {
  std::vector<std::string> texts;
  if (!module.text.empty())
    texts.emplace_back(module.text);
  for (std::string_view each : module.containers) {
    auto text = ptxFor(each, arch);
    if (!text)
      return Failure{cudaErrorInvalidKernelImage, text.error().message};
    if (!text->empty())
      texts.push_back(std::move(*text));
  }
  if (texts.empty())
    return Failure{cudaErrorNoKernelImageForDevice, "a registered fatbin holds no PTX for sm_" +
                                                        std::to_string(arch) +
                                                        " or below, so its kernels cannot run"};
  std::vector<ptx::Module> result;
  for (std::string &text : texts) {
    auto one = parsed(std::move(text));
    if (auto *wrong = std::get_if<Failure>(&one))
      return std::move(*wrong);
    result.push_back(std::move(std::get<ptx::Module>(one)));
  }
  return result;
}

} // namespace

Modules &Modules::get() {
  static auto *only = new Modules;
  return *only;
}

Module *Modules::add(const void *wrapperAddress) {
  auto module = std::make_unique<Module>();
  auto keep = [&](const void *container) {
    if (auto bytes = container ? bundle::fatbinAt(container) : std::nullopt)
      module->containers.push_back(*bytes);
  };
  Wrapper wrapper{};
  std::memcpy(&wrapper, wrapperAddress, sizeof(wrapper));
  if (wrapper.magic == bundle::fatbinWrapperMagic) {
    if (wrapper.version == 2 && wrapper.prelinked)
      for (const void *const *each = wrapper.prelinked; *each; ++each)
        keep(*each);
    else
      keep(wrapper.container);
  }
  std::scoped_lock lock(mutex);
  return modules.emplace_back(std::move(module)).get();
}

Module *Modules::addImage(const void *image) {
  std::uint32_t magic = 0;
  std::memcpy(&magic, image, sizeof(magic));
  if (magic == bundle::fatbinWrapperMagic)
    return add(image);
  auto module = std::make_unique<Module>();
  if (auto bytes = bundle::fatbinAt(image))
    module->containers.push_back(*bytes);
  else
    module->text = static_cast<const char *>(image);
  std::scoped_lock lock(mutex);
  return modules.emplace_back(std::move(module)).get();
}

Kernel *Modules::makeKernel(Module *module, std::string_view name) {
  for (auto &each : module->kernels)
    if (each->name == name)
      return each.get();
  auto kernel = std::make_unique<Kernel>();
  kernel->module = module;
  kernel->name = name;
  handles.insert(kernel.get());
  return module->kernels.emplace_back(std::move(kernel)).get();
}

void Modules::addKernel(Module *module, const void *host, std::string_view name) {
  std::scoped_lock lock(mutex);
  kernels.try_emplace(host, makeKernel(module, name));
}

void Modules::addVariable(Module *module, const void *host, std::string_view name,
                          std::size_t bytes) {
  std::scoped_lock lock(mutex);
  symbols.try_emplace(host, Symbol{module, std::string(name), bytes});
}

void Modules::addManaged(Module *module, void **host, std::string_view name, std::size_t bytes) {
  std::scoped_lock lock(mutex);
  module->managed.push_back({host, std::string(name)});
  symbols.try_emplace(host, Symbol{module, std::string(name), bytes});
}

void Modules::remove(Module *module) {
  std::scoped_lock lock(mutex);
  std::erase_if(kernels, [&](const auto &each) { return each.second->module == module; });
  std::erase_if(symbols, [&](const auto &each) { return each.second.module == module; });
}

void Modules::unload(Module &module) {
  remove(&module);
  std::scoped_lock lock(mutex);
  for (const auto &each : module.kernels)
    handles.erase(each.get());
  if (module.wasTried && module.error == cudaSuccess)
    (void)Context::get().device()->unloadModule(module.id); // it is loaded
  module.error = cudaErrorInvalidResourceHandle;
}

cudaError_t Modules::load(Module &module) {
  std::scoped_lock lock(mutex);
  return loadLocked(module);
}

cudaError_t Modules::loadLocked(Module &module) {
  if (std::exchange(module.wasTried, true))
    return module.error;
  runtime::EmulatorDevice &device = *Context::get().device();
  auto failWith = [&](const Failure &failure) {
    sayOnce(failure.message, failure.message);
    return module.error = failure.code;
  };
  auto texts = ptxOf(module, device.info().arch);
  if (const auto *wrong = std::get_if<Failure>(&texts))
    return failWith(*wrong);
  std::vector<const ptx::Module *> linked;
  for (const ptx::Module &each : std::get<std::vector<ptx::Module>>(texts))
    linked.push_back(&each);
  auto id = device.loadModules(linked);
  if (!id)
    return failWith({cudaErrorInvalidKernelImage, id.error().message});
  module.id = *id;
  for (const ManagedPointer &each : module.managed)
    if (auto variable = device.variable(module.id, each.name)) {
      *each.host = reinterpret_cast<void *>(variable->address);
      // Where the API takes a symbol, the program passes the variable itself.
      symbols.try_emplace(*each.host, Symbol{&module, each.name, variable->bytes});
    }
  return cudaSuccess;
}

cudaError_t Modules::resolve(Kernel &kernel) {
  if (kernel.function != runtime::FunctionId{})
    return cudaSuccess;
  if (cudaError_t bad = loadLocked(*kernel.module); bad != cudaSuccess)
    return bad;
  runtime::EmulatorDevice &device = *Context::get().device();
  auto function = device.function(kernel.module->id, kernel.name);
  if (!function)
    return cudaErrorInvalidDeviceFunction;
  auto info = device.kernelInfo(*function);
  if (!info)
    return cudaErrorInvalidDeviceFunction;
  kernel.info = std::move(*info);
  kernel.function = *function;
  return cudaSuccess;
}

cudaError_t Modules::kernel(const void *function, Kernel *&result) {
  std::scoped_lock lock(mutex);
  if (auto found = kernels.find(function); found != kernels.end())
    result = found->second;
  else if (handles.contains(function))
    result = static_cast<Kernel *>(const_cast<void *>(function)); // it is a Kernel's address
  else
    return cudaErrorInvalidDeviceFunction;
  return resolve(*result);
}

cudaError_t Modules::kernelNamed(Module &module, std::string_view name, Kernel *&result) {
  std::scoped_lock lock(mutex);
  result = makeKernel(&module, name);
  cudaError_t error = resolve(*result);
  return error == cudaErrorInvalidDeviceFunction ? cudaErrorSymbolNotFound : error;
}

cudaError_t Modules::variable(const void *symbol, emulator::ProgramVariable &result) {
  std::scoped_lock lock(mutex);
  auto found = symbols.find(symbol);
  if (found == symbols.end())
    return cudaErrorInvalidSymbol;
  Module &module = *found->second.module;
  const std::string name = found->second.name; // loading may move the table's elements
  if (cudaError_t bad = loadLocked(module); bad != cudaSuccess)
    return bad;
  auto variable = Context::get().device()->variable(module.id, name);
  if (!variable)
    return cudaErrorInvalidSymbol;
  result = *variable;
  return cudaSuccess;
}

} // namespace tally::hooks::emulated
