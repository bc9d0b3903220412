// A host of plug-ins, without CUDA: host PLUGIN [deep] [namespace LIBRARY] [driver]
//   deep       opens the plug-in with RTLD_DEEPBIND
//   namespace  opens LIBRARY in a namespace of its own first
//   driver     uses the driver itself first
#include <cstdio>
#include <string_view>

#include <dlfcn.h>

int main(int count, char **arguments) {
  int mode = RTLD_NOW | RTLD_LOCAL;
  for (int i = 2; i < count; ++i) {
    std::string_view each = arguments[i];
    if (each == "deep")
      mode |= RTLD_DEEPBIND;
    if (each == "namespace" && !dlmopen(LM_ID_NEWLM, arguments[++i], RTLD_NOW))
      return std::puts(dlerror()), 1;
    if (each == "driver") {
      void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
      auto start = driver ? reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit")) : nullptr;
      if (!start || start(0) != 0)
        return 1;
    }
  }
  void *plugin = dlopen(arguments[1], mode);
  auto run = plugin ? reinterpret_cast<int (*)()>(dlsym(plugin, "run")) : nullptr;
  return run ? run() : (std::puts(dlerror()), 1);
}
