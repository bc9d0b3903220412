// Stands in front of the ptxas that Triton calls (TRITON_PTXAS_PATH): returns the real ptxas's
// output, and has variants of it made afterwards.
#include "maker.h"
#include "triton.h"

#include "tally/bundle/variant_store.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <optional>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

using namespace tally;
namespace fs = std::filesystem;

namespace {

constexpr int notFound = 127;

/// Returns TALLY_PTXAS, which `tally run` sets where the user has chosen a ptxas; else the ptxas of
/// the calling Triton; else the first ptxas in PATH that is not this program.
fs::path findReal(const std::string &name) {
  if (const char *given = std::getenv("TALLY_PTXAS"); given && *given)
    return given;
  for (const fs::path &each : variants::ptxasOfTriton())
    if (each.filename() == name)
      return each;
  std::error_code none;
  fs::path own = fs::read_symlink("/proc/self/exe", none);
  const char *all = std::getenv("PATH");
  std::string rest = std::string(all ? all : "") + ":/usr/local/cuda/bin";
  for (std::size_t at = 0; at < rest.size();) {
    std::size_t end = std::min(rest.find(':', at), rest.size());
    fs::path candidate = fs::path(rest.substr(at, end - at)) / "ptxas";
    if (access(candidate.c_str(), X_OK) == 0 && !fs::equivalent(candidate, own, none))
      return candidate;
    at = end + 1;
  }
  return {};
}

/// Keeps Tally out of the assembler and the programs that it starts, which do not use the GPU.
void dropPreload() {
  const char *all = std::getenv("LD_PRELOAD");
  std::string kept;
  std::string rest = all ? all : "";
  for (std::size_t at = 0; at < rest.size();) {
    std::size_t end = std::min(rest.find_first_of(": ", at), rest.size());
    std::string each = rest.substr(at, end - at);
    if (!each.empty() && each.find("libtally_preload.so") == std::string::npos)
      kept += (kept.empty() ? "" : ":") + each;
    at = end + 1;
  }
  if (kept.empty())
    unsetenv("LD_PRELOAD");
  else
    setenv("LD_PRELOAD", kept.c_str(), 1);
}

/// The files that the command's words name.
struct Files {
  fs::path ptx, output;
};
Files filesOf(const std::vector<std::string> &words) {
  Files found;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if ((words[i] == "-o" || words[i] == "--output-file") && i + 1 < words.size())
      found.output = words[++i];
    else if (words[i].ends_with(".ptx"))
      found.ptx = words[i];
  }
  return found;
}

/// Makes variants in a separate process, without waiting for it.
void makeLater(const Files &files, const fs::path &real) {
  std::optional<std::string> code = variants::readFile(files.output);
  std::optional<std::string> ptx = variants::readFile(files.ptx); // the file is gone soon
  Result<variants::Making> making = variants::findPlaces();
  if (!code || !ptx || !making)
    return;
  making->assemblers = {real};
  pid_t child = fork();
  if (child == 0) {
    setsid();
    if (fork() != 0)
      _exit(0);
    int nothing = open("/dev/null", O_RDWR);
    for (int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
      dup2(nothing, stream);
    static_cast<void>(nice(10));
    Result<bool> made = variants::makeVariants(*making, bundle::imageKey(*code), *ptx);
    _exit(made && *made ? 0 : 1);
  }
  while (child > 0 && waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
}

} // namespace

int main(int count, char **words) {
  dropPreload();
  std::string name = fs::path(words[0]).filename().string();
  fs::path real = findReal(name == "ptxas-blackwell" ? name : "ptxas");
  if (real.empty()) {
    std::fprintf(stderr,
                 "tally: no ptxas is found: set TRITON_PTXAS_PATH to one before `tally run`\n");
    return notFound;
  }
  words[0] = const_cast<char *>(real.c_str());
  Files files = filesOf({words + 1, words + count});
  pid_t child = files.ptx.empty() || files.output.empty() ? 0 : fork();
  if (child == 0) {
    execv(real.c_str(), words);
    std::fprintf(stderr, "tally: %s: %s\n", real.c_str(), std::strerror(errno));
    _exit(notFound);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status)) {
    signal(WTERMSIG(status), SIG_DFL);
    raise(WTERMSIG(status));
  }
  if (WEXITSTATUS(status) == 0)
    makeLater(files, real);
  return WEXITSTATUS(status);
}
