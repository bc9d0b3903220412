// Processes that a test starts, and their state in the arena.
#ifndef TALLY_UNITTESTS_RUNTIME_ARENA_CHILDREN_H
#define TALLY_UNITTESTS_RUNTIME_ARENA_CHILDREN_H

#include "arena_folder.h"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <fcntl.h>

#include <optional>
#include <poll.h>
#include <spawn.h>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

extern char **environ;

namespace tally::runtime {

/// A test waits this long only when something is stuck, even on a loaded machine.
constexpr std::chrono::seconds progressDeadline{20};

template <class Condition>
bool within(const Condition &condition, Nanoseconds limit = progressDeadline) {
  auto end = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end)
      return false;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return true;
}

/// A running program; the destructor kills it if it still runs.
class Child {
public:
  explicit Child(std::vector<std::string> words) {
    int input[2], output[2];
    if (pipe2(input, O_CLOEXEC) != 0 || pipe2(output, O_CLOEXEC) != 0)
      return;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, input[0], 0);
    posix_spawn_file_actions_adddup2(&actions, output[1], 1);
    std::vector<char *> arguments;
    for (std::string &word : words)
      arguments.push_back(word.data());
    arguments.push_back(nullptr);
    if (posix_spawnp(&pid, arguments[0], &actions, nullptr, arguments.data(), environ) != 0)
      pid = 0;
    posix_spawn_file_actions_destroy(&actions);
    close(input[0]);
    close(output[1]);
    toChild = input[1];
    fromChild = output[0];
  }
  ~Child() {
    kill();
    close(toChild);
    close(fromChild);
  }
  Child(const Child &) = delete;
  Child &operator=(const Child &) = delete;

  /// Sends SIGKILL and waits until the process is gone.
  void kill() {
    if (pid == 0)
      return;
    ::kill(pid, SIGKILL);
    waitpid(std::exchange(pid, 0), nullptr, 0);
  }
  /// Closes the process's input. Returns its exit status, or nothing where it does not exit by
  /// itself.
  std::optional<int> finish() {
    close(std::exchange(toChild, -1));
    int status = 0;
    bool gone = within([&] { return waitpid(pid, &status, WNOHANG) == pid; });
    if (gone)
      pid = 0;
    return gone && WIFEXITED(status) ? std::optional(WEXITSTATUS(status)) : std::nullopt;
  }
  pid_t id() const { return pid; }
  void send(int signal) const { ::kill(pid, signal); }
  /// Returns the signal that ended the process; nothing where no signal did.
  std::optional<int> endingSignal() {
    int status = 0;
    bool gone = within([&] { return waitpid(pid, &status, WNOHANG) == pid; });
    if (gone)
      pid = 0;
    return gone && WIFSIGNALED(status) ? std::optional(WTERMSIG(status)) : std::nullopt;
  }
  bool hasEnded() const {
    siginfo_t seen{};
    return pid == 0 ||
           (waitid(P_PID, static_cast<id_t>(pid), &seen, WEXITED | WNOHANG | WNOWAIT) == 0 &&
            seen.si_pid == pid);
  }
  /// To its input.
  void say(const std::string &text) const {
    if (write(toChild, text.data(), text.size()) < 0)
      std::perror("write to a child");
  }
  /// Returns a line of the process's output; empty at the end of the output, and where no line
  /// comes.
  std::string line() const {
    constexpr auto limit = static_cast<int>(std::chrono::milliseconds(progressDeadline).count());
    std::string text;
    char letter = 0;
    for (pollfd output{fromChild, POLLIN, 0};
         poll(&output, 1, limit) == 1 && read(fromChild, &letter, 1) == 1 && letter != '\n';)
      text += letter;
    return text;
  }

private:
  pid_t pid = 0;
  int toChild = -1, fromChild = -1;
};

/// Finds the slot of a living process by the process's name.
inline std::optional<ArenaSlotView> find(const Arena &arena, const std::string &name) {
  for (ArenaSlotView &each : arena.view())
    if (each.isHeld && each.name == name)
      return std::move(each);
  return std::nullopt;
}

/// Returns a counter of the slot of a living process in this PID namespace; 0 where it has no slot.
inline std::uint64_t counterOf(const Arena &arena, pid_t pid, ArenaCounter which) {
  for (const ArenaSlotView &each : arena.view())
    if (each.isHeld && each.pid == static_cast<std::uint32_t>(pid))
      return each.statistics[static_cast<std::size_t>(which)];
  return 0;
}

inline std::uint64_t counter(const Arena &arena, const std::string &name, ArenaCounter which) {
  auto slot = find(arena, name);
  return slot ? slot->statistics[static_cast<std::size_t>(which)] : 0;
}

} // namespace tally::runtime

#endif
