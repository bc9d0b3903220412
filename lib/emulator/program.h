// A decoded module.
#ifndef TALLY_LIB_EMULATOR_PROGRAM_H
#define TALLY_LIB_EMULATOR_PROGRAM_H

#include "matrix.h"
#include "memory.h"
#include "op.h"
#include "types.h"

#include "tally/emulator/machine.h"

#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tally::emulator {

/// Position in the module's text of the instruction that an op came from.
struct SourceReference {
  std::uint32_t offset = 0, length = 0, line = 0;
};

/// A parameter or result of a device function: in the callee's local frame, or, for the old
/// `.reg` form, in a register row.
struct FormalParameter {
  bool inRegister = false;
  std::uint32_t offset = 0; ///< in the local frame, or the row's slot
  std::uint32_t bytes = 0;  ///< in memory; for a register its row's element size
  std::uint32_t width = 1;  ///< rows of a vector register, one for each component
  bool isPredicate = false;
};

/// Position of a parameter of an entry in its parameter space.
struct ParameterPlace {
  std::uint32_t offset = 0, bytes = 0;
};

/// Properties of a function besides its code.
struct FunctionCode {
  std::string name;
  bool isEntry = false, hasBody = false;
  std::uint32_t entryPc = 0;
  std::uint32_t frameBytes = 0; ///< bytes of the register rows, a multiple of 64
  /// Rows of registers that do not begin as 0 in a block, (offset, bytes): the variants' own
  /// registers, which no code may read before it writes them.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> unwrittenRows;
  std::uint32_t frameStart = 0; ///< for a device function: offset of its frame in a level of calls
  std::uint32_t localBytes = 0; ///< bytes of .local and .param variables per thread
  std::uint32_t parameterBytes = 0;
  std::vector<ParameterPlace> entryParameters; ///< for an entry
  std::uint32_t staticSharedBytes = 0;
  std::uint32_t maxThreads = 1024;
  Dim3 requiredBlock{0, 0, 0};   ///< .reqntid; zeros when absent
  Dim3 requiredCluster{0, 0, 0}; ///< .reqnctapercluster; zeros when absent
  /// Limit on blocks of a cluster: .maxclusterrank, else the limit of the largest device (CUDA C++
  /// Programming Guide, "Thread Block Clusters").
  std::uint32_t maxClusterRank = 16;
  bool demandsExplicitCluster = false; ///< .explicitcluster
  std::vector<FormalParameter> parameters, results;
};

/// A variable of the module, for the host.
struct VariableInfo {
  std::uint64_t address = 0, bytes = 0;
  bool isConstant = false, isManaged = false;
};

/// A buffer of rows, aligned for vector instructions.
class RowBuffer {
public:
  std::byte *data() { return bytes.get(); }
  const std::byte *data() const { return bytes.get(); }
  std::size_t size() const { return length; }
  /// Keeps the contents; new bytes are zero.
  void grow(std::size_t newLength) {
    if (newLength <= length)
      return;
    Owner larger(static_cast<std::byte *>(::operator new(newLength, std::align_val_t{64})));
    if (length)
      std::memcpy(larger.get(), bytes.get(), length);
    std::memset(larger.get() + length, 0, newLength - length);
    bytes = std::move(larger);
    length = newLength;
  }

private:
  struct Release {
    void operator()(std::byte *memory) const { ::operator delete(memory, std::align_val_t{64}); }
  };
  using Owner = std::unique_ptr<std::byte, Release>;
  Owner bytes;
  std::size_t length = 0;
};

/// The return positions of lanes: three 32-bit rows before the callee's registers.
struct SavedRow {
  std::uint32_t pc[32], site[32], function[32];
};

/// Data of a call besides its op: the callee and the places of its arguments.
struct CallArgument {
  bool inRegister = false;
  std::uint32_t offset = 0; ///< local frame offset of the caller's .param, or a slot
  std::uint32_t bytes = 0;  ///< for a register its row's element size
  std::uint32_t width = 1;  ///< as in FormalParameter
  std::uint32_t single = 0; ///< for a double literal: the slot of its float value, for 4 bytes
};
struct CallSite {
  std::uint32_t function = ~0u; ///< index of the callee; ~0 for an indirect call
  std::vector<CallArgument> arguments, results;
};

class Program {
public:
  std::vector<Op> code;
  std::vector<SourceReference> sources;
  std::string text; ///< the module's text, for messages
  RowBuffer constants;
  std::vector<FunctionCode> functions;
  /// Register rows of one level of calls. Each device function has its own place in it: lanes of a
  /// warp may be in different functions at the same time, with different row layouts.
  std::uint32_t levelBytes = 0;
  std::map<std::string, std::uint32_t, std::less<>> functionIndex;
  std::vector<CallSite> calls;
  std::vector<std::vector<std::uint32_t>> branchTables; ///< targets of brx.idx
  std::vector<MatrixProduct> products;                  ///< products of mma and wmma.mma
  std::vector<MatrixAccess> matrixAccesses;             ///< accesses of wmma.load and wmma.store
  std::vector<std::string> unimplemented; ///< the reason, by Op::extra; empty: an unknown opcode
  std::vector<std::uint64_t> ownedMemory; ///< module-scope variables, in the loading machine
  std::vector<Segment> constSegments;     ///< the ranges of .const variables
  std::map<std::string, VariableInfo, std::less<>> variables;

  std::string_view textOf(const Op &op) const {
    const SourceReference &source = sources[op.sourceIndex];
    return std::string_view(text).substr(source.offset, source.length);
  }
  std::uint32_t lineOf(const Op &op) const { return sources[op.sourceIndex].line; }
};

} // namespace tally::emulator

#endif
