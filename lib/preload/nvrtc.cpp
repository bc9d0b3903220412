#include "nvrtc.h"

#include "hooks.h"
#include "redirected_exports.h"

#include <array>
#include <dlfcn.h>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

namespace tally::preload {

namespace {

using Program = void *;
using Size = int (*)(Program, std::size_t *);
using Text = int (*)(Program, char *);

/// One version of NVRTC; a process may have several.
struct Library {
  const char *file;
  Text wrapper;
  bool isMet = false;
  Size codeSize = nullptr, ptxSize = nullptr;
  Text code = nullptr, ptx = nullptr;
};

template <unsigned index> int getCode(Program program, char *code);

std::array<Library, 3> libraries = {{{"libnvrtc.so.13", &getCode<0>},
                                     {"libnvrtc.so.12", &getCode<1>},
                                     {"libnvrtc.so.11.2", &getCode<2>}}};

std::string ptxOf(const Library &library, Program program) {
  std::size_t bytes = 0;
  if (!library.ptx || !library.ptxSize || library.ptxSize(program, &bytes) != 0 || bytes < 2)
    return {};
  std::string text(bytes, '\0'); // with its NUL
  if (library.ptx(program, text.data()) != 0)
    return {};
  text.pop_back();
  return text;
}

template <unsigned index> int getCode(Program program, char *code) {
  const Library &library = libraries[index];
  int status = library.code(program, code);
  std::size_t bytes = 0;
  if (status != 0 || !code || !library.codeSize || library.codeSize(program, &bytes) != 0)
    return status;
  hooks::LoadedImages &images = hooks::Hooks::shared().loadedImages();
  if (images.isOn())
    images.compiled({code, bytes}, ptxOf(library, program));
  return status;
}

void meet(Library &library, void *handle) {
  auto find = [&]<class Function>(Function &function, const char *name) {
    function = reinterpret_cast<Function>(dlsym(handle, name));
  };
  find(library.codeSize, "nvrtcGetCUBINSize");
  find(library.ptxSize, "nvrtcGetPTXSize");
  find(library.ptx, "nvrtcGetPTX");
  find(library.code, "nvrtcGetCUBIN");
  auto choose = [&](std::string_view name, void *function) {
    return name == "nvrtcGetCUBIN" ? reinterpret_cast<void *>(library.wrapper) : function;
  };
  auto redirected = runtime::redirectExports(handle, choose, [] {});
  if (redirected)
    runtime::redirectCopies(handle, *redirected);
}

} // namespace

void meetNvrtc() {
  static std::mutex meeting;
  static thread_local bool isUnderWay = false; // this calls dlopen, before which it is called
  if (std::exchange(isUnderWay, true))
    return;
  std::unique_lock lock(meeting);
  for (Library &each : libraries) {
    if (each.isMet)
      continue;
    // It stays loaded: what leads here has to.
    void *handle = dlopen(each.file, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD | RTLD_NODELETE);
    each.isMet = handle != nullptr;
    if (handle)
      meet(each, handle);
  }
  isUnderWay = false;
}

} // namespace tally::preload
