// What the program has registered with the CUDA runtime: its device code, and the kernels in it
// with their variants. Variants are registered beside the user's kernel, under addresses of the
// hooks' own, so that one module instance holds both.
#ifndef TALLY_LIB_HOOKS_STATE_REGISTRY_H
#define TALLY_LIB_HOOKS_STATE_REGISTRY_H

#include "planning/loaded_kernel.h"
#include "state/bundle_files.h"
#include "tables/cuda_api.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace tally::hooks {

/// The wrapper that __cudaRegisterFatBinary gets.
struct FatbinWrapper {
  std::uint32_t magic = 0, version = 0;
  const void *container = nullptr;
  const void *const *prelinked = nullptr; ///< of version 2: NULL-terminated
};

/// One kernel that can be launched. Lives as long as the process.
struct KernelRecord {
  const CudaApi *api = nullptr;
  const void *function = nullptr; ///< what the runtime launches it by
  std::string name;
  bool isRegistered = false;             ///< by a file, else found by its handle
  const bundle::Kernel *facts = nullptr; ///< nullptr: it has no bundle
  std::uint64_t moduleHash = 0;          ///< the bundle's
  std::string unmatchedIn; ///< then: the file, if that has bundles, but none for all of its code
  /// What the variants are registered under, by kind; [1] is the guard's resume entry.
  std::array<std::array<const void *, 2>, allKinds.size()> variants{};

  std::mutex mutex; ///< what follows, to `attributeVersion`
  std::atomic<bool> described{false};
  cudaError_t status = cudaSuccess; ///< of asking the runtime
  cudaFuncAttributes attributes{};
  /// Its parameters; nothing where they cannot be had.
  std::optional<std::vector<bundle::Parameter>> parameters;
  /// What its blocks take of an SM, once somebody wanted to know.
  std::optional<runtime::FunctionAttributes> taken;
  std::vector<std::pair<cudaFuncAttribute, int>> set; ///< by the application, to go to the variants
  std::atomic<std::uint64_t> attributeVersion{0};

  /// The program may write to a variable, of which the variants have a copy: they are not used any
  /// more, whoever holds the kernel (a graph).
  std::atomic<bool> hasStaleVariants{false};

  // Of whoever runs best-effort work, one thread at a time.
  bool looked = false; ///< for the variants
  std::unique_ptr<runtime::LoadedKernel> loaded;
  std::uint64_t appliedVersion = 0;
};

/// Says that no bundle belongs to device code of a file that has bundles.
void warnOfUnmatched(const std::string &file);

class Registry {
public:
  /// __cudaRegisterFatBinary. `wrapper` lies in the file that owns the code.
  void **registerFatBinary(const CudaApi &api, void *wrapper);
  void unregisterFatBinary(void **handle);
  /// __cudaRegisterFunction's part for a kernel that was just registered: its variants.
  void registerFunction(const CudaApi &api, void **handle, const char *hostFunction,
                        const char *deviceName);

  /// `handle` launches what `function` does.
  void alias(const void *handle, const void *function);
  /// The kernel that `function` launches; makes a record of one that was never seen.
  KernelRecord &find(const CudaApi &api, const void *function);
  /// The same where CUDA names the kernel, by a handle that the program may never have asked for.
  /// Asks the runtime for those of kernels with variants.
  KernelRecord &findHandle(const CudaApi &api, const void *handle);

  /// The handle will come to mean another kernel, or none.
  void forget(const void *handle);
  /// Handles of kernels that no file has registered may come to mean others.
  void forgetHandles();
  /// The device is reset: what was set on kernels is gone.
  void forgetDevice();

  std::size_t kernelsWithVariants() const { return withVariants.load(); }
  /// Says why there are no kernels with variants, as far as registering has shown.
  void warnOfNothing() const;

private:
  struct Registration {
    const CudaApi *api = nullptr;
    std::vector<const bundle::Bundle *> bundles;
    std::string unmatchedIn; // the file of containers that no bundle belongs to
    FatbinWrapper replacement;
    std::vector<std::uint64_t> image; // in words, for the alignment
    std::deque<std::string> names;    // of variants; the runtime keeps pointers to them
    std::vector<const void *> functions;
  };

  void look(Registration &registration, const void *wrapper, const void *container);
  std::string whyNothing() const;
  void addVariant(Registration &registration, void **handle, KernelRecord &kernel, Kind kind,
                  bool resume);

  BundleFiles files;
  std::atomic<std::size_t> registrationCount{0}, withVariants{0};
  std::atomic<bool> anyBundle{false}, anyDamaged{false};
  mutable std::shared_mutex mutex; // what follows
  std::string lastFileWithout, lastUnmatchedFile;
  std::deque<std::unique_ptr<Registration>> registrationsMade;
  std::unordered_map<void **, Registration *> byHandle;
  std::deque<KernelRecord> kernels;
  std::deque<char> addresses; // what variants are registered under
  std::unordered_map<const void *, KernelRecord *> byFunction;
};

} // namespace tally::hooks

#endif
