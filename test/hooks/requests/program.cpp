// The same in C++.
#include "tally/request.h"

#include <cstdio>
#include <type_traits>
#include <utility>

extern "C" int requestOfLibrary(struct CUstream_st *stream);

static_assert(!std::is_copy_constructible<tally::RequestScope>::value, "an end belongs to a begin");

int main() {
  struct CUstream_st *stream = nullptr;
  tally::RequestScope request(stream, "decode", std::chrono::milliseconds(20));
  tally::RequestScope moved(std::move(request));
  request = std::move(moved);
  if (request.status() != 0 || request.get() != 0 || request.add(nullptr) != 0 ||
      request.end() != 0 || requestOfLibrary(nullptr) != 2000)
    return 1;
  std::puts("nothing was done");
}
