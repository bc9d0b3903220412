#include "run.h"

#include "command_file.h"
#include "launch_environment.h"
#include "preload_library.h"

// Of the runtime:
#include "api/environment.h"
#include "device/driver_environment.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <unistd.h>

namespace tally::launcher {

namespace {

/// Returns the reason why the driver cannot be loaded; empty where it can. A driver that emulates a
/// GPU counts too.
std::string driverFault() {
  // Loaded lazily, and only as a test: nothing of the driver is called before the command replaces
  // this program.
  if (dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL))
    return {};
  const char *why = dlerror();
  return why ? why : "unknown";
}

/// Returns the variables that preload the library; they replace the command's own.
Result<Variables> preloadFor(const RunOptions &options, const Variables &variables) {
  Variables preload;
  if (std::string fault = driverFault(); !fault.empty()) {
    std::fprintf(stderr,
                 "tally: there is no driver of a GPU (%s): the command runs without Tally\n",
                 fault.c_str());
    return preload;
  }
  Result<std::string> library = findPreloadLibrary();
  if (!library)
    return library.error();
  auto path = variables.find("PATH");
  std::optional<std::string> program = findProgram(
      options.command.front(), path == variables.end() ? "/bin:/usr/bin" : path->second);
  if (std::optional<Obstacle> obstacle = program ? preloadObstacle(*program) : std::nullopt) {
    std::fprintf(stderr, "tally: warning: %s %s: it runs without Tally\n", program->c_str(),
                 obstacle->reason.c_str());
    if (obstacle->hurts)
      return preload;
  }
  auto before = variables.find("LD_PRELOAD");
  preload["LD_PRELOAD"] = preloadWith(*library, before == variables.end() ? "" : before->second);
  std::string folder = library->substr(0, library->rfind('/'));
  auto setting = variables.find("TALLY_CLASS");
  bool isBestEffort = setting != variables.end() && setting->second == "best-effort";
  if (isBestEffort && access((folder + "/ptxas").c_str(), X_OK) == 0)
    preload.merge(tritonBy(folder, variables));
  return preload;
}

/// Replaces this program by the command; returns only where that failed.
int execute(const std::vector<std::string> &command) {
  std::vector<char *> words;
  for (const std::string &word : command)
    words.push_back(const_cast<char *>(word.c_str())); // execvp(3) does not change them
  words.push_back(nullptr);
  execvp(words.front(), words.data());
  int status = errno == ENOENT ? exitNotFound : exitNotExecutable;
  return fail(command.front() + ": " + std::strerror(errno), status);
}

} // namespace

int fail(const std::string &message, int status) {
  std::fprintf(stderr, "tally: error: %s\n", message.c_str());
  return status;
}

int run(const RunOptions &options) {
  Variables variables = currentVariables();
  Variables changes = settingsFor(options, variables);
  for (const auto &[name, value] : changes)
    variables[name] = value;
  Result<runtime::EnvironmentSettings> settings = runtime::readEnvironment(variables);
  if (!settings)
    return fail(settings.error().message, exitLauncher);
  if (settings->disabled)
    return execute(options.command);
  Result<Variables> preload = preloadFor(options, variables);
  if (!preload)
    return fail(preload.error().message, exitLauncher);
  changes.insert(preload->begin(), preload->end());
  for (const auto &[name, value] : changes)
    if (setenv(name.c_str(), value.c_str(), 1) != 0)
      return fail(name + ": " + std::strerror(errno), exitLauncher);
  // Set here rather than in the command, whose threads may be reading its environment by then.
  if (auto with = preload->find("LD_PRELOAD"); with != preload->end()) {
    auto before = variables.find("LD_PRELOAD");
    if (before != variables.end() && before->second == with->second)
      unsetenv("CUDA_MPS_CLIENT_PRIORITY"); // the outer `tally run` has set it, for its own class
    runtime::prepareDriverEnvironment(settings->bestEffort, false);
  }
  return execute(options.command);
}

} // namespace tally::launcher
