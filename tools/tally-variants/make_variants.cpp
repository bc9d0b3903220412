// make-variants KEY FILE: makes variants for the image with that key, from the PTX in FILE or from
// the container with PTX in FILE, and removes FILE. make-variants --caches: makes variants of the
// kernels in Triton's caches. The preloaded library starts this program and does not wait: the work
// goes on in a separate process.
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
  making->assemblers = variants::ptxasOfTriton(); // while the parent still runs
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
