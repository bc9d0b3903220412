// tally-top: shows the activity of the processes that share a GPU, live.
#include "options.h"
#include "watch.h"

#include <cstdio>
#include <vector>

namespace {

using namespace tally;

int fail(const std::string &message) {
  std::fprintf(stderr, "tally-top: error: %s\n", message.c_str());
  return 1;
}

} // namespace

int main(int count, char **arguments) {
  std::vector<std::string_view> words(arguments + 1, arguments + count);
  Result<top::Options> options = top::parseOptions(words);
  if (!options)
    return fail(options.error().message);
  if (options->help)
    return top::writeOut(top::helpText) ? 0 : 1;
  if (options->version)
    return top::writeOut("tally-top " TALLY_VERSION "\n") ? 0 : 1;
  Result<void> done = top::watch(*options);
  return done ? 0 : fail(done.error().message);
}
