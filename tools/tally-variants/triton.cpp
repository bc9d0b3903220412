#include "triton.h"

#include "maker.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string_view>
#include <system_error>
#include <unistd.h>

namespace tally::variants {

namespace fs = std::filesystem;

namespace {

/// Returns the parent of a process; 0 where it is unknown.
int parentOf(int process) {
  std::optional<std::string> text = readFile("/proc/" + std::to_string(process) + "/stat");
  // The name stands in brackets, and may hold any character.
  std::size_t end = text ? text->rfind(')') : std::string::npos;
  int parent = 0;
  if (end == std::string::npos || std::sscanf(text->c_str() + end, ") %*c %d", &parent) != 1)
    return 0;
  return parent;
}

/// Returns the folder of the programs of the Triton that the process has loaded; empty without
/// Triton.
fs::path programsOf(int process) {
  std::ifstream maps("/proc/" + std::to_string(process) + "/maps");
  constexpr std::string_view library = "/triton/_C/libtriton";
  for (std::string line; std::getline(maps, line);)
    if (std::size_t begin = line.find('/'), at = line.find(library); at != std::string::npos)
      return line.substr(begin, at - begin) + "/triton/backends/nvidia/bin";
  return {};
}

} // namespace

std::vector<fs::path> ptxasOfTriton() {
  constexpr int generations = 4; // a shell or a worker may stand between
  std::vector<fs::path> found;
  for (int i = 0, process = getppid(); i < generations && process > 1 && found.empty(); ++i) {
    if (fs::path folder = programsOf(process); !folder.empty())
      for (const char *name : {"ptxas-blackwell", "ptxas"})
        if (access((folder / name).c_str(), X_OK) == 0)
          found.push_back(folder / name);
    process = parentOf(process);
  }
  return found;
}

std::vector<fs::path> tritonCaches() {
  std::vector<fs::path> found;
  auto add = [&](const char *base, std::string_view below) {
    std::error_code none;
    if (fs::path folder = base ? fs::path(base) / below : fs::path();
        !folder.empty() && fs::is_directory(folder, none))
      found.push_back(folder);
  };
  add(std::getenv("TRITON_CACHE_DIR"), "");
  add(std::getenv("TRITON_HOME"), ".triton/cache");
  add(std::getenv("HOME"), ".triton/cache");
  add(std::getenv("TORCHINDUCTOR_CACHE_DIR"), "triton");
  const char *user = std::getenv("USER");
  add("/tmp", std::string("torchinductor_") + (user ? user : "root") + "/triton");
  return found;
}

} // namespace tally::variants
