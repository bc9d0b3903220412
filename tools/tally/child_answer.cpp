#include "child_answer.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tally::launcher {

namespace {

[[noreturn]] void beChild(const std::function<int()> &work, int output) {
  int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
  dup2(nowhere, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(nowhere, STDERR_FILENO);
  _exit(work());
}

/// Appends the input to `text` up to its end; false where no input came for `limit`.
bool readAll(int input, std::string &text, std::chrono::milliseconds limit) {
  for (;;) {
    pollfd ready{input, POLLIN, 0};
    int count = poll(&ready, 1, static_cast<int>(limit.count()));
    if (count == 0)
      return false;
    char buffer[4096];
    ssize_t got = count < 0 ? -1 : read(input, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      return true;
    text.append(buffer, static_cast<std::size_t>(got));
  }
}

} // namespace

ChildAnswer askChild(const std::function<int()> &work, std::chrono::milliseconds limit) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return {"", std::string("no pipe: ") + std::strerror(errno)};
  std::signal(SIGCHLD, SIG_DFL); // if SIGCHLD were ignored, the status would be lost
  std::fflush(stdout);           // the child would write the buffered output once more
  pid_t child = fork();
  if (child == 0)
    beChild(work, ends[1]);
  close(ends[1]);
  ChildAnswer answer;
  if (child < 0) {
    answer.fault = std::string("no process: ") + std::strerror(errno);
  } else {
    bool inTime = readAll(ends[0], answer.text, limit);
    if (!inTime)
      kill(child, SIGKILL);
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
      continue;
    if (!inTime)
      answer.fault = "no answer within " + std::to_string(limit.count() / 1000) + " s";
    else if (WIFSIGNALED(status))
      answer.fault = "ended by signal " + std::to_string(WTERMSIG(status)) + " (" +
                     strsignal(WTERMSIG(status)) + ")";
    else if (WEXITSTATUS(status) != 0)
      answer.fault = "ended with status " + std::to_string(WEXITSTATUS(status));
  }
  close(ends[0]);
  return answer;
}

} // namespace tally::launcher
