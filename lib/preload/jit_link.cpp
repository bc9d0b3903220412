#include "compilers.h"

#include "device/redirected_exports.h"
#include "process/hooks.h"

#include <array>
#include <dlfcn.h>
#include <string>
#include <string_view>
#include <utility>

namespace tally::preload {

namespace {

// As in nvJitLink.h: 0 is success, 2 an input that is PTX.
using Link = void *;
constexpr int inputPtx = 2;
using AddData = int (*)(Link, int kind, const void *data, std::size_t bytes, const char *name);
using AddFile = int (*)(Link, int kind, const char *path);
using CodeSize = int (*)(Link, std::size_t *);
using Code = int (*)(Link, void *);
using Destroy = int (*)(Link *);

/// The functions that are redirected to the hooks.
struct Calls {
  AddData addData = nullptr;
  AddFile addFile = nullptr;
  Code code = nullptr;
  Destroy destroy = nullptr;
};

/// The functions of one version of one library. The header's calls end in the version's number,
/// `__nvJitLinkAddData_13_0`. A library also has the functions of all earlier versions.
struct Version {
  std::string name; ///< "_13_0"; empty: none yet
  Calls real;
  CodeSize codeSize = nullptr;
};

constexpr std::size_t mostVersions = 32; // versions of all libraries of a process
std::array<Version, mostVersions> versions;

hooks::LoadedImages &images() { return hooks::Hooks::shared().loadedImages(); }

template <std::size_t index> struct Wrappers {
  static int addData(Link link, int kind, const void *data, std::size_t bytes, const char *name) {
    int status = versions[index].real.addData(link, kind, data, bytes, name);
    if (status == 0)
      images().linkAdded(link, kind == inputPtx, {static_cast<const char *>(data), bytes});
    return status;
  }

  static int addFile(Link link, int kind, const char *path) {
    int status = versions[index].real.addFile(link, kind, path);
    if (status == 0)
      images().linkAddedFile(link, kind == inputPtx, path);
    return status;
  }

  static int code(Link link, void *to) {
    int status = versions[index].real.code(link, to);
    std::size_t bytes = 0;
    if (status == 0 && to && versions[index].codeSize &&
        versions[index].codeSize(link, &bytes) == 0)
      images().linked(link, {static_cast<const char *>(to), bytes});
    return status;
  }

  static int destroy(Link *link) {
    if (link)
      images().linkEnded(*link);
    return versions[index].real.destroy(link);
  }
};

template <std::size_t... indices>
constexpr std::array<Calls, sizeof...(indices)> wrappersOf(std::index_sequence<indices...>) {
  return {{{&Wrappers<indices>::addData, &Wrappers<indices>::addFile, &Wrappers<indices>::code,
            &Wrappers<indices>::destroy}...}};
}
constexpr auto wrappers = wrappersOf(std::make_index_sequence<mostVersions>());

} // namespace

void meetJitLink(void *library) {
  std::size_t first = 0; // index of this library's first version
  while (first < mostVersions && !versions[first].name.empty())
    ++first;
  auto indexOf = [&](std::string_view name) {
    std::size_t index = first;
    while (index < mostVersions && !versions[index].name.empty() && versions[index].name != name)
      ++index;
    return index;
  };
  auto choose = [&](std::string_view name, void *function) {
    constexpr std::string_view prefix = "__nvJitLink";
    std::size_t underscore = name.starts_with(prefix) ? name.find('_', prefix.size()) : name.npos;
    if (underscore == name.npos)
      return function;
    std::string_view call = name.substr(prefix.size(), underscore - prefix.size());
    std::size_t index = indexOf(name.substr(underscore));
    if (index == mostVersions)
      return function;
    auto lead = [&]<class Function>(Function &real, Function wrapper) {
      versions[index].name = name.substr(underscore);
      real = reinterpret_cast<Function>(function);
      return reinterpret_cast<void *>(wrapper);
    };
    if (call == "AddData")
      return lead(versions[index].real.addData, wrappers[index].addData);
    if (call == "AddFile")
      return lead(versions[index].real.addFile, wrappers[index].addFile);
    if (call == "GetLinkedCubin")
      return lead(versions[index].real.code, wrappers[index].code);
    if (call == "Destroy")
      return lead(versions[index].real.destroy, wrappers[index].destroy);
    return function;
  };
  auto findSizes = [&] {
    for (std::size_t index = first; index < mostVersions && !versions[index].name.empty();
         ++index) {
      std::string name = "__nvJitLinkGetLinkedCubinSize" + versions[index].name;
      versions[index].codeSize = reinterpret_cast<CodeSize>(dlsym(library, name.c_str()));
    }
  };
  auto redirected = runtime::redirectExports(library, choose, findSizes);
  if (redirected)
    runtime::redirectCopies(library, *redirected);
}

} // namespace tally::preload
