#include "nvrtc.h"

#include "hooks.h"
#include "redirected_exports.h"

#include <array>
#include <dlfcn.h>
#include <link.h>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tally::preload {

namespace {

using Program = void *;
using Size = int (*)(Program, std::size_t *);
using Text = int (*)(Program, char *);

/// One NVRTC; a process may have several.
struct Library {
  Text wrapper;
  std::string path; ///< empty: none yet
  Size codeSize = nullptr, ptxSize = nullptr;
  Text code = nullptr, ptx = nullptr;
};

template <unsigned index> int getCode(Program program, char *code);

std::array<Library, 3> libraries = {
    {{&getCode<0>, {}}, {&getCode<1>, {}}, {&getCode<2>, {}}}}; // not more, if ever

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

/// What is loaded of NVRTC, unless nothing was loaded since the last time.
std::vector<std::string> newlyLoaded() {
  struct Found {
    std::vector<std::string> paths;
    bool isFirst = true;
  } found;
  auto look = [](dl_phdr_info *info, std::size_t, void *data) {
    static unsigned long long seen = 0; // libraries that were ever loaded
    auto *all = static_cast<Found *>(data);
    if (std::exchange(all->isFirst, false) &&
        std::exchange(seen, info->dlpi_adds) == info->dlpi_adds)
      return 1;
    std::string_view path = info->dlpi_name ? info->dlpi_name : "";
    if (path.substr(path.rfind('/') + 1).starts_with("libnvrtc.so"))
      all->paths.emplace_back(path);
    return 0;
  };
  dl_iterate_phdr(look, &found);
  return found.paths;
}

} // namespace

void meetNvrtc() {
  static std::mutex meeting;
  static thread_local bool isUnderWay = false; // this calls dlopen, before which it is called
  if (std::exchange(isUnderWay, true))
    return;
  std::unique_lock lock(meeting);
  for (const std::string &path : newlyLoaded())
    for (Library &each : libraries) {
      if (each.path == path)
        break;
      if (!each.path.empty())
        continue;
      // It stays loaded: what leads here has to.
      void *handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD | RTLD_NODELETE);
      if (handle) {
        each.path = path;
        meet(each, handle);
      }
      break;
    }
  isUnderWay = false;
}

} // namespace tally::preload
