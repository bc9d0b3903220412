// The wrapper of the container, in the form of nvcc's host code.
#include <cstdint>

extern "C" const char testContainer[];

struct Wrapper {
  std::uint32_t magic, version;
  const void *container;
  const void *prelinked;
};

extern "C" {
extern Wrapper testWrapper;
Wrapper testWrapper = {0x466243b1, 1, testContainer, nullptr};
}
