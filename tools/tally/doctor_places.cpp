#include "child_answer.h"
#include "command_file.h"
#include "doctor.h"
#include "elf_file.h"
#include "preload_library.h"

#include "arena/arena_file.h" // of the runtime

#include "tally/runtime/arena_status.h"

#include <cstdlib>
#include <filesystem>
#include <unistd.h>

namespace tally::launcher {

namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

std::string variable(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

bool isWritable(const std::string &folder) { return access(folder.c_str(), W_OK | X_OK) == 0; }

/// Whether the process may create and remove files in `folder`, or may create the folder.
bool canHaveFiles(fs::path folder) {
  std::error_code none;
  while (!fs::exists(folder, none) && folder.has_relative_path())
    folder = folder.parent_path();
  return fs::is_directory(folder, none) && isWritable(folder.string());
}

void examineArenasThere(Report &report) {
  Result<std::vector<std::string>> paths = runtime::findArenas({});
  if (!paths)
    return report.bad("arena", paths.error().message, "look at TALLY_ARENA_GROUP");
  for (const std::string &path : *paths) {
    Result<runtime::ArenaStatus> status = runtime::readArenaStatus(path);
    if (status)
      report.ok("arena", path + ": " + std::to_string(status->clients.size()) +
                             " clients; mode and group are right");
    else
      report.bad("arena", status.error().message,
                 "end the processes that use it and remove it, or set TALLY_ARENA to another path");
  }
}

void examineArena(Report &report) {
  if (runtime::isArenaOff({}))
    return report.note("arena", "TALLY_ARENA=off: processes do not see each other",
                       "unset TALLY_ARENA");
  Result<runtime::ArenaGlob> place = runtime::findArenaGlob({});
  if (!place)
    return report.bad("arena", place.error().message, "look at TALLY_ARENA_GROUP");
  std::string group = variable("TALLY_ARENA_GROUP");
  std::string whose = group.empty() ? "this user's alone" : "for group " + group;
  fs::path file = place->name;
  std::string folder = fs::path(place->folder + "/").parent_path().string();
  if (place->folder.empty())
    folder = file.has_parent_path() ? file.parent_path().string() : ".";
  if (!isWritable(folder) && (!place->folder.empty() || !fs::exists(file)))
    return report.bad("arena", folder + " may not be written by this user",
                      "set TALLY_ARENA to a file or a folder that all processes of the GPU may "
                      "write");
  report.ok("arena", (place->folder.empty() ? place->name : "files in " + folder) + ", " + whose);
  examineArenasThere(report);
}

void examineLibrary(Report &report) {
  Result<std::string> library = findPreloadLibrary();
  if (!library)
    return report.bad("preloaded library", library.error().message,
                      "install the package tally-runtime, or set TALLY_PRELOAD_LIBRARY");
  MappedFile file(*library);
  std::optional<ProgramFile> program = readProgram(file.bytes());
  if (!program || !program->isNative)
    report.bad("preloaded library", *library + " is no library of this machine",
               "install the package tally-runtime for this machine");
  else
    report.ok("preloaded library", *library);
}

/// Returns the ptxas for kernels made at run time.
std::string findPtxas() {
  std::string given = variable("TRITON_PTXAS_PATH");
  if (!given.empty())
    return given;
  return findCommand("ptxas", variable("PATH")).value_or("/usr/local/cuda/bin/ptxas");
}

/// Returns "13.0" from the output of `ptxas --version`; empty where it names no release.
std::string releaseIn(const std::string &text) {
  const std::string word = "release ";
  std::size_t at = text.find(word);
  if (at == std::string::npos)
    return {};
  at += word.size();
  return text.substr(at, text.find_first_of(", \n", at) - at);
}

void examinePtxas(Report &report) {
  std::string path = findPtxas();
  bool isGiven = !variable("TRITON_PTXAS_PATH").empty();
  if (access(path.c_str(), X_OK) != 0) {
    if (isGiven)
      report.bad("ptxas", "TRITON_PTXAS_PATH=" + path + " cannot be executed",
                 "unset TRITON_PTXAS_PATH");
    else
      report.note("ptxas", "not in PATH and not in /usr/local/cuda/bin",
                  "Triton brings one of its own; else install the CUDA Toolkit 13");
    return;
  }
  ChildAnswer answer = askChild(
      [&] {
        execl(path.c_str(), path.c_str(), "--version", nullptr);
        return 127;
      },
      5s);
  std::string release = releaseIn(answer.text);
  if (!answer.fault.empty() || release.empty())
    report.bad("ptxas", path + ": " + (answer.fault.empty() ? "says no release" : answer.fault),
               isGiven ? "unset TRITON_PTXAS_PATH" : "install the CUDA Toolkit 13 anew");
  else
    report.ok("ptxas", path + ", release " + release);
}

void examineRewriter(Report &report) {
  std::string folder = launcherFolder();
  // Candidates beside an installed launcher, and in the build tree.
  for (const char *place : {"/tally-ptxopt", "/../tally-ptxopt/tally-ptxopt"})
    if (std::optional<std::string> found = findCommand(folder + place, ""))
      return report.ok("tally-ptxopt", fs::path(*found).lexically_normal().string());
  report.note("tally-ptxopt", "not in " + folder,
              "install the package tally-tools: without it kernels made at run time do not yield");
}

std::uint64_t bytesIn(const fs::path &folder) {
  std::uint64_t bytes = 0;
  std::error_code none;
  fs::recursive_directory_iterator each(folder, fs::directory_options::skip_permission_denied,
                                        none);
  for (; !none && each != fs::end(each); each.increment(none)) {
    std::error_code gone;
    std::uint64_t size = each->is_regular_file(gone) ? each->file_size(gone) : 0;
    bytes += gone ? 0 : size;
  }
  return bytes;
}

void examineCache(Report &report) {
  std::string base = variable("XDG_CACHE_HOME"), home = variable("HOME");
  if (base.empty() && home.empty())
    return report.note("cache", "neither XDG_CACHE_HOME nor HOME is set", "set HOME");
  fs::path folder = fs::path(base.empty() ? home + "/.cache" : base) / "tally";
  std::error_code none;
  if (!canHaveFiles(folder))
    report.bad("cache", folder.string() + " cannot be written by this user",
               "set XDG_CACHE_HOME to a folder of the user's");
  else if (fs::exists(folder, none))
    report.ok("cache", folder.string() + ", " + std::to_string(bytesIn(folder) >> 20) + " MiB");
  else
    report.ok("cache", folder.string() + ", not made yet");
}

} // namespace

void examinePlaces(Report &report) {
  examineArena(report);
  examineLibrary(report);
  examinePtxas(report);
  examineRewriter(report);
  examineCache(report);
}

} // namespace tally::launcher
