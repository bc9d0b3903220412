// The streams and memory of driver_work.cpp, and the model on the host that computes the expected
// results.
#ifndef TALLY_TEST_PRELOAD_PROGRAMS_LANES_H
#define TALLY_TEST_PRELOAD_PROGRAMS_LANES_H

#include "found_driver.h"

#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <vector>

inline constexpr unsigned count = 2048, block = 256, chunk = 64, allLaunches = 400,
                          launchesOfThread = 50, flagWords = 1024;
using Words = std::vector<std::uint32_t>;

[[noreturn]] inline void fail(const char *what) {
  std::fprintf(stderr, "%s\n", what);
  std::exit(1);
}

class Random {
public:
  explicit Random(std::uint64_t seed) : state(seed) {}
  unsigned below(unsigned end) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<unsigned>(state >> 33) % end;
  }

private:
  std::uint64_t state;
};

/// Values that host functions have written, in the order of a stream.
struct Order {
  std::uint32_t done = 1, model = 1;
  struct Note {
    Order *order;
    std::uint32_t value;
  };
  std::deque<Note> notes; ///< elements stay where they are

  static void run(void *data) {
    auto *note = static_cast<Note *>(data);
    note->order->done = note->order->done * 33 + note->value;
  }
  /// A note for run(); the model has already computed it.
  Note *add(std::uint32_t value) {
    model = model * 33 + value;
    return &notes.emplace_back(Note{this, value});
  }
};

/// A stream, and the memory that its work uses.
struct Lane {
  CUstream stream = nullptr;
  CUdeviceptr data = 0, scratch = 0;
  Words model = Words(count, 0), scratchModel = Words(count, 0);
  Order order;
  CUgraphExec graph = nullptr;
};

/// A copy to pinned memory, and the expected contents.
struct Answer {
  const std::uint32_t *pinned;
  Words model;
};

inline void mixModel(Words &data, unsigned seed, unsigned rounds) {
  for (unsigned i = 0; i < count; ++i)
    for (unsigned round = 0; round < rounds; ++round)
      data[i] = data[i] * 1664525u + seed + i;
}

inline void combineModel(Words &to, const Words &from) {
  for (unsigned i = 0; i < count; ++i)
    to[i] = to[i] * 31u + from[i];
}

struct Kernels {
  CUmodule module = nullptr;
  CUlibrary library = nullptr;
  CUfunction mix = nullptr, combine = nullptr, addTable = nullptr;
  Words table = Words(64, 0);

  Kernels() {
    // The program frees the images after it has loaded them.
    auto text = std::make_unique<std::string>(imageOf(".ptx"));
    MUST(cuModuleLoadData(&module, text->c_str()));
    std::memset(text->data(), 'x', text->size());
    text.reset();
    MUST(cuModuleGetFunction(&mix, module, "mix"));
    MUST(cuModuleGetFunction(&addTable, module, "addTable"));
    auto fatbin = std::make_unique<std::string>(imageOf(".fatbin"));
    MUST(cuLibraryLoadData(&library, fatbin->c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0));
    fatbin.reset();
    CUkernel kernel = nullptr;
    MUST(cuLibraryGetKernel(&kernel, library, "combine"));
    MUST(cuKernelGetFunction(&combine, kernel));
    CUdeviceptr symbol = 0;
    std::size_t bytes = 0;
    MUST(cuModuleGetGlobal(&symbol, &bytes, module, "table"));
    for (unsigned i = 0; i < table.size(); ++i)
      table[i] = i * i + 7;
    MUST(cuMemcpyHtoD(symbol, table.data(), bytes));
  }
};

class Digest {
public:
  /// Counts where the two differ.
  void add(const std::uint32_t *words, const Words &model) {
    for (std::size_t i = 0; i < model.size(); ++i) {
      hash = (hash ^ words[i]) * 1099511628211u;
      isWrong += words[i] != model[i];
      ++number;
    }
  }
  std::uint64_t hash = 14695981039346656037u;
  std::size_t isWrong = 0, number = 0;
};

#endif
