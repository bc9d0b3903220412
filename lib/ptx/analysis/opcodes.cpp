#include "tally/ptx/analysis/opcodes.h"

#include "string_ref.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSwitch.h"

#include <algorithm>
#include <array>

namespace tally::ptx {
namespace {

/// Opcodes with the same facts, separated by spaces.
struct OpcodeGroup {
  ResultKind result;
  Intake intake;
  std::string_view names;
};

// PTX ISA 9.0, sections 9.7.1 to 9.7.19. docs/design/waits.md lists the ways by which a value from
// memory reaches a branch; an addition here belongs there too.
constexpr OpcodeGroup opcodeGroups[] = {
    {ResultKind::Pure, Intake::Operands,
     "abs mul mul24 mad24 sad div rem neg min max popc clz bfind fns brev bfe bfi bmsk szext dp4a "
     "dp2a testp fma rcp sqrt rsqrt sin cos lg2 ex2 tanh set setp selp slct and or xor not cnot "
     "lop3 shf shl shr mov prmt cvt cvta vadd vsub vmin vmax vshl vshr vmad vset vadd2 vsub2 "
     "vavrg2 vmin2 vmax2 vset2 vadd4 vsub4 vavrg4 vmin4 vmax4 vset4 vabsdiff vabsdiff2 vabsdiff4 "
     "copysign isspacep createpolicy txq suq istypep mapa getctarank"},
    {ResultKind::Pure, Intake::Carry, "add addc sub subc mad madc"},
    {ResultKind::Memory, Intake::Cached, "ld ldu"},
    {ResultKind::Varying, Intake::Cached, "tex tld4 wmma"},
    {ResultKind::Varying, Intake::Renewed, "atom suld multimem"},
    {ResultKind::Varying, Intake::Lanes, "shfl vote match activemask redux"},
    {ResultKind::Varying, Intake::Own, "ldmatrix wgmma tcgen05 mbarrier clusterlaunchcontrol"},
    {ResultKind::Varying, Intake::Operands, "alloca stacksave mma movmatrix elect"},
    {ResultKind::Varying, Intake::Anything, "call"},
    // bar.red gives all threads of the block one value; the other forms have none.
    {ResultKind::None, Intake::Lanes, "bar barrier"},
    {ResultKind::None, Intake::Renewed, "cp"},
    // tensormap.cp_fenceproxy copies from shared memory.
    {ResultKind::None, Intake::Own, "tensormap"},
    {ResultKind::None, Intake::Operands,
     "st red prefetch prefetchu applypriority discard sust sured bra brx ret exit membar fence "
     "stmatrix trap brkpt nanosleep pmevent setmaxnreg griddepcontrol stackrestore"},
};

/// Calls `visit` with each name in `group`.
template <class Visit> constexpr void forEachName(const OpcodeGroup &group, Visit &&visit) {
  std::string_view rest = group.names;
  while (!rest.empty()) {
    std::size_t end = std::min(rest.find(' '), rest.size());
    visit(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
}

/// Names of one length have the same digest only where the first eight bytes agree; needs no call.
constexpr std::uint64_t digestOf(std::string_view name) {
  auto byte = [&](std::size_t at) { return std::uint64_t{static_cast<unsigned char>(name[at])}; };
  auto word = [&](std::size_t at) {
    return byte(at) | byte(at + 1) << 8 | byte(at + 2) << 16 | byte(at + 3) << 24;
  };
  std::size_t size = name.size();
  if (size >= 4)
    return word(0) | word(std::min<std::size_t>(size, 8) - 4) << 32;
  return size == 0 ? 0 : byte(0) | byte(size / 2) << 8 | byte(size - 1) << 16;
}

/// The facts of one name in the table.
struct OpcodeFacts {
  std::string_view name;
  std::uint64_t digest = 0;
  ResultKind result = ResultKind::Unknown;
  Intake intake = Intake::Anything;
  bool dependsOnForm = false; ///< bar, wmma and others: the result depends on the form
  bool isTerminator = false;
};

/// A hash table that is filled once. Every analysis reads it for every instruction, so a look-up
/// must cost no more than a few comparisons.
class OpcodeTable {
public:
  constexpr OpcodeTable() {
    for (const OpcodeGroup &group : opcodeGroups)
      forEachName(group, [&](std::string_view name) { add(name, group); });
    for (const char *name :
         {"bar", "barrier", "call", "wmma", "multimem", "wgmma", "tcgen05", "mbarrier"})
      slots[place(name)].dependsOnForm = true;
    for (const char *name : {"bra", "brx", "ret", "exit"})
      slots[place(name)].isTerminator = true;
  }

  /// Returns the facts of an opcode; the facts of Unknown for a name that is not in the table.
  constexpr const OpcodeFacts &of(std::string_view name) const { return slots[place(name)]; }

private:
  constexpr void add(std::string_view name, const OpcodeGroup &group) {
    OpcodeFacts &slot = slots[place(name)];
    slot.name = name;
    slot.digest = digestOf(name);
    slot.result = group.result;
    slot.intake = group.intake;
  }

  /// Returns the slot of `name`, or the free slot for it.
  constexpr std::size_t place(std::string_view name) const {
    std::uint64_t digest = digestOf(name);
    std::size_t at = ((digest + name.size()) * 0x9e3779b97f4a7c15u) >> (64 - logSlots);
    auto isName = [&](const OpcodeFacts &slot) {
      return slot.digest == digest && slot.name.size() == name.size() &&
             (name.size() <= 8 || slot.name == name);
    };
    while (!slots[at].name.empty() && !isName(slots[at]))
      at = (at + 1) % slots.size();
    return at;
  }

  static constexpr unsigned logSlots = 10; ///< sparse: most look-ups visit one slot
  std::array<OpcodeFacts, std::size_t{1} << logSlots> slots;
};

constexpr OpcodeTable opcodeTable;

/// Whether the instruction is in a form without a result, of an opcode of the varying group.
bool hasNoResultInThisForm(const Instruction &instruction) {
  llvm::StringRef opcode = ref(instruction.opcode);
  if (opcode == "wmma")
    return instruction.has("store");
  if (opcode == "multimem")
    return instruction.has("st") || instruction.has("red") || instruction.has("cp");
  if (opcode == "wgmma")
    return !instruction.has("mma_async");
  if (opcode == "tcgen05")
    return !instruction.has("ld");
  if (opcode == "mbarrier")
    return instruction.has("init") || instruction.has("inval") || instruction.has("expect_tx") ||
           instruction.has("complete_tx");
  return false;
}

/// The operands of a call are `(results), callee, (arguments)`; results and arguments are optional.
bool callHasResults(const Instruction &instruction) {
  return !instruction.operands.empty() && instruction.operands[0].kind == OperandKind::List &&
         instruction.operands.size() > 1;
}

} // namespace

bool isKnown(const Instruction &instruction) {
  bool leaves = instruction.opcode == "ret" || instruction.opcode == "exit";
  return opcodeTable.of(instruction.opcode).result != ResultKind::Unknown &&
         !(leaves && !instruction.operands.empty());
}

ResultKind resultKindOf(const Instruction &instruction) {
  const OpcodeFacts &facts = opcodeTable.of(instruction.opcode);
  if (!facts.dependsOnForm)
    return facts.result;
  if (isBlockBarrier(instruction) && instruction.has("red"))
    return ResultKind::Pure;
  if (instruction.opcode == "call")
    return callHasResults(instruction) ? ResultKind::Varying : ResultKind::None;
  return hasNoResultInThisForm(instruction) ? ResultKind::None : facts.result;
}

Intake intakeOf(const Instruction &instruction) {
  return opcodeTable.of(instruction.opcode).intake;
}

std::vector<std::string_view> knownOpcodes() {
  std::vector<std::string_view> names;
  for (const OpcodeGroup &group : opcodeGroups)
    forEachName(group, [&](std::string_view name) { names.push_back(name); });
  return names;
}

std::string_view specialRegisterName(const Operand &operand) {
  std::string_view symbol = operand.symbol;
  if (!symbol.empty() && symbol.front() == '%')
    symbol.remove_prefix(1);
  return symbol;
}

bool isBlockBarrier(const Instruction &instruction) {
  return (instruction.opcode == "bar" && !instruction.has("warp")) ||
         (instruction.opcode == "barrier" && !instruction.has("cluster"));
}

bool isAlignedBarrier(const Instruction &instruction) {
  return isBlockBarrier(instruction) && (instruction.opcode == "bar" || instruction.has("aligned"));
}

BarrierForm barrierFormOf(const Instruction &barrier) {
  bool reduces = barrier.has("red");
  std::size_t least = reduces ? 3 : 1, count = barrier.operands.size();
  if (barrier.has("arrive"))
    return count == 2 ? BarrierForm::Arrive : BarrierForm::Other;
  if ((!reduces && !barrier.has("sync")) || (count != least && count != least + 1) ||
      (reduces && barrier.operands.back().kind != OperandKind::Register))
    return BarrierForm::Other;
  return count == least ? BarrierForm::Full : BarrierForm::Counted;
}

const Operand &barrierIdOf(const Instruction &barrier) {
  return barrier.operands[barrier.has("red")];
}

bool isMaskedWarpSync(const Instruction &instruction) {
  if (!instruction.has("sync"))
    return false;
  return llvm::StringSwitch<bool>(ref(instruction.opcode))
      .Case("shfl", true)
      .Case("vote", true)
      .Case("match", true)
      .Case("redux", true)
      .Case("elect", true)
      .Case("bar", instruction.has("warp"))
      .Default(false);
}

bool isTerminator(const Instruction &instruction) {
  return opcodeTable.of(instruction.opcode).isTerminator;
}

} // namespace tally::ptx
