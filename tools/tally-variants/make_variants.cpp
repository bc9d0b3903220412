// make-variants KEY FILE: variants of the PTX, or of the container with such, in FILE, which is
// removed, for the image with that key. make-variants --caches: of what Triton's caches hold.
// Started by the preloaded library, which does not wait: the work goes on in a process of its own.
#include "maker.h"
#include "triton.h"

#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <optional>
#include <unistd.h>

using namespace tally;

namespace {

int fail(const std::string &message) {
  std::fprintf(stderr, "make-variants: error: %s\n", message.c_str());
  return 1;
}

} // namespace

int main(int count, char **words) {
  bool ofCaches = count == 2 && std::strcmp(words[1], "--caches") == 0;
  if (!ofCaches && count != 3)
    return fail("usage: make-variants KEY FILE, or make-variants --caches");
  Result<variants::Making> making = variants::findPlaces();
  if (!making)
    return fail(making.error().message);
  making->assemblers = variants::ptxasOfTriton(); // while the parent is there
  if (fork() != 0)
    return 0;
  setsid();
  static_cast<void>(nice(10));
  if (ofCaches) {
    for (const std::filesystem::path &each : variants::tritonCaches())
      variants::makeVariantsOfCache(*making, each);
    return 0;
  }
  std::optional<std::string> source = variants::readFile(words[2]);
  unlink(words[2]);
  if (!source)
    return fail(std::string(words[2]) + " cannot be read");
  Result<bool> made = variants::makeVariants(*making, words[1], *source);
  if (!made)
    return fail(made.error().message);
  return *made ? 0 : 1;
}
