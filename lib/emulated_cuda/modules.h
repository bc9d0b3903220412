// Fatbins that the program registered, the kernels and variables in them, and what their host
// symbols stand for.
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
  // Known once the module is loaded:
  runtime::FunctionId function{};
  emulator::KernelInfo info;
  // Set by cudaFuncSetAttribute:
  int maxDynamicShared = -1; ///< -1: as many as fit with the static ones into 48 KB
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

/// What one registration or library brought. Loaded when something of it is first asked for.
struct Module {
  std::vector<std::string_view> containers; ///< fatbins that are linked together
  std::string_view text;                    ///< PTX, where there is no container
  bool wasTried = false;
  cudaError_t error = cudaSuccess; ///< of the loading
  runtime::ModuleId id{};
  std::vector<ManagedPointer> managed;
  std::vector<std::unique_ptr<Kernel>> kernels;
};

/// Thread-safe; pointers that it gives live as long as the process.
class Modules {
public:
  static Modules &get();

  /// `wrapper`: the one in `.nvFatBinSegment`.
  Module *add(const void *wrapper);
  /// A fatbin, a wrapper or PTX text in memory that outlives the module.
  Module *addImage(const void *image);
  void addKernel(Module *module, const void *host, std::string_view name);
  void addVariable(Module *module, const void *host, std::string_view name, std::size_t bytes);
  void addManaged(Module *module, void **host, std::string_view name, std::size_t bytes);
  /// The program's symbols of the module are forgotten; the code stays, it may be running.
  void remove(Module *module);
  /// The code goes too, and what is asked of the module's kernels is an error; what uses them has
  /// been waited for.
  void unload(Module &module);

  /// Loads the module unless that was done, and fills the pointers to managed variables.
  cudaError_t load(Module &module);
  /// The kernel of a host function or handle, its module loaded.
  cudaError_t kernel(const void *function, Kernel *&result);
  /// The kernel of that name; a handle of its own for each module and name.
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
