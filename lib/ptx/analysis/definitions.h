// Where registers are assigned, in a whole function or in one loop of it.
#ifndef TALLY_LIB_PTX_ANALYSIS_DEFINITIONS_H
#define TALLY_LIB_PTX_ANALYSIS_DEFINITIONS_H

#include "loops.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"

#include <string_view>

namespace tally::ptx {

/// All assignments of each register. Compilers assign most registers once. This class does not know
/// which of several assignments reaches a use, so its users have to allow for all of them.
class Definitions {
public:
  explicit Definitions(const Cfg &cfg);
  Definitions(const Cfg &cfg, const Loop &loop);

  /// Statements that assign `reg`, in source order.
  llvm::ArrayRef<std::uint32_t> of(RegisterId reg) const;
  bool contains(RegisterId reg) const { return !of(reg).empty(); }

private:
  void add(const Cfg &cfg, const CfgBlock &block);

  llvm::DenseMap<RegisterId, llvm::SmallVector<std::uint32_t, 2>> statements;
};

/// Returns the register copied by an unguarded `mov` or `cvta` of one register, else noRegister.
RegisterId copiedRegister(const Instruction &instruction);

/// Whether the type is an integer type of 32 or 64 bits.
inline bool isWord(std::string_view type) {
  return type.size() == 3 && type.front() != 'f' && (type.ends_with("32") || type.ends_with("64"));
}

/// Whether `operand` is %ctaid of `dimension` (0 x, 1 y, 2 z), or a register whose only assignment
/// is a copy of it.
bool isBlockIndex(const Cfg &cfg, const Definitions &definitions, const Operand &operand,
                  unsigned dimension);

} // namespace tally::ptx

#endif
