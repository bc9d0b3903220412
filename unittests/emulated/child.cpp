#include "program.h"

#include <cstdio>
#include <sys/wait.h>
#include <unistd.h>

namespace tally::hooks {

namespace {
std::string contents(std::FILE *file) {
  (void)std::fseek(file, 0, SEEK_SET);
  std::string text;
  for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file))
    text += static_cast<char>(c);
  std::fclose(file);
  return text;
}
} // namespace

Outcome inChild(const std::function<void()> &scenario) {
  std::FILE *errors = std::tmpfile(), *output = std::tmpfile();
  REQUIRE(errors);
  REQUIRE(output);
  std::fflush(nullptr);
  pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    dup2(fileno(errors), STDERR_FILENO);
    dup2(fileno(output), STDOUT_FILENO);
    scenario();
    std::fflush(nullptr);
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  Outcome outcome{contents(errors), contents(output)};
  INFO(outcome.errors);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  return outcome;
}

/// CHECK in a child counts nothing here, so a child ends with an error instead.
void demand(bool holds, const char *what) {
  if (holds)
    return;
  std::fprintf(stderr, "not so: %s\n", what);
  std::fflush(nullptr);
  _exit(1);
}

} // namespace tally::hooks
