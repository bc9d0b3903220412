// About how long a warp takes for an instruction, among others on its scheduler.
#ifndef TALLY_LIB_PTX_ANALYSIS_INSTRUCTION_COST_H
#define TALLY_LIB_PTX_ANALYSIS_INSTRUCTION_COST_H

#include "tally/ptx/analysis/cfg.h"
#include "tally/ptx/analysis/uniformity.h"

#include <cstdint>

namespace tally::ptx {

/// A scheduler of an SM has 16 warps; this many of them are taken to be busy where there is room.
constexpr unsigned usualWarps = 8;

/// Cycles, with `usualWarps` busy; 0 of what is no machine instruction.
std::uint64_t cyclesOf(const Instruction &instruction);

/// The same of whole blocks, of a kernel of which more is known: how many warps of it are busy, at
/// most `usualWarps`, and which addresses are the same for all threads.
class BlockCosts {
public:
  BlockCosts(const Cfg &cfg, unsigned warps, const Uniformity &uniformity)
      : cfg(cfg), warps(warps), uniformity(uniformity) {}

  std::uint64_t of(const CfgBlock &block) const;

private:
  bool isUniform(const Operand &base) const;

  const Cfg &cfg;
  unsigned warps;
  const Uniformity &uniformity;
};

} // namespace tally::ptx

#endif
