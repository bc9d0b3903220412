// Code that the program loads by the driver at run time (Triton, NVRTC, CuPy, containers of
// libraries that have PTX for the device), and its variants, which lie in a store on disk, or come
// there while the program runs (variant_store.h).
//
// The program's own kernels run from the image that it has loaded. Variants are loaded beside it,
// by a thread of the hooks' own, so that no launch waits for them: until they are there kernels run
// as they are. Both must mean the same memory: an image whose kernels may change variables of its
// own gets none, nor has one any more of whose variables the program asks for the address.
#ifndef TALLY_LIB_HOOKS_WORK_LOADED_IMAGES_H
#define TALLY_LIB_HOOKS_WORK_LOADED_IMAGES_H

#include "state/registry.h"
#include "tables/cuda_api.h"
#include "work/link_inputs.h"

#include "tally/bundle/bundle.h"
#include "tally/bundle/variant_store.h"

#include <atomic>
#include <condition_variable>
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
  /// `folder`: of the store; empty: there are no variants to be had.
  LoadedImages(Registry &registry, std::string folder)
      : registry(registry), store(std::move(folder)) {}

  bool isOn() const { return !store.path().empty(); }
  /// A module or library was loaded from this: machine code, PTX, or a container of both.
  void loaded(const CudaApi &api, const void *module, std::string_view image);
  /// The same from a file.
  void loadedFile(const CudaApi &api, const void *module, const char *path);
  /// The program has been given this machine code, which was compiled from that PTX.
  void compiled(std::string_view code, std::string ptx);
  /// A link of the program's at run time (cuLink..., nvJitLink...) was given PTX or something else,
  /// the same from a file; it has given out machine code; its handle is about to mean no link.
  void linkAdded(const void *link, bool isPtx, std::string_view data);
  void linkAddedFile(const void *link, bool isPtx, const char *path);
  void linked(const void *link, std::string_view code);
  void linkEnded(const void *link) { links.forget(link); }
  /// Called before an image is loaded; set before the first one is, or never.
  using Call = void (*)();
  static inline constinit Call beforeLoading = nullptr;
  void willLoad() const {
    if (isOn() && beforeLoading)
      beforeLoading();
  }
  /// The library has this module in the thread's context.
  void aliasModule(const void *library, const void *module);
  /// The kernel is in this module, by which the program may find variables.
  void aliasModuleOf(const void *kernel, const void *module);
  /// It is about to be unloaded.
  void unloaded(const void *module);
  /// All are gone.
  void clear();
  /// The program has asked for a module's kernel. The handle may have meant another one, of a
  /// module that went unseen (with its context).
  void found(const CudaApi &api, const void *module, std::string_view name, const void *kernel);
  /// The same kernel has another handle.
  void alias(const CudaApi &api, const void *kernel, const void *other);
  /// The program has asked for a variable of a module's, and may write to it.
  void foundVariable(const void *module);

  /// Whether a launch of the kernel is to be made by the registry's record: it has variants. Also
  /// where it once had. A lock that readers share, and none where no image has any.
  bool hasVariants(const void *kernel) const;
  /// Whether the kernel is of an image that may get variants.
  bool knows(const void *kernel) const;
  /// There is an engine on the device: variants are loaded from now on.
  void serve(const CudaApi &api, int device);
  /// Before the driver ends.
  void stop();

  /// "images: 3 with variants, 1 with variables of its own"; empty where none was loaded.
  std::string statistics() const;

private:
  enum class State : std::uint8_t { Awaited, Usable, Refused };
  struct Image {
    std::string key;
    /// PTX, or a container with such, of which variants have to be made once it is known that there
    /// are none.
    std::string source;
    bool isCode = false;
    std::atomic<State> state{State::Awaited};
    bundle::Bundle contents;         ///< set before Usable
    cudaLibrary_t library = nullptr; ///< likewise
    /// Those found, by name: their handles, of which the first has the record.
    std::unordered_map<std::string, std::vector<const void *>> kernels;
    std::vector<KernelRecord *> given; ///< the records that have its variants
  };

  void run(const CudaApi &api, int device);
  void look(const CudaApi &api, Image &image);
  void haveMade(Image &image);
  bool load(const CudaApi &api, Image &image);
  void enter(const std::shared_ptr<Image> &image, std::vector<const void *> &handles,
             const CudaApi &api, const void *handle);
  void give(const CudaApi &api, Image &image, const std::string &name, const void *kernel);

  Registry &registry;
  const bundle::VariantStore store;
  LinkInputs links;
  std::atomic<std::size_t> usable{0}, refused{0};
  mutable std::shared_mutex mutex; ///< what follows, to `served`
  std::unordered_map<const void *, std::shared_ptr<Image>> byModule;
  std::unordered_map<const void *, std::shared_ptr<Image>> byKernel;
  std::unordered_map<std::string, std::string> compiledTexts; ///< by the code's key
  const CudaApi *served = nullptr;
  std::mutex waking;
  std::condition_variable woken;
  bool isNew = false, isOver = false; ///< guarded by `waking`
  std::thread loader;
  bool lookedInCaches = false; ///< the loader's
};

} // namespace tally::hooks

#endif
