// Runs ptxas and reads its report on each entry.
#ifndef TALLY_TOOLS_PTXOPT_ASSEMBLE_H
#define TALLY_TOOLS_PTXOPT_ASSEMBLE_H

#include "memory_budget.h"

#include "tally/support/result.h"

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tally::ptxopt {

/// Resources of one entry's machine code, from `ptxas -v`. Bytes per thread or block.
struct EntryUsage {
  std::uint32_t registers = 0;
  std::uint32_t spillBytes = 0; ///< stores and loads together
  std::uint32_t sharedBytes = 0;
};

struct Assembled {
  std::string cubin;
  std::map<std::string, EntryUsage, std::less<>> entries;
};

/// Target of machine code: sm_90, or sm_90a, whose code runs on nothing else.
struct Architecture {
  std::uint32_t number = 0; ///< 90
  std::string suffix;       ///< "", "a" or "f"

  std::string name() const { return "sm_" + std::to_string(number) + suffix; }
  friend auto operator<=>(const Architecture &, const Architecture &) = default;
};

/// Target of the assembly of a module.
struct AssemblyTarget {
  Architecture arch;
  std::vector<std::string> options; ///< ptxas's, without -arch
};

/// One run of ptxas.
struct AssembleRequest {
  std::string ptx;
  AssemblyTarget target;
};

class AssemblyCache;

/// ptxas and the cache of its earlier results. Thread-safe.
class Assembler {
public:
  /// `threads`: threads of one run of ptxas; the code does not depend on them. Concurrent runs
  /// share half of the memory that is free now, with each run's share estimated from the size of
  /// its text.
  Assembler(std::string ptxas, std::shared_ptr<AssemblyCache> cache, unsigned threads)
      : ptxas(std::move(ptxas)), cache(std::move(cache)), threads(threads),
        memory(std::make_unique<MemoryBudget>(availableMemory() / 2)) {}

  /// An Error holds ptxas's own message.
  Result<Assembled> assemble(const AssembleRequest &request) const;

private:
  Result<Assembled> run(const AssembleRequest &request) const;

  std::string ptxas;
  std::shared_ptr<AssemblyCache> cache; ///< null without one
  unsigned threads;
  std::unique_ptr<MemoryBudget> memory;
};

/// Parses the usage lines of `ptxas -v`.
std::map<std::string, EntryUsage, std::less<>> parseUsage(std::string_view output);

} // namespace tally::ptxopt

#endif
