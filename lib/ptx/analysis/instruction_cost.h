// Estimates how long a warp takes for an instruction, among other warps on its scheduler.
#ifndef TALLY_LIB_PTX_ANALYSIS_INSTRUCTION_COST_H
#define TALLY_LIB_PTX_ANALYSIS_INSTRUCTION_COST_H

#include "tally/ptx/analysis/cfg.h"
#include "tally/ptx/analysis/uniformity.h"

#include <cstdint>

namespace tally::ptx {

/// A scheduler of an SM has 16 warps. The estimate takes this many as busy where registers allow.
constexpr unsigned usualWarps = 8;

/// Cycles with `usualWarps` busy; 0 for a statement that is no machine instruction.
std::uint64_t cyclesOf(const Instruction &instruction);

/// The same for whole blocks of a known kernel: with its number of busy warps, at most
/// `usualWarps`, and with the addresses that are the same for all threads.
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
