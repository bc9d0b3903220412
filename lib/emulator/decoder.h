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

/// The meaning of a name that is no register.
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
  std::uint32_t elementBytes = 0; ///< bytes of an array's scalar, the unit of its index; else 0
};

/// See SymbolInfo.
std::uint32_t elementBytesOf(const ptx::Variable &variable);

struct SharedVariable {
  std::uint64_t bytes = 0;
  std::uint32_t alignment = 1;
  std::uint64_t fixedOffset = 0; ///< for functions that other functions call
};

/// The shared memory that the system reserves and cooperative groups use, PTX ISA 10.40. It is a
/// variable in modules that name its registers. The ISA does not define its parts
/// `%reserved_smem_offset_<n>`, so each stands for the whole.
inline constexpr std::string_view reservedSharedName = "%reserved_smem";
inline constexpr std::uint32_t reservedSharedBytes = 1024;

/// The device address of a function, for tables of them and indirect calls.
constexpr std::uint64_t codeAddress(std::uint64_t functionIndex) {
  return codeWindow + (functionIndex + 1) * 16;
}

/// One of the linked modules, and the meaning of its names. Names without linkage belong to the
/// module; the others are the same in all modules.
struct ModuleUnit {
  const ptx::Module *module = nullptr;
  std::uint32_t textBegin = 0; ///< begin of its text in the program's text
  std::unordered_map<std::string_view, SymbolInfo> symbols;
};

/// Decodes modules into one program, and allocates their variables in global memory. The first
/// definition of a function or variable with `.weak` linkage applies.
class ModuleDecoder {
public:
  ModuleDecoder(std::span<const ptx::Module *const> modules, GlobalMemory &globalMemory);
  Result<std::shared_ptr<const Program>> decode();

  GlobalMemory &globalMemory;
  std::shared_ptr<Program> program = std::make_shared<Program>();
  std::vector<ModuleUnit> units;
  std::unordered_map<std::string_view, SymbolInfo> symbols; ///< names with linkage
  std::optional<SymbolInfo> symbol(const ModuleUnit &unit, std::string_view name) const;
  std::vector<SharedVariable> sharedVariables;
  std::uint64_t moduleSharedEnd = 0;

  /// Returns the slot of a row with this value in every lane; each element has `bytes`: 2, 4, 8 or
  /// 16.
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

  /// Definition by function index; null while there is none.
  std::vector<const ptx::Function *> definitions;
  /// Variables with linkage: definitions, and declarations without memory.
  std::unordered_map<std::string_view, const ptx::Variable *> defined;
  std::vector<const ptx::Variable *> externals;

  std::map<std::pair<std::uint64_t, std::uint32_t>, Slot> constantSlots;
  std::vector<std::byte> constantBytes;
};

/// A register's row.
struct RegisterInfo {
  Slot slot = noSlot;
  std::uint32_t bytes = 0; ///< bytes of an element; 0 for a predicate
  std::uint32_t width = 1; ///< components of a vector register
};

/// Decodes one function's body. The themes (decode_*.cpp) call the operand methods and emit(). A
/// method that fails records the reason and returns noSlot.
class FunctionDecoder {
public:
  FunctionDecoder(ModuleDecoder &owner, const ModuleUnit &unit, const ptx::Function &function,
                  std::uint32_t index);
  Result<void> decode();

  // Operands. `type` gives the size that the op reads or writes; a register of another size is
  // converted through a copy.
  Slot source(const ptx::Operand &operand, Type type);
  Slot destination(const ptx::Operand &operand, Type type);
  Slot predicateSource(const ptx::Operand &operand, bool &negated);
  /// Returns noSlot for a sink, and for a failure (then failed()).
  Slot predicateDestination(const ptx::Operand &operand);
  /// Sets slot 4, addressSize and immediate of the next op.
  void address(const ptx::Operand &operand, Op &op);
  /// Returns the address of a symbol; a runtime address is computed into a temporary.
  Slot symbolAddress(const ptx::Operand &operand, std::uint32_t bytes);
  /// Returns the address of an array's element whose index is a register, `array[%r1+2]`: PTX ISA
  /// 6.4.2. Returns noSlot for every other operand, without a failure.
  Slot elementAddress(const ptx::Operand &operand);

  Slot temporary(std::uint32_t bytes);
  Slot temporaryPredicate();
  /// Returns the predicate for the carry flag CC.CF.
  Slot carryFlag();
  Slot constant(std::uint64_t bits, std::uint32_t bytes) { return owner.constant(bits, bytes); }
  const RegisterInfo *registerOf(const ptx::Operand &operand) const;
  std::optional<SymbolInfo> symbol(std::string_view name) const;

  /// Appends the op, with the current instruction's guard and source position.
  Op &emit(const Op &op);
  Op &emit(Handler handler, std::initializer_list<Slot> slots);
  /// Records that the current instruction cannot be decoded; it faults when executed.
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
  std::vector<Op> after; ///< ops to emit behind the current instruction's op
  std::unordered_map<std::uint64_t, std::uint64_t> ownShared;
};

// The themes, in decode_<theme>.cpp. Each returns whether it knows the instruction. If it knows but
// cannot decode an instruction, it calls fail().
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
/// The forms of cvt that decodeConvert does not handle.
bool decodePackedConvert(FunctionDecoder &decoder, const ptx::Instruction &instruction);
bool decodeVideo(FunctionDecoder &decoder, const ptx::Instruction &instruction);
bool decodeTexture(FunctionDecoder &decoder, const ptx::Instruction &instruction);

/// Emits a wait for all live lanes of the warp, which continue together. It stands before an
/// `.aligned` operation on a whole warp.
void emitWholeWarp(FunctionDecoder &decoder);

/// The last modifier that names a type, and the one before it (of cvt, set, …).
Type lastType(const ptx::Instruction &instruction);
Type typeBeforeLast(const ptx::Instruction &instruction);
/// Returns the space that the modifiers name; Generic without a space. `.shared` is `.shared::cta`.
Space spaceOf(const ptx::Instruction &instruction);

} // namespace tally::emulator

#endif
