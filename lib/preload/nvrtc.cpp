#include "compilers.h"

#include "device/redirected_exports.h"
#include "process/hooks.h"

#include <array>
#include <dlfcn.h>
#include <string>
#include <string_view>

namespace tally::preload {

namespace {

using Program = void *;
using Size = int (*)(Program, std::size_t *);
using Text = int (*)(Program, char *);

/// One NVRTC; a process may have several.
struct Library {
  Text wrapper;
  Text code = nullptr; ///< nullptr: the entry is free
  Text ptx = nullptr;
  Size codeSize = nullptr, ptxSize = nullptr;
};

template <unsigned index> int getCode(Program program, char *code);

std::array<Library, 3> libraries = {
    {{&getCode<0>}, {&getCode<1>}, {&getCode<2>}}}; // a process rarely has more, if ever

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

} // namespace

void meetNvrtc(void *handle) {
  Library *library = libraries.data();
  while (library != libraries.end() && library->code)
    ++library;
  if (library == libraries.end())
    return;
  auto find = [&]<class Function>(Function &function, const char *name) {
    function = reinterpret_cast<Function>(dlsym(handle, name));
  };
  find(library->codeSize, "nvrtcGetCUBINSize");
  find(library->ptxSize, "nvrtcGetPTXSize");
  find(library->ptx, "nvrtcGetPTX");
  find(library->code, "nvrtcGetCUBIN");
  auto choose = [&](std::string_view name, void *function) {
    return name == "nvrtcGetCUBIN" ? reinterpret_cast<void *>(library->wrapper) : function;
  };
  auto redirected = runtime::redirectExports(handle, choose, [] {});
  if (redirected)
    runtime::redirectCopies(handle, *redirected);
}

} // namespace tally::preload
