// Captures the standard error of the code under test.
#ifndef TALLY_UNITTESTS_HOOKS_CAPTURED_H
#define TALLY_UNITTESTS_HOOKS_CAPTURED_H

#include <unistd.h>

#include <cstdio>
#include <string>

namespace tally::test {

/// Returns the text that `body` writes to standard error.
template <class Body> std::string captured(Body body) {
  std::FILE *file = std::tmpfile();
  int kept = dup(2);
  dup2(fileno(file), 2);
  body();
  std::fflush(stderr);
  dup2(kept, 2);
  close(kept);
  (void)std::fseek(file, 0, SEEK_SET);
  std::string text;
  for (int c; (c = std::fgetc(file)) != EOF;)
    text += static_cast<char>(c);
  std::fclose(file);
  return text;
}

inline std::size_t count(const std::string &text, const std::string &what) {
  std::size_t found = 0;
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; ++at)
    ++found;
  return found;
}

} // namespace tally::test

#endif
