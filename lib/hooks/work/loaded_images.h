// Code that the program loads through the driver at run time (Triton, NVRTC, CuPy, containers of
// libraries that have PTX for the device), and its variants. The variants lie in a store on disk,
// or get there while the program runs (variant_store.h).
//
// The program's own kernels run from the image that the program has loaded. A thread of the hooks
// loads variants beside it, so that no launch waits for them: until then kernels run without
// variants. Both images must use the same memory. So an image whose kernels may change variables of
// its own gets no variants, and an image loses them once the program asks for the address of one of
// its variables.
#ifndef TALLY_LIB_HOOKS_WORK_LOADED_IMAGES_H
#define TALLY_LIB_HOOKS_WORK_LOADED_IMAGES_H

#include "state/registry.h"
#include "tables/cuda_api.h"
#include "work/link_inputs.h"

#include "tally/bundle/bundle.h"
#include "tally/bundle/variant_store.h"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

namespace tally::hooks {

/// Thread-safe. Never destroyed.
class LoadedImages {
public:
  /// `folder`: the store's; empty: there are no variants.
  LoadedImages(Registry &registry, std::string folder)
      : registry(registry), store(std::move(folder)) {}

  bool isOn() const { return !store.path().empty(); }
  /// A module or library was loaded from `image`: machine code, PTX, or a container of both.
  void loaded(const CudaApi &api, const void *module, std::string_view image);
  /// A module or library was loaded from a file.
  void loadedFile(const CudaApi &api, const void *module, const char *path);
  /// The program got machine code that was compiled from this PTX.
  void compiled(std::string_view code, std::string ptx);
  /// A link at run time (cuLink..., nvJitLink...): it got an input, PTX or another, from memory or
  /// from a file; it returned machine code; its handle is about to name no link.
  void linkAdded(const void *link, bool isPtx, std::string_view data);
  void linkAddedFile(const void *link, bool isPtx, const char *path);
  void linked(const void *link, std::string_view code);
  void linkEnded(const void *link) { links.forget(link); }
  /// Called before an image is loaded. Set before the first image is loaded, or never.
  using Call = void (*)();
  static inline constinit Call beforeLoading = nullptr;
  void willLoad() const {
    if (isOn() && beforeLoading)
      beforeLoading();
  }
  /// The library has this module in the thread's context.
  void aliasModule(const void *library, const void *module);
  /// The kernel is in this module; the program may find variables through the module.
  void aliasModuleOf(const void *kernel, const void *module);
  /// The module is about to be unloaded.
  void unloaded(const void *module);
  /// All modules are gone.
  void clear();
  /// The program has asked for a module's kernel. The handle may have named a kernel of an earlier
  /// module, whose unloading the hooks did not see (it went with its context).
  void found(const CudaApi &api, const void *module, std::string_view name, const void *kernel);
  /// The same kernel has another handle.
  void alias(const CudaApi &api, const void *kernel, const void *other);
  /// The program has asked for a variable of a module, and may write to it.
  void foundVariable(const void *module);

  /// Whether the registry's record has to make a launch of the kernel: the kernel has variants, or
  /// once had some. A thread that asks again takes no lock, unless images have changed.
  bool hasVariants(const void *kernel) const;
  /// Whether the kernel belongs to an image that may get variants.
  bool knows(const void *kernel) const;
  /// The device has a best-effort engine: from now on the hooks load variants.
  void serve(const CudaApi &api, int device);
  /// Called before the driver ends.
  void stop();

  /// "images: 3 with variants, 1 with variables of its own"; empty where none was loaded.
  std::string statistics() const;

private:
  enum class State : std::uint8_t { Awaited, Usable, Refused };
  struct Image {
    std::string key;
    /// PTX, or a container with PTX. Variants are made of it once it is known that the store has
    /// none.
    std::string source;
    bool isCode = false;
    std::atomic<State> state{State::Awaited};
    bundle::Bundle contents;         ///< set before Usable
    cudaLibrary_t library = nullptr; ///< set before Usable
    /// The kernels that were asked for, by name: their handles, of which the first has the record.
    std::unordered_map<std::string, std::vector<const void *>> kernels;
    std::vector<KernelRecord *> given; ///< the records that have the image's variants
  };

  void run(const CudaApi &api, int device);
  void look(const CudaApi &api, Image &image);
  void haveMade(Image &image);
  bool load(const CudaApi &api, Image &image);
  void enter(const std::shared_ptr<Image> &image, std::vector<const void *> &handles,
             const CudaApi &api, const void *handle);
  void give(const CudaApi &api, Image &image, const std::string &name, const void *kernel);
  std::shared_ptr<Image> toEnter(const void *kernel, const void *other) const;
  static std::uint64_t newVersion() {
    static std::atomic<std::uint64_t> last{0};
    return last.fetch_add(1, std::memory_order_relaxed) + 1;
  }
  /// Under the mutex, with each change of `byKernel` and of an image's state: the answers that
  /// threads keep are old.
  void changed() { version.store(newVersion(), std::memory_order_release); }

  Registry &registry;
  const bundle::VariantStore store;
  LinkInputs links;
  std::atomic<std::size_t> usable{0}, refused{0};
  /// Of `byKernel` and the images' states; no two objects have the same. Stored under the mutex.
  std::atomic<std::uint64_t> version{newVersion()};
  mutable std::shared_mutex mutex; ///< guards the members below, to `served`
  std::unordered_map<const void *, std::shared_ptr<Image>> byModule;
  std::unordered_map<const void *, std::shared_ptr<Image>> byKernel;
  std::unordered_map<std::string, std::string> compiledTexts; ///< texts by the code's key
  const CudaApi *served = nullptr;
  std::mutex waking;
  std::condition_variable woken;
  bool isNew = false, isOver = false; ///< guarded by `waking`
  std::thread loader;
  bool lookedInCaches = false; ///< used by the loader only
};

} // namespace tally::hooks

#endif
