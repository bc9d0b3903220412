#include "compilers.h"

#include "hooks.h"
#include "redirected_exports.h"

#include <array>
#include <dlfcn.h>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

namespace tally::preload {

namespace {

// As nvJitLink.h has them: 0 is success, 2 an input that is PTX.
using Link = void *;
constexpr int inputPtx = 2;
using AddData = int (*)(Link, int kind, const void *data, std::size_t bytes, const char *name);
using AddFile = int (*)(Link, int kind, const char *path);
using CodeSize = int (*)(Link, std::size_t *);
using Code = int (*)(Link, void *);
using Destroy = int (*)(Link *);

/// The functions of one version of one library: the header's calls end in the version's number,
/// `__nvJitLinkAddData_13_0`, and a library has those of all versions before its own.
struct Version {
  std::string name; ///< "_13_0"; empty: none yet
  AddData addData = nullptr;
  AddFile addFile = nullptr;
  CodeSize codeSize = nullptr;
  Code code = nullptr;
  Destroy destroy = nullptr;
};

constexpr std::size_t mostVersions = 32; // of all libraries of a process
std::array<Version, mostVersions> versions;

hooks::LoadedImages &images() { return hooks::Hooks::shared().loadedImages(); }

template <std::size_t index> struct Wrappers {
  static int addData(Link link, int kind, const void *data, std::size_t bytes, const char *name) {
    int status = versions[index].addData(link, kind, data, bytes, name);
    if (status != 0 || !images().isOn())
      return status;
    if (kind == inputPtx)
      images().links().addPtx(link, {static_cast<const char *>(data), bytes});
    else
      images().links().addOther(link);
    return status;
  }

  static int addFile(Link link, int kind, const char *path) {
    int status = versions[index].addFile(link, kind, path);
    if (status != 0 || !images().isOn())
      return status;
    if (kind == inputPtx) {
      std::ifstream file(path, std::ios::binary);
      images().links().addPtx(link, std::string((std::istreambuf_iterator<char>(file)), {}));
    } else
      images().links().addOther(link);
    return status;
  }

  static int code(Link link, void *to) {
    int status = versions[index].code(link, to);
    std::size_t bytes = 0;
    if (status == 0 && to && images().isOn() && versions[index].codeSize &&
        versions[index].codeSize(link, &bytes) == 0)
      images().compiled({static_cast<const char *>(to), bytes}, images().links().onlyPtx(link));
    return status;
  }

  static int destroy(Link *link) {
    if (link)
      images().links().forget(*link);
    return versions[index].destroy(link);
  }
};

struct VersionWrappers {
  AddData addData;
  AddFile addFile;
  Code code;
  Destroy destroy;
};

template <std::size_t... indices>
constexpr std::array<VersionWrappers, sizeof...(indices)>
wrappersOf(std::index_sequence<indices...>) {
  return {{{&Wrappers<indices>::addData, &Wrappers<indices>::addFile, &Wrappers<indices>::code,
            &Wrappers<indices>::destroy}...}};
}
constexpr auto wrappers = wrappersOf(std::make_index_sequence<mostVersions>());

} // namespace

void meetJitLink(void *library) {
  std::size_t first = 0; // of this library's versions
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
      return lead(versions[index].addData, wrappers[index].addData);
    if (call == "AddFile")
      return lead(versions[index].addFile, wrappers[index].addFile);
    if (call == "GetLinkedCubin")
      return lead(versions[index].code, wrappers[index].code);
    if (call == "Destroy")
      return lead(versions[index].destroy, wrappers[index].destroy);
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
