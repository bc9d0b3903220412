// Sets an environment variable for the duration of a test.
#ifndef TALLY_UNITTESTS_SUPPORT_VARIABLE_H
#define TALLY_UNITTESTS_SUPPORT_VARIABLE_H

#include <cstdlib>
#include <string>

namespace tally::test {

struct Variable {
  Variable(const char *name, const std::string &value) : name(name) {
    setenv(name, value.c_str(), 1);
  }
  ~Variable() { unsetenv(name); }
  Variable(const Variable &) = delete;
  Variable &operator=(const Variable &) = delete;

  const char *name;
};

} // namespace tally::test

#endif
