// Code that the hooks register as the host code of nvcc does: modules of the driver, which are
// loaded when one of their kernels is first asked for.
#ifndef TALLY_LIB_PRELOAD_OWN_MODULES_H
#define TALLY_LIB_PRELOAD_OWN_MODULES_H

#include <cuda.h>

#include <deque>
#include <mutex>
#include <string>
#include <unordered_map>

namespace tally::preload {

/// Thread-safe. Modules are never removed.
class OwnModules {
public:
  struct Module {
    const void *container = nullptr;
    CUmodule loaded = nullptr; ///< in the context of the thread that asked first
    CUresult status = CUDA_SUCCESS;
    bool wasTried = false;
  };

  static OwnModules &get();

  /// `container`: a fatbin in memory that stays valid as long as the process uses it.
  Module &add(const void *container);
  /// From now on `address` stands for the module's kernel of that name.
  void addKernel(Module &module, const void *address, std::string name);
  /// The driver's function for `kernel`: an address that was added, or a CUfunction itself.
  CUresult find(const void *kernel, CUfunction &function);

private:
  struct Kernel {
    Module *module = nullptr;
    std::string name;
    CUfunction function = nullptr;
  };

  std::mutex mutex; ///< guards everything
  std::deque<Module> modules;
  std::unordered_map<const void *, Kernel> kernels;
};

} // namespace tally::preload

#endif
