// The device code that the program has registered with the CUDA runtime, its kernels and their
// variants. The hooks register variants beside the user's kernel, under addresses of their own, so
// that one module instance holds both.
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
  const void *const *prelinked = nullptr; ///< for version 2: NULL-terminated
};

/// One kernel that can be launched. Lives as long as the process.
struct KernelRecord {
  const CudaApi *api = nullptr;
  const void *function = nullptr; ///< the address or handle that the runtime launches
  std::string name;
  /// Whether a file registered the kernel; else it was found by its handle.
  bool isRegistered = false;
  const bundle::Kernel *facts = nullptr; ///< nullptr: the kernel has no bundle
  std::uint64_t moduleHash = 0;          ///< the bundle's
  std::string unmatchedIn; ///< without a bundle: the file, if it has bundles for other code
  /// The addresses that the variants are registered under, by kind; [1] is the guard's resume
  /// entry.
  std::array<std::array<const void *, 2>, allKinds.size()> variants{};

  std::mutex mutex; ///< guards the members below, to `attributeVersion`
  std::atomic<bool> described{false};
  cudaError_t status = cudaSuccess; ///< status of the queries to the runtime
  cudaFuncAttributes attributes{};
  /// The kernel's parameters; nullptr where the runtime does not tell them.
  std::shared_ptr<const std::vector<bundle::Parameter>> parameters;
  /// The resources that the kernel's blocks take of an SM, once asked for.
  std::optional<runtime::FunctionAttributes> taken;
  /// Attributes that the application has set; for the variants too.
  std::vector<std::pair<cudaFuncAttribute, int>> set;
  std::atomic<std::uint64_t> attributeVersion{0};

  /// The program may write to a variable of which the variants have a copy: no holder of the kernel
  /// (such as a graph) uses the variants any more.
  std::atomic<bool> hasStaleVariants{false};

  // For the code that runs best-effort work, one thread at a time.
  bool looked = false; ///< whether the variants were looked for
  std::unique_ptr<runtime::LoadedKernel> loaded;
  std::uint64_t appliedVersion = 0;
};

/// Warns that no bundle belongs to device code of a file that has bundles.
void warnOfUnmatched(const std::string &file);

class Registry {
public:
  /// __cudaRegisterFatBinary. `wrapper` lies in the file that owns the code.
  void **registerFatBinary(const CudaApi &api, void *wrapper);
  void unregisterFatBinary(void **handle);
  /// Registers the variants of a kernel that __cudaRegisterFunction just registered.
  void registerFunction(const CudaApi &api, void **handle, const char *hostFunction,
                        const char *deviceName);

  /// `handle` launches the same kernel as `function`.
  void alias(const void *handle, const void *function);
  /// The kernel that `function` launches; makes a record for an unknown kernel.
  KernelRecord &find(const CudaApi &api, const void *function);
  /// The kernel of a handle that CUDA returned, which the program may never have asked for. Asks
  /// the runtime for the handles of kernels with variants.
  KernelRecord &findHandle(const CudaApi &api, const void *handle);

  /// The handle will name another kernel, or none.
  void forget(const void *handle);
  /// Handles of kernels that no file has registered may name other kernels from now on.
  void forgetHandles();
  /// The device is reset: attributes set on kernels are gone.
  void forgetDevice();

  std::size_t kernelsWithVariants() const { return withVariants.load(); }
  /// Warns why there are no kernels with variants, as far as registration has shown.
  void warnOfNothing() const;

private:
  struct Registration {
    const CudaApi *api = nullptr;
    std::vector<const bundle::Bundle *> bundles;
    std::string unmatchedIn; // the file, where containers have no bundle
    FatbinWrapper replacement;
    std::vector<std::uint64_t> image; // 64-bit words, for the alignment
    std::deque<std::string> names;    // names of variants; the runtime keeps pointers to them
    std::vector<const void *> functions;
  };

  void look(Registration &registration, const void *wrapper, const void *container);
  std::string whyNothing() const;
  void addVariant(Registration &registration, void **handle, KernelRecord &kernel, Kind kind,
                  bool resume);

  BundleFiles files;
  std::atomic<std::size_t> registrationCount{0}, withVariants{0};
  std::atomic<bool> anyBundle{false}, anyDamaged{false};
  mutable std::shared_mutex mutex; // guards the members below
  std::string lastFileWithout, lastUnmatchedFile;
  std::deque<std::unique_ptr<Registration>> registrationsMade;
  std::unordered_map<void **, Registration *> byHandle;
  std::deque<KernelRecord> kernels;
  std::deque<char> addresses; // the addresses that variants are registered under
  std::unordered_map<const void *, KernelRecord *> byFunction;
};

} // namespace tally::hooks

#endif
