#include "tally/ptx/analysis/opcodes.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSwitch.h"

namespace tally::ptx {
namespace {

llvm::StringRef ref(std::string_view text) { return llvm::StringRef(text.data(), text.size()); }

// Grouped by result. PTX ISA 9.0, sections 9.7.1 to 9.7.19.
constexpr const char *pureOpcodes[] = {
    "abs",    "add",   "addc",     "sub",       "subc",      "mul",      "mad",      "madc",
    "mul24",  "mad24", "sad",      "div",       "rem",       "neg",      "min",      "max",
    "popc",   "clz",   "bfind",    "fns",       "brev",      "bfe",      "bfi",      "bmsk",
    "szext",  "dp4a",  "dp2a",     "testp",     "fma",       "rcp",      "sqrt",     "rsqrt",
    "sin",    "cos",   "lg2",      "ex2",       "tanh",      "set",      "setp",     "selp",
    "slct",   "and",   "or",       "xor",       "not",       "cnot",     "lop3",     "shf",
    "shl",    "shr",   "mov",      "prmt",      "cvt",       "cvta",     "vadd",     "vsub",
    "vmin",   "vmax",  "vshl",     "vshr",      "vmad",      "vset",     "vadd2",    "vsub2",
    "vavrg2", "vmin2", "vmax2",    "vset2",     "vadd4",     "vsub4",    "vavrg4",   "vmin4",
    "vmax4",  "vset4", "vabsdiff", "vabsdiff2", "vabsdiff4", "copysign", "isspacep", "createpolicy",
    "txq",    "suq",   "istypep",  "mapa",      "getctarank"};

constexpr const char *varyingOpcodes[] = {"shfl",      "tex",
                                          "tld4",      "suld",
                                          "atom",      "vote",
                                          "match",     "activemask",
                                          "redux",     "elect",
                                          "mma",       "ldmatrix",
                                          "movmatrix", "wgmma",
                                          "tcgen05",   "alloca",
                                          "stacksave", "mbarrier",
                                          "multimem",  "wmma",
                                          "call",      "clusterlaunchcontrol"};

constexpr const char *silentOpcodes[] = {"st",
                                         "red",
                                         "prefetch",
                                         "prefetchu",
                                         "applypriority",
                                         "discard",
                                         "cp",
                                         "sust",
                                         "sured",
                                         "bra",
                                         "brx",
                                         "ret",
                                         "exit",
                                         "membar",
                                         "fence",
                                         "stmatrix",
                                         "trap",
                                         "brkpt",
                                         "nanosleep",
                                         "pmevent",
                                         "setmaxnreg",
                                         "griddepcontrol",
                                         "tensormap",
                                         "stackrestore"};

const llvm::StringMap<ResultKind> &opcodeTable() {
  static const llvm::StringMap<ResultKind> table = [] {
    llvm::StringMap<ResultKind> map;
    for (const char *name : pureOpcodes)
      map[name] = ResultKind::Pure;
    for (const char *name : varyingOpcodes)
      map[name] = ResultKind::Varying;
    for (const char *name : silentOpcodes)
      map[name] = ResultKind::None;
    for (const char *name : {"ld", "ldu"})
      map[name] = ResultKind::Memory;
    // bar.red gives all threads of the block one value; the other forms have none.
    for (const char *name : {"bar", "barrier"})
      map[name] = ResultKind::None;
    return map;
  }();
  return table;
}

/// Opcodes of the varying group whose named forms have no result.
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

/// The operands of a call are `(results), callee, (arguments)`, results and arguments optional.
bool callHasResults(const Instruction &instruction) {
  return !instruction.operands.empty() && instruction.operands[0].kind == OperandKind::List &&
         instruction.operands.size() > 1;
}

void visitRegisters(const Operand &operand, const std::function<void(const Operand &)> &visit) {
  forEachOperand(operand, [&](const Operand &each) {
    if (each.kind == OperandKind::Register)
      visit(each);
  });
}

} // namespace

bool isKnownOpcode(std::string_view opcode) { return opcodeTable().contains(ref(opcode)); }

ResultKind resultKindOf(const Instruction &instruction) {
  auto found = opcodeTable().find(ref(instruction.opcode));
  if (found == opcodeTable().end())
    return ResultKind::Unknown;
  if (isBlockBarrier(instruction) && instruction.has("red"))
    return ResultKind::Pure;
  if (instruction.opcode == "call")
    return callHasResults(instruction) ? ResultKind::Varying : ResultKind::None;
  return hasNoResultInThisForm(instruction) ? ResultKind::None : found->second;
}

void forEachOperand(const Operand &operand, const std::function<void(const Operand &)> &visit) {
  visit(operand);
  for (const Operand &child : operand.children)
    forEachOperand(child, visit);
}

void forEachWrittenRegister(const Instruction &instruction,
                            const std::function<void(const Operand &)> &visit) {
  ResultKind kind = resultKindOf(instruction);
  if (kind == ResultKind::None || instruction.operands.empty())
    return;
  if (kind == ResultKind::Unknown) {
    for (const Operand &operand : instruction.operands)
      visitRegisters(operand, visit);
    return;
  }
  if (instruction.operands[0].kind != OperandKind::Address)
    visitRegisters(instruction.operands[0], visit);
}

void forEachReadRegister(const Instruction &instruction,
                         const std::function<void(const Operand &)> &visit) {
  ResultKind kind = resultKindOf(instruction);
  bool firstIsWritten = kind != ResultKind::None && kind != ResultKind::Unknown &&
                        !instruction.operands.empty() &&
                        instruction.operands[0].kind != OperandKind::Address;
  // wgmma adds to its accumulators, and a matrix operand written in place reads itself: nothing is
  // lost by reading the first operand of those too, as their results vary anyway.
  for (const Operand &operand : instruction.operands.subspan(firstIsWritten ? 1 : 0))
    visitRegisters(operand, visit);
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
  return llvm::StringSwitch<bool>(ref(instruction.opcode))
      .Case("bra", true)
      .Case("brx", true)
      .Case("ret", true)
      .Case("exit", true)
      .Default(false);
}

} // namespace tally::ptx
