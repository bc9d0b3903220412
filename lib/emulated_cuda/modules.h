// Fatbins that the program registered, their kernels and variables, and the host symbols of these.
#ifndef TALLY_LIB_EMULATED_CUDA_MODULES_H
#define TALLY_LIB_EMULATED_CUDA_MODULES_H

#include "context.h"

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace tally::hooks::emulated {

struct Module;

/// A kernel; its address is its cudaKernel_t and cudaFunction_t.
struct Kernel {
  Module *module = nullptr;
  std::string name;
  // The following members are known once the module is loaded:
  runtime::FunctionId function{};
  emulator::KernelInfo info;
  // Set by cudaFuncSetAttribute:
  int maxDynamicShared = -1; ///< -1: with the static bytes at most 48 KB
  int carveout = -1;
  Dim3 cluster{0, 0, 0};
};

/// A `__device__`, `__constant__` or `__managed__` variable.
struct Symbol {
  Module *module = nullptr;
  std::string name;
  std::size_t bytes = 0;
};

struct ManagedPointer {
  void **host = nullptr;
  std::string name;
};

/// The code of one registration or library. Loaded when one of its kernels or variables is first
/// asked for.
struct Module {
  std::vector<std::string_view> containers; ///< fatbins that are linked together
  std::string_view text;                    ///< PTX, where there is no container
  bool wasTried = false;
  cudaError_t error = cudaSuccess; ///< of loading
  runtime::ModuleId id{};
  std::vector<ManagedPointer> managed;
  std::vector<std::unique_ptr<Kernel>> kernels;
};

/// Thread-safe; the pointers that it returns live as long as the process.
class Modules {
public:
  static Modules &get();

  /// `wrapper`: the wrapper in `.nvFatBinSegment`.
  Module *add(const void *wrapper);
  /// A fatbin, a wrapper or PTX text in memory that outlives the module.
  Module *addImage(const void *image);
  void addKernel(Module *module, const void *host, std::string_view name);
  void addVariable(Module *module, const void *host, std::string_view name, std::size_t bytes);
  void addManaged(Module *module, void **host, std::string_view name, std::size_t bytes);
  /// Forgets the program's symbols of the module; the code stays, since it may be running.
  void remove(Module *module);
  /// Removes the code too; later calls for the module's kernels return an error. The caller has
  /// waited for all work that uses the code.
  void unload(Module &module);

  /// Loads the module unless it is loaded, and fills the pointers to managed variables.
  cudaError_t load(Module &module);
  /// The kernel of a host function or handle; loads its module.
  cudaError_t kernel(const void *function, Kernel *&result);
  /// The kernel of that name; each module and name has a handle of its own.
  cudaError_t kernelNamed(Module &module, std::string_view name, Kernel *&result);
  cudaError_t variable(const void *symbol, emulator::ProgramVariable &result);

private:
  Kernel *makeKernel(Module *module, std::string_view name);
  cudaError_t resolve(Kernel &kernel);
  cudaError_t loadLocked(Module &module);

  std::mutex mutex; ///< guards everything
  std::vector<std::unique_ptr<Module>> modules;
  std::unordered_map<const void *, Kernel *> kernels;
  std::unordered_set<const void *> handles;
  std::unordered_map<const void *, Symbol> symbols;
};

} // namespace tally::hooks::emulated

#endif
