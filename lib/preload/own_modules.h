// Code of the hooks' own that they register as the host code of nvcc does: modules of the driver's,
// which are loaded when one of their kernels is first asked for.
#ifndef TALLY_LIB_PRELOAD_OWN_MODULES_H
#define TALLY_LIB_PRELOAD_OWN_MODULES_H

#include <cuda.h>

#include <deque>
#include <mutex>
#include <string>
#include <unordered_map>

namespace tally::preload {

/// Thread-safe. What is added stays.
class OwnModules {
public:
  struct Module {
    const void *container = nullptr;
    CUmodule loaded = nullptr; ///< in the context of the thread that asked first
    CUresult status = CUDA_SUCCESS;
    bool wasTried = false;
  };

  static OwnModules &get();

  /// `container`: a fatbin in memory that outlives the process's use of it.
  Module &add(const void *container);
  /// `address` stands for the module's kernel of that name from now on.
  void addKernel(Module &module, const void *address, std::string name);
  /// The driver's function that `kernel` stands for: an address that was added, or a CUfunction
  /// itself.
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
