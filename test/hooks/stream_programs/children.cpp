#include "children.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tally::programs {

namespace {

bool onEmulator() {
  const char *device = std::getenv("TALLY_DEVICE");
  return device && std::string_view(device) == "emulator";
}

std::string endingOf(int status) {
  if (WIFSIGNALED(status))
    return "ended by signal " + std::to_string(WTERMSIG(status));
  return "exit status " + std::to_string(WEXITSTATUS(status));
}

/// Standard output and standard error of a child, split into lines.
struct Output {
  int end = -1;
  std::string pending;

  /// Reads the available output; false at its end.
  bool take(const std::function<void(const std::string &)> &line) {
    std::array<char, 4096> bytes{};
    ssize_t count = read(end, bytes.data(), bytes.size());
    if (count <= 0)
      return false;
    pending.append(bytes.data(), static_cast<std::size_t>(count));
    for (std::size_t length = 0; (length = pending.find('\n')) != std::string::npos;) {
      line(pending.substr(0, length));
      pending.erase(0, length + 1);
    }
    return true;
  }
};

/// Returns the number in front of `what`, if the line has it.
void readNumber(const std::string &line, const char *what, unsigned long long &number) {
  std::size_t end = line.find(what);
  if (end == std::string::npos)
    return;
  std::size_t begin = line.find_last_not_of("0123456789", end - 1);
  number = std::strtoull(line.c_str() + begin + 1, nullptr, 10);
}

/// Handles a child's standard error: takes its statistics, and passes each other line on once.
void listen(const std::string &line, Counts &counts) {
  static std::set<std::string> known;
  if (line.starts_with("tally: launches:")) {
    readNumber(line, " through variants", counts.throughVariants);
    readNumber(line, " non-preemptible", counts.nonPreemptible);
    readNumber(line, " at once", counts.atOnce);
    readNumber(line, " yields", counts.yields);
    readNumber(line, " copies and fills by kernels", counts.copies);
    readNumber(line, " waits on the device", counts.waits);
  } else if (known.insert(line).second)
    std::fprintf(stderr, "%s\n", line.c_str());
}

using Ends = std::array<int, 2>;

[[noreturn]] void become(const Mode &mode, const std::vector<std::string> &arguments,
                         const Ends &writes) {
  for (const char *each :
       {"TALLY_CLASS", "TALLY_YIELD_EVERY_US", "TALLY_DISABLE", "TALLY_RUN_AHEAD_US"})
    unsetenv(each);
  setenv("TALLY_STATS", "1", 1);
  for (const auto &[name, value] : mode.environment)
    setenv(name.c_str(), value.c_str(), 1);
  dup2(writes[0], STDOUT_FILENO);
  dup2(writes[1], STDERR_FILENO);
  std::vector<std::string> words = {"stream_programs"};
  words.insert(words.end(), mode.arguments.begin(), mode.arguments.end());
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char *> list;
  for (std::string &each : words)
    list.push_back(each.data());
  list.push_back(nullptr);
  execv("/proc/self/exe", list.data());
  _exit(127);
}

} // namespace

const Mode &plainMode() {
  static const Mode mode = onEmulator() ? Mode{"plain", {{"TALLY_CLASS", "high"}}, {}}
                                        : Mode{"plain", {{"TALLY_DISABLE", "1"}}, {}};
  return mode;
}

const std::vector<Mode> &tallyModes() {
  static const std::vector<Mode> modes = {
      {"high", {{"TALLY_CLASS", "high"}}, {}},
      {"best-effort", {{"TALLY_CLASS", "best-effort"}, {"TALLY_RUN_AHEAD_US", "0"}}, {}},
      {"ahead", {{"TALLY_CLASS", "best-effort"}, {"TALLY_RUN_AHEAD_US", "200"}}, {}},
      {"storm", {{"TALLY_CLASS", "best-effort"}, {"TALLY_YIELD_EVERY_US", "50"}}, {}},
      {"coming-and-going",
       {{"TALLY_CLASS", "best-effort"},
        {"TALLY_YIELD_EVERY_US", "50"},
        {"TALLY_RUN_AHEAD_US", "5000"}},
       {}},
      {"mixed", {}, {"--priorities=mixed"}},
      {"mixed-storm", {{"TALLY_YIELD_EVERY_US", "70"}}, {"--priorities=mixed"}},
      {"classes",
       {{"TALLY_CLASS", "best-effort"}, {"TALLY_YIELD_EVERY_US", "70"}},
       {"--priorities=mixed"}},
      {"requests", {}, {"--priorities=lowest", "--requests=300"}}};
  return modes;
}

ChildResult runChild(const Mode &mode, const std::vector<std::string> &arguments, int patience,
                     const std::function<void(const std::string &)> &line) {
  Ends first{}, second{};
  if (pipe(first.data()) != 0 || pipe(second.data()) != 0)
    return {false, std::string("pipe: ") + std::strerror(errno), {}};
  pid_t child = fork();
  if (child < 0)
    return {false, std::string("fork: ") + std::strerror(errno), {}};
  if (child == 0)
    become(mode, arguments, {first[1], second[1]});
  close(first[1]);
  close(second[1]);
  Output output{first[0], {}}, errors{second[0], {}};
  bool hung = false;
  Counts counts;
  auto hear = [&](const std::string &each) { listen(each, counts); };
  for (bool open = true; open;) {
    std::array<pollfd, 2> readable = {pollfd{output.end, POLLIN, 0}, pollfd{errors.end, POLLIN, 0}};
    if (poll(readable.data(), readable.size(), patience * 1000) == 0) {
      hung = true;
      kill(child, SIGKILL);
      break;
    }
    if (readable[1].revents != 0 && !errors.take(hear) && errors.end >= 0) {
      close(errors.end);
      errors.end = -1; // poll() leaves it out then
    }
    if (readable[0].revents != 0)
      open = output.take(line);
  }
  close(output.end);
  if (errors.end >= 0) {
    while (!hung && errors.take(hear))
      ;
    close(errors.end);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (hung)
    return {false, "hung for " + std::to_string(patience) + " s", counts};
  return {status == 0, status == 0 ? "" : endingOf(status), counts};
}

} // namespace tally::programs
