#include "work/loaded_images.h"

#include "state/own_thread.h"
#include "state/settings.h"
#include "work/variant_maker.h"

#include "tally/bundle/bundle_reader.h"
#include "tally/bundle/fatbin.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <utility>

namespace tally::hooks {

namespace {

/// The largest image that gets variants. Code made at run time is smaller, and so is an extension's
/// container. Variants of large libraries' code are not made while a program runs.
constexpr std::size_t mostImageBytes = std::size_t{4} << 20;
/// Interval between looks for variants that were made meanwhile.
constexpr std::chrono::milliseconds between{500};

bool isText(std::string_view image) { return image.find('\0') == std::string_view::npos; }

/// The architecture of the thread's device, 90 for 9.0; 0 where CUDA does not tell.
std::uint32_t archOf(const CudaApi &api) {
  int device = 0, major = 0, minor = 0;
  if (api.cudaGetDevice(&device) != cudaSuccess ||
      api.cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) !=
          cudaSuccess ||
      api.cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) != cudaSuccess)
    return 0;
  return static_cast<std::uint32_t>(10 * major + minor);
}

/// Whether a device of that architecture can use the entry's PTX.
bool suits(const bundle::FatbinEntry &entry, std::uint32_t arch) {
  if (entry.flags & bundle::fatbinArchSpecific)
    return entry.arch == arch;
  bool isOfFamily = entry.arch / 10 == arch / 10;
  return entry.arch <= arch && (isOfFamily || !(entry.flags & bundle::fatbinFamily));
}

/// Whether a container has PTX that the thread's device can use. Libraries bring thousands of
/// containers, most of them with no PTX, or with PTX only for later devices.
bool hasTextForDevice(const CudaApi &api, std::string_view image) {
  Result<bundle::FatbinContainer> container = bundle::readFatbin(image);
  if (!container)
    return false;
  std::erase_if(container->entries, [](const bundle::FatbinEntry &each) {
    return each.kind != bundle::FatbinKind::Ptx;
  });
  if (container->entries.empty())
    return false;
  return std::any_of(container->entries.begin(), container->entries.end(),
                     [arch = archOf(api)](const auto &each) { return suits(each, arch); });
}

template <class Each> bool isIn(const std::vector<Each> &some, const Each &one) {
  return std::find(some.begin(), some.end(), one) != some.end();
}

std::string contentsOf(const char *path) {
  std::ifstream file(path, std::ios::binary);
  return std::string((std::istreambuf_iterator<char>(file)), {});
}

std::optional<bundle::Bundle> readFile(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return std::nullopt;
  std::string text((std::istreambuf_iterator<char>(file)), {});
  auto read = bundle::readBundles(text);
  if (read && read->size() == 1)
    return std::move(read->front());
  warn(Warning::DamagedBundle, path + " is damaged, and is removed; its kernels run without "
                                      "variants until they are made anew");
  std::remove(path.c_str());
  return std::nullopt;
}

} // namespace

void LoadedImages::loaded(const CudaApi &api, const void *module, std::string_view bytes) {
  if (!isOn())
    return;
  bool isOfSize = !bytes.empty() && bytes.size() <= mostImageBytes;
  bool isCode = isOfSize && bytes.starts_with("\177ELF");
  bool isSource = isOfSize && !isCode && (isText(bytes) || hasTextForDevice(api, bytes));
  if (!isCode && !isSource) {
    std::unique_lock lock(mutex);
    byModule.erase(module); // the handle may have named a module that was unloaded unseen
    return;
  }
  auto image = std::make_shared<Image>();
  image->key = bundle::imageKey(bytes);
  image->isCode = isCode;
  if (isSource)
    image->source = bytes;
  {
    std::unique_lock lock(mutex);
    if (auto known = compiledTexts.find(image->key); known != compiledTexts.end())
      image->source = known->second;
    byModule[module] = std::move(image);
  }
  std::unique_lock lock(waking);
  isNew = true;
  woken.notify_one();
}

void LoadedImages::loadedFile(const CudaApi &api, const void *module, const char *path) {
  if (!isOn())
    return;
  std::string text = contentsOf(path);
  constexpr std::size_t leastImageBytes = 64; // the size of an ELF header
  if (text.size() >= leastImageBytes)
    loaded(api, module, bundle::deviceImageAt(text.c_str()));
}

void LoadedImages::compiled(std::string_view code, std::string ptx) {
  if (!isOn() || ptx.empty())
    return;
  std::string key = bundle::imageKey(code);
  std::unique_lock lock(mutex);
  compiledTexts[std::move(key)] = std::move(ptx);
}

void LoadedImages::linkAdded(const void *link, bool isPtx, std::string_view data) {
  if (isOn())
    links.add(link, isPtx, data);
}

void LoadedImages::linkAddedFile(const void *link, bool isPtx, const char *path) {
  if (isOn())
    links.add(link, isPtx, isPtx ? contentsOf(path) : std::string());
}

void LoadedImages::linked(const void *link, std::string_view code) {
  compiled(code, links.onlyPtx(link));
}

void LoadedImages::aliasModule(const void *library, const void *module) {
  if (!isOn() || library == module)
    return;
  std::unique_lock lock(mutex);
  if (auto known = byModule.find(library); known != byModule.end())
    byModule[module] = known->second;
  else
    byModule.erase(module); // the handle may have named a module that was unloaded unseen
}

void LoadedImages::aliasModuleOf(const void *kernel, const void *module) {
  if (!isOn())
    return;
  std::unique_lock lock(mutex);
  if (auto known = byKernel.find(kernel); known != byKernel.end())
    byModule[module] = known->second;
}

void LoadedImages::unloaded(const void *module) {
  std::unique_lock lock(mutex);
  auto known = byModule.find(module);
  if (known == byModule.end())
    return;
  const std::shared_ptr<Image> image = known->second;
  changed();
  std::erase_if(byModule, [&](const auto &each) { return each.second == image; });
  std::erase_if(byKernel, [&](const auto &each) {
    bool isOf = each.second == image;
    if (isOf)
      registry.forget(each.first);
    return isOf;
  });
  image->kernels.clear();
  bool wasUsable = image->state.exchange(State::Refused) == State::Usable;
  if (wasUsable && served)
    served->cudaLibraryUnload(image->library);
}

void LoadedImages::clear() {
  std::unique_lock lock(mutex);
  changed();
  for (const auto &[kernel, image] : byKernel)
    registry.forget(kernel);
  for (const auto &[module, image] : byModule) {
    image->kernels.clear();
    image->state = State::Refused;
  }
  byKernel.clear();
  byModule.clear();
}

/// Under the mutex. All handles of a kernel share one record.
void LoadedImages::enter(const std::shared_ptr<Image> &image, std::vector<const void *> &handles,
                         const CudaApi &api, const void *handle) {
  registry.forget(handle);
  changed();
  byKernel[handle] = image;
  handles.push_back(handle);
  if (handles.front() != handle)
    return registry.alias(handle, handles.front());
  KernelRecord &record = registry.find(api, handle);
  std::unique_lock lock(record.mutex);
  record.isRegistered = true; // the record stays when other handles are forgotten
}

void LoadedImages::found(const CudaApi &api, const void *module, std::string_view name,
                         const void *kernel) {
  if (!isOn())
    return;
  std::unique_lock lock(mutex);
  auto known = byModule.find(module);
  if (known == byModule.end())
    return;
  const std::shared_ptr<Image> &image = known->second;
  if (auto before = byKernel.find(kernel); before != byKernel.end() && before->second == image)
    return;
  std::vector<const void *> &handles = image->kernels[std::string(name)];
  enter(image, handles, api, kernel);
  if (image->state == State::Usable && handles.size() == 1)
    give(api, *image, std::string(name), kernel);
}

/// Under the mutex. The image of a kernel whose other handle is not that image's yet, or nullptr.
std::shared_ptr<LoadedImages::Image> LoadedImages::toEnter(const void *kernel,
                                                           const void *other) const {
  auto known = byKernel.find(kernel);
  if (known == byKernel.end())
    return nullptr;
  auto before = byKernel.find(other);
  return before != byKernel.end() && before->second == known->second ? nullptr : known->second;
}

/// Some programs ask for a kernel's function at each launch.
void LoadedImages::alias(const CudaApi &api, const void *kernel, const void *other) {
  if (!isOn() || kernel == other)
    return;
  if (std::shared_lock lock(mutex); !toEnter(kernel, other))
    return;
  std::unique_lock lock(mutex);
  const std::shared_ptr<Image> image = toEnter(kernel, other);
  if (!image)
    return;
  for (auto &[name, handles] : image->kernels)
    if (isIn(handles, kernel))
      return enter(image, handles, api, other);
}

/// Operations that are queued already are still correct: the program did not have the variable
/// then.
void LoadedImages::foundVariable(const void *module) {
  if (!isOn())
    return;
  std::unique_lock lock(mutex);
  auto known = byModule.find(module);
  if (known == byModule.end())
    return;
  changed();
  known->second->state = State::Refused;
  for (KernelRecord *each : known->second->given)
    each->hasStaleVariants = true;
}

bool LoadedImages::hasVariants(const void *kernel) const {
  if (usable.load(std::memory_order_acquire) == 0)
    return false;
  struct Answer {
    const void *kernel = nullptr;
    std::uint64_t version = 0; ///< doubled; the lowest bit is the answer
  };
  static thread_local std::array<Answer, 512> answers;
  Answer &last = answers[(reinterpret_cast<std::uintptr_t>(kernel) * 0x9e3779b97f4a7c15) >> 55];
  std::uint64_t now = version.load(std::memory_order_acquire);
  if (last.kernel == kernel && last.version >> 1 == now)
    return (last.version & 1) != 0;
  std::shared_lock lock(mutex);
  auto known = byKernel.find(kernel);
  bool has = known != byKernel.end() && known->second->state == State::Usable;
  last = {kernel, now << 1 | (has ? 1 : 0)};
  return has;
}

bool LoadedImages::knows(const void *kernel) const {
  if (!isOn())
    return false;
  std::shared_lock lock(mutex);
  return byKernel.contains(kernel);
}

void LoadedImages::serve(const CudaApi &api, int device) {
  std::unique_lock lock(waking);
  if (!isOn() || isOver || loader.joinable())
    return;
  {
    std::unique_lock all(mutex);
    served = &api;
  }
  isNew = true;
  loader = std::thread([this, &api, device] { run(api, device); });
}

void LoadedImages::stop() {
  {
    std::unique_lock lock(waking);
    isOver = true;
    woken.notify_one();
  }
  if (loader.joinable())
    loader.join();
}

void LoadedImages::run(const CudaApi &api, int device) {
  beOnOwnThread(api, device);
  std::unique_lock lock(waking);
  while (!isOver) {
    isNew = false;
    lock.unlock();
    std::vector<std::shared_ptr<Image>> awaited;
    {
      std::shared_lock all(mutex);
      for (const auto &[module, image] : byModule)
        if (image->state == State::Awaited &&
            !isIn(awaited, image)) // a library and its module share one image
          awaited.push_back(image);
    }
    for (const std::shared_ptr<Image> &each : awaited)
      look(api, *each);
    lock.lock();
    auto mayGoOn = [this] { return isNew || isOver; };
    if (awaited.empty())
      woken.wait(lock, mayGoOn);
    else
      woken.wait_for(lock, between, mayGoOn);
  }
}

void LoadedImages::look(const CudaApi &api, Image &image) {
  std::optional<bundle::Bundle> read = readFile(store.bundleOf(image.key));
  if (!read)
    return haveMade(image);
  image.contents = std::move(*read);
  bool isUsable = load(api, image);
  std::unique_lock lock(mutex);
  changed();
  // Meanwhile the program may have asked for a variable, or have unloaded the image.
  if (!isUsable || image.state != State::Awaited) {
    image.state = State::Refused;
    refused.fetch_add(1);
    if (isUsable)
      api.cudaLibraryUnload(image.library);
    return;
  }
  for (const auto &[name, handles] : image.kernels)
    give(api, image, name, handles.front());
  image.state = State::Usable;
  usable.fetch_add(1, std::memory_order_release);
}

/// Starts making variants of PTX that the program has loaded. For machine code only its compiler
/// has the PTX: Triton keeps both in its caches.
void LoadedImages::haveMade(Image &image) {
  if (std::string source = std::exchange(image.source, {}); !source.empty())
    startMaking(store.path(), image.key, source);
  else if (image.isCode && !std::exchange(lookedInCaches, true))
    startMakingOfCaches();
}

/// The driver uses the first image that suits the device: machine code before PTX.
bool LoadedImages::load(const CudaApi &api, Image &image) {
  const std::vector<bundle::Image> &images = image.contents.images;
  if (std::any_of(image.contents.kernels.begin(), image.contents.kernels.end(),
                  [](const bundle::Kernel &each) { return each.changesVariables; }))
    return false;
  for (auto each = images.rbegin(); each != images.rend(); ++each)
    if (api.cudaLibraryLoadData(&image.library, each->bytes.c_str(), nullptr, nullptr, 0, nullptr,
                                nullptr, 0) == cudaSuccess)
      return true;
  image.library = nullptr;
  return false;
}

/// Under the mutex. Launches of the kernel are made through the record from now on.
void LoadedImages::give(const CudaApi &api, Image &image, const std::string &name,
                        const void *kernel) {
  const bundle::Kernel *facts = image.contents.kernel(name);
  KernelRecord &record = registry.find(api, kernel);
  std::unique_lock lock(record.mutex);
  record.name = name;
  if (!facts || record.facts)
    return;
  for (Kind kind : allKinds)
    for (bool resume : {false, true}) {
      bool isThere =
          facts->emitted(kind) && (!resume || (kind == Kind::Guard && !facts->guardTakesTickets()));
      cudaKernel_t entry = nullptr;
      if (isThere &&
          api.cudaLibraryGetKernel(&entry, image.library,
                                   bundle::entryName(name, kind, resume).c_str()) == cudaSuccess)
        record.variants[static_cast<std::size_t>(kind)][resume] = entry;
    }
  record.moduleHash = image.contents.moduleHash;
  record.facts = facts;
  image.given.push_back(&record);
  record.described = record.looked = false;
  record.attributeVersion.fetch_add(1); // the attributes set on the kernel go to the variants
}

std::string LoadedImages::statistics() const {
  std::size_t with = usable.load(), without = refused.load();
  if (with + without == 0)
    return "";
  return "images: " + std::to_string(with) + " with variants" +
         (without != 0 ? ", " + std::to_string(without) + " whose variants cannot be used" : "");
}

} // namespace tally::hooks
