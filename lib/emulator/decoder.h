// Module → Program: names resolved to rows and addresses, instructions to handlers.
#ifndef TALLY_LIB_EMULATOR_DECODER_H
#define TALLY_LIB_EMULATOR_DECODER_H

#include "memory.h"
#include "program.h"
#include "vector/select.h"
#include "warp.h"

#include "tally/ptx/ir/module.h"

#include <array>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tally::emulator {

/// What a name other than a register's stands for.
struct SymbolInfo {
  enum Kind : std::uint8_t {
    Global,          ///< value: device address (.global and .const)
    Shared,          ///< value: offset in the block's shared memory
    DynamicShared,   ///< starts behind the kernel's static shared memory
    Local,           ///< value: offset in the frame; .local, and .param of device functions
    KernelParameter, ///< value: offset in the kernel's parameters
    ModuleShared,    ///< value: index into ModuleDecoder::sharedVariables
    Code             ///< value: index of the function
  };
  Kind kind = Global;
  std::uint64_t value = 0;
  std::uint32_t elementBytes = 0; ///< of an array's scalars, which an index counts; 0 of others
};

/// See SymbolInfo.
std::uint32_t elementBytesOf(const ptx::Variable &variable);

struct SharedVariable {
  std::uint64_t bytes = 0;
  std::uint32_t alignment = 1;
  std::uint64_t fixedOffset = 0; ///< for functions that others call
};

/// The shared memory that the system reserves and cooperative groups use, PTX ISA 10.40. It is a
/// variable of modules that name its registers; of its parts `%reserved_smem_offset_<n>` the ISA
/// says nothing, so each is all of it.
inline constexpr std::string_view reservedSharedName = "%reserved_smem";
inline constexpr std::uint32_t reservedSharedBytes = 1024;

/// The device address of a function, for tables of them and indirect calls.
constexpr std::uint64_t codeAddress(std::uint64_t functionIndex) {
  return codeWindow + (functionIndex + 1) * 16;
}

/// One of the modules that are linked, and what its names stand for: those without linkage are its
/// own, the rest are the same in all modules.
struct ModuleUnit {
  const ptx::Module *module = nullptr;
  std::uint32_t textBegin = 0; ///< of its text in the program's
  std::unordered_map<std::string_view, SymbolInfo> symbols;
};

/// Decodes modules into one program, and allocates their variables in global memory. Of functions
/// and variables with `.weak` linkage the first definition counts.
class ModuleDecoder {
public:
  ModuleDecoder(std::span<const ptx::Module *const> modules, GlobalMemory &globalMemory);
  Result<std::shared_ptr<const Program>> decode();

  GlobalMemory &globalMemory;
  std::shared_ptr<Program> program = std::make_shared<Program>();
  std::vector<ModuleUnit> units;
  std::unordered_map<std::string_view, SymbolInfo> symbols; ///< those with linkage
  std::optional<SymbolInfo> symbol(const ModuleUnit &unit, std::string_view name) const;
  std::vector<SharedVariable> sharedVariables;
  std::uint64_t moduleSharedEnd = 0;

  /// The slot of a row with this value in every lane; `bytes` 2, 4, 8 or 16 of each element.
  Slot constant(std::uint64_t bits, std::uint32_t bytes);
  Slot predicateConstant(bool value);

private:
  Result<void> declareFunctions(ModuleUnit &unit);
  void layOutFunction(const ptx::Function &function, FunctionCode &code);
  Result<void> declareVariables(ModuleUnit &unit);
  Result<void> declareVariable(ModuleUnit &unit, const ptx::Variable &variable,
                               std::string_view linkage, bool isManaged);
  SymbolInfo declareShared(std::uint64_t bytes, std::uint32_t alignment);
  Result<void> resolveExternals();
  Result<void> initialiseVariables();
  Result<void> initialise(const ModuleUnit &unit, const ptx::Variable &variable);
  Result<void> decodeBodies(bool entries);
  SymbolInfo &declared(ModuleUnit &unit, std::string_view linkage, std::string_view name);

  /// By index of the function: what defines it, null while nothing does.
  std::vector<const ptx::Function *> definitions;
  /// Variables that give their memory and have linkage, and those that only name some.
  std::unordered_map<std::string_view, const ptx::Variable *> defined;
  std::vector<const ptx::Variable *> externals;

  std::map<std::pair<std::uint64_t, std::uint32_t>, Slot> constantSlots;
  std::vector<std::byte> constantBytes;
};

/// A register's row.
struct RegisterInfo {
  Slot slot = noSlot;
  std::uint32_t bytes = 0; ///< of an element; 0 for a predicate
  std::uint32_t width = 1; ///< components of a vector register
};

/// Decodes one function's body. The themes (decode_*.cpp) call the operand methods and emit(); a
/// method that cannot do what is asked records why and returns noSlot.
class FunctionDecoder {
public:
  FunctionDecoder(ModuleDecoder &owner, const ModuleUnit &unit, const ptx::Function &function,
                  std::uint32_t index);
  Result<void> decode();

  // Operands. `type` gives the size that the op reads or writes; a register of another size goes
  // through a converted copy.
  Slot source(const ptx::Operand &operand, Type type);
  Slot destination(const ptx::Operand &operand, Type type);
  Slot predicateSource(const ptx::Operand &operand, bool &negated);
  /// noSlot for a sink, and for a failure (then failed()).
  Slot predicateDestination(const ptx::Operand &operand);
  /// Sets slot 4, addressSize and immediate of the op to come.
  void address(const ptx::Operand &operand, Op &op);
  /// The address that a symbol stands for; a runtime one is emitted into a temporary.
  Slot symbolAddress(const ptx::Operand &operand, std::uint32_t bytes);
  /// Of an array's element whose index is a register, `array[%r1+2]`: PTX ISA 6.4.2. noSlot for
  /// every other operand, without a failure.
  Slot elementAddress(const ptx::Operand &operand);

  Slot temporary(std::uint32_t bytes);
  Slot temporaryPredicate();
  /// The predicate that stands for the carry flag CC.CF.
  Slot carryFlag();
  Slot constant(std::uint64_t bits, std::uint32_t bytes) { return owner.constant(bits, bytes); }
  const RegisterInfo *registerOf(const ptx::Operand &operand) const;
  std::optional<SymbolInfo> symbol(std::string_view name) const;

  /// Appends the op, with the current instruction's guard and place.
  Op &emit(const Op &op);
  Op &emit(Handler handler, std::initializer_list<Slot> slots);
  /// Records that the current instruction cannot be decoded; it will fault when reached.
  bool fail(std::string why);
  bool failed() const { return !failure.empty(); }

  /// Labels of the current scope.
  void branchTo(std::string_view label, std::uint32_t opIndex);
  std::uint32_t branchTable(std::string_view label);

  ModuleDecoder &owner;
  const ModuleUnit &unit;
  const ptx::Function &function;
  std::uint32_t functionNumber;
  const ptx::Instruction *instruction = nullptr;

  Program &program() { return *owner.program; }
  FunctionCode &code() { return owner.program->functions[functionNumber]; }

private:
  struct Scope {
    std::uint32_t parent = 0;
    std::unordered_map<std::string_view, std::uint32_t> labels;
    std::unordered_map<std::string_view, std::vector<std::string_view>> targets;
    std::unordered_map<std::string_view, SymbolInfo> symbols;
  };
  struct Fixup {
    std::uint32_t op = 0, scope = 0;
    std::string_view label;
  };
  struct TableFixup {
    std::uint32_t table = 0, scope = 0;
    std::string_view label;
  };

  void layOutRegisters();
  Slot rowOf(std::uint32_t bytes, std::uint32_t count = 1);
  void declareFormals();
  void declare(const ptx::Variable &variable);
  void decodeStatement(const ptx::Statement &statement);
  void decodeInstruction(const ptx::Statement &statement);
  Result<void> resolveLabels();
  const std::uint32_t *findLabel(std::uint32_t scope, std::string_view label) const;
  std::uint32_t sharedOffset(std::uint64_t variable);
  Slot converted(Slot from, std::uint32_t fromBytes, std::uint32_t toBytes, bool isSignedValue);
  Slot immediate(const ptx::Operand &operand, Type type);
  Slot specialRegister(const ptx::Operand &operand, Type type);

  std::vector<RegisterInfo> registers;
  std::uint32_t frameBytes = 0;
  Slot carry = noSlot;
  std::uint64_t localBytes = 0, sharedBytes = 0;
  bool callsOthers = false;
  std::vector<Scope> scopes;
  std::uint32_t scope = 0;
  std::vector<Fixup> fixups;
  std::vector<TableFixup> tableFixups;
  std::uint32_t sourceIndex = 0;
  Slot guard = noSlot;
  bool guardNegated = false;
  std::string failure;
  std::vector<Op> after; ///< to be emitted behind the current instruction's op
  std::unordered_map<std::uint64_t, std::uint64_t> ownShared;
};

// The themes. Each returns whether it knows the instruction; what it knows but cannot decode it
// fails. In decode_<theme>.cpp.
bool decodeInteger(FunctionDecoder &decoder, const ptx::Instruction &instruction);
bool decodeFloat(FunctionDecoder &decoder, const ptx::Instruction &instruction);
bool decodeHalf(FunctionDecoder &decoder, const ptx::Instruction &instruction);
bool decodeCompare(FunctionDecoder &decoder, const ptx::Instruction &instruction);
bool decodeMove(FunctionDecoder &decoder, const ptx::Instruction &instruction);
bool decodeConvert(FunctionDecoder &decoder, const ptx::Instruction &instruction);
bool decodeMemory(FunctionDecoder &decoder, const ptx::Instruction &instruction);
bool decodeAtomic(FunctionDecoder &decoder, const ptx::Instruction &instruction);
bool decodeWarpOp(FunctionDecoder &decoder, const ptx::Instruction &instruction);
bool decodeBarrier(FunctionDecoder &decoder, const ptx::Instruction &instruction);
bool decodeControl(FunctionDecoder &decoder, const ptx::Instruction &instruction);
bool decodeMbarrier(FunctionDecoder &decoder, const ptx::Instruction &instruction);
bool decodeCluster(FunctionDecoder &decoder, const ptx::Instruction &instruction);
bool decodeBulkCopy(FunctionDecoder &decoder, const ptx::Instruction &instruction);
bool decodeMatrix(FunctionDecoder &decoder, const ptx::Instruction &instruction);
/// Integer arithmetic on u16x2 and s16x2, which is `type`.
bool decodePairs(FunctionDecoder &decoder, const ptx::Instruction &instruction, Type type);
/// The forms of cvt that decodeConvert leaves.
bool decodePackedConvert(FunctionDecoder &decoder, const ptx::Instruction &instruction);
bool decodeVideo(FunctionDecoder &decoder, const ptx::Instruction &instruction);
bool decodeTexture(FunctionDecoder &decoder, const ptx::Instruction &instruction);

/// Emits a wait for all live lanes of the warp, which go on together: what comes before an
/// `.aligned` operation on a whole warp.
void emitWholeWarp(FunctionDecoder &decoder);

/// The last modifier that names a type, and the one before it (of cvt, set, …).
Type lastType(const ptx::Instruction &instruction);
Type typeBeforeLast(const ptx::Instruction &instruction);
/// The space that the modifiers name; Generic without one. `.shared` is `.shared::cta`.
Space spaceOf(const ptx::Instruction &instruction);

} // namespace tally::emulator

#endif
