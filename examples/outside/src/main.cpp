// outside [--size=N] [--only=PART]: runs the parts of the program; exit status 1 if a result is
// wrong.
#include "parts.h"

#include <cstring>

namespace {

struct Part {
  const char *name;
  bool (*run)(int size);
};

const Part parts[] = {
    {"heat", runHeat},
    {"filters", runFilters},
    {"statistics", runStatistics},
#ifdef OUTSIDE_BODIES
    {"bodies", runBodies},
#endif
    {"two-streams", runTwoStreams},
#ifdef OUTSIDE_CUBLAS
    {"gemm", runGemm},
#endif
};

int usage() {
  std::fprintf(stderr,
               "usage: outside [--size=N] [--only=PART]\nN: at least 32 (default 2048)\nPART:");
  for (const Part &part : parts)
    std::fprintf(stderr, " %s", part.name);
  std::fprintf(stderr, "\n");
  return 2;
}

} // namespace

int main(int argc, char **argv) {
  int size = 2048;
  const char *only = nullptr;
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], "--size=", 7) == 0)
      size = std::atoi(argv[i] + 7);
    else if (std::strncmp(argv[i], "--only=", 7) == 0)
      only = argv[i] + 7;
    else
      return usage();
  }
  if (size < 32 || size > 16384)
    return usage();

  bool right = true, found = false;
  for (const Part &part : parts) {
    if (only && std::strcmp(only, part.name) != 0)
      continue;
    found = true;
    right &= part.run(size);
  }
  if (!found)
    return usage();
  return right ? 0 : 1;
}
