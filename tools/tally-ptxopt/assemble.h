// Running ptxas, and what it says of each entry.
#ifndef TALLY_TOOLS_PTXOPT_ASSEMBLE_H
#define TALLY_TOOLS_PTXOPT_ASSEMBLE_H

#include "tally/support/result.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

namespace tally::ptxopt {

/// What machine code of one entry needs, from `ptxas -v`. Bytes per thread or block.
struct EntryUsage {
  std::uint32_t registers = 0;
  std::uint32_t spillBytes = 0; ///< stores and loads together
  std::uint32_t sharedBytes = 0;
};

struct Assembled {
  std::string cubin;
  std::map<std::string, EntryUsage, std::less<>> entries;
};

/// One run of ptxas.
struct AssembleRequest {
  std::string ptx;
  std::string arch;   ///< "sm_90", "sm_90a"
  bool debug = false; ///< with -g: the module's target says so
};

class AssemblyCache;

/// ptxas, and what it gave before. Thread-safe.
class Assembler {
public:
  /// `threads`: of one run of ptxas; it makes the same code with any number.
  Assembler(std::string ptxas, std::shared_ptr<AssemblyCache> cache, unsigned threads)
      : ptxas(std::move(ptxas)), cache(std::move(cache)), threads(threads) {}

  /// An Error holds ptxas's own message.
  Result<Assembled> assemble(const AssembleRequest &request) const;

private:
  Result<Assembled> run(const AssembleRequest &request) const;

  std::string ptxas;
  std::shared_ptr<AssemblyCache> cache; ///< null without one
  unsigned threads;
};

/// The usage lines of `ptxas -v`.
std::map<std::string, EntryUsage, std::less<>> parseUsage(std::string_view output);

} // namespace tally::ptxopt

#endif
