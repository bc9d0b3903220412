// Counts the memory that the process has allocated by operator new and not freed, so that a test
// can see growth. For programs that are linked with counted_allocations.cpp.
#ifndef TALLY_UNITTESTS_RUNTIME_COUNTED_ALLOCATIONS_H
#define TALLY_UNITTESTS_RUNTIME_COUNTED_ALLOCATIONS_H

#include <atomic>
#include <cstdint>

namespace tally::runtime {

struct Allocations {
  static std::atomic<std::int64_t> blocks, bytes;
};

} // namespace tally::runtime

#endif
