#include "tally/ptx/analysis/function_facts.h"

#include "tally/ptx/analysis/opcodes.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSwitch.h"

namespace tally::ptx {
namespace {

llvm::StringRef ref(std::string_view text) { return llvm::StringRef(text.data(), text.size()); }

bool isWord32(std::string_view type) { return type == "u32" || type == "s32" || type == "b32"; }

bool isPrivateSpace(const Instruction &instruction) {
  return llvm::any_of(instruction.modifiers, [](std::string_view each) {
    return each == "local" || each == "const" || each.starts_with("shared") ||
           each.starts_with("param");
  });
}

bool isFloat(std::string_view type) {
  return llvm::StringSwitch<bool>(ref(type))
      .Case("f16", true)
      .Case("f16x2", true)
      .Case("bf16", true)
      .Case("bf16x2", true)
      .Case("f32", true)
      .Case("f64", true)
      .Default(false);
}

/// One walk over a body. Each `see…` looks at one matter.
class Collector {
public:
  Collector(const Module &module, const Function &function)
      : module(module), function(function), readers(function.registerCount) {}

  FunctionFacts run() {
    countReaders();
    for (const HeaderDirective &directive : function.directives)
      if (ref(directive.name).contains("cluster"))
        find(Reason::Cluster, directive.text);
    for (current = 0; current != function.body.size(); ++current) {
      const Statement &statement = function.body[current];
      if (statement.kind != StatementKind::Instruction)
        continue;
      const Instruction &instruction = statement.instruction;
      seeOperands(instruction);
      seeControl(instruction);
      seeAsync(instruction);
      seeMemory(instruction);
      if (!isKnownOpcode(instruction.opcode)) {
        find(Reason::UnknownOpcode, statement.text, std::string(instruction.opcode));
        facts.orderDependent = true;
      }
    }
    return std::move(facts);
  }

private:
  void find(Reason reason, std::string_view place, std::string detail = {}) {
    facts.findings.push_back({reason, place, std::move(detail)});
  }
  std::string_view here() const { return function.body[current].text; }

  void countReaders() {
    for (const Statement &statement : function.body) {
      if (statement.kind != StatementKind::Instruction)
        continue;
      forEachReadRegister(statement.instruction,
                          [&](const Operand &each) { readers[each.reg] = true; });
      if (statement.instruction.guard)
        readers[statement.instruction.guard->predicate.reg] = true;
    }
  }

  void seeOperands(const Instruction &instruction) {
    for (std::size_t i = 0; i != instruction.operands.size(); ++i) {
      const Operand &operand = instruction.operands[i];
      if (operand.kind == OperandKind::SpecialRegister && isGridRegister(operand)) {
        seeScalarGridRegister(instruction, operand, i);
        continue;
      }
      forEachOperand(operand, [&](const Operand &each) {
        if (each.kind == OperandKind::SpecialRegister)
          seeSpecialRegister(each);
        else if (each.kind == OperandKind::Symbol)
          facts.symbols.push_back(each.symbol);
        else if (each.kind == OperandKind::Opaque && ref(each.text).contains("ctaid"))
          find(Reason::GridRegisterForm, each.text);
      });
    }
    if (instruction.guard && instruction.guard->predicate.kind != OperandKind::Register)
      find(Reason::GridRegisterForm, instruction.guard->predicate.text);
  }

  static bool isGridRegister(const Operand &operand) {
    std::string_view name = specialRegisterName(operand);
    return name == "ctaid" || name == "nctaid";
  }

  void seeScalarGridRegister(const Instruction &instruction, const Operand &operand,
                             std::size_t position) {
    unsigned dimension = operand.component == "x"   ? 0
                         : operand.component == "y" ? 1
                         : operand.component == "z" ? 2
                                                    : 3;
    bool isSource = position > 0 || resultKindOf(instruction) == ResultKind::None;
    // The last type of an instruction is that of its sources; cvt and set name the result's first.
    bool isWord = !instruction.modifiers.empty() && isWord32(instruction.modifiers.back());
    if (dimension == 3 || operand.negated || !isSource || !isWord ||
        !isKnownOpcode(instruction.opcode) || instruction.opcode == "call" ||
        isBlockBarrier(instruction))
      find(Reason::GridRegisterForm, operand.text, std::string(operand.text));
    else
      facts.gridUses.push_back(
          {current, &operand, specialRegisterName(operand) == "nctaid", dimension});
  }

  void seeSpecialRegister(const Operand &operand) {
    llvm::StringRef name = ref(specialRegisterName(operand));
    std::string text(operand.text);
    if (isGridRegister(operand))
      find(Reason::GridRegisterForm, operand.text, text);
    else if (name.contains("cluster"))
      find(Reason::Cluster, operand.text, text);
    else if (name == "gridid")
      find(Reason::GridId, operand.text);
    else if (name.starts_with("envreg"))
      find(Reason::GridBarrier, operand.text, text);
    else if (name == "total_smem_size" || name == "aggr_smem_size" ||
             name.starts_with("reserved_smem"))
      find(Reason::SharedSize, operand.text, text);
    if (name.starts_with("clock") || name.starts_with("globaltimer") || name == "smid" ||
        name == "warpid" || name.starts_with("pm"))
      facts.orderDependent = true;
  }

  void seeControl(const Instruction &instruction) {
    llvm::StringRef opcode = ref(instruction.opcode);
    if (opcode == "ret" || opcode == "exit") {
      facts.leaves.push_back(current);
      if (opcode == "exit" && !facts.exit)
        facts.exit = current;
    } else if (opcode == "call") {
      seeCall(instruction);
    } else if (opcode == "barrier" && instruction.has("cluster")) {
      find(Reason::Cluster, here());
    } else if (isBlockBarrier(instruction)) {
      facts.blockBarriers.push_back(current);
    } else if (isMaskedWarpSync(instruction)) {
      facts.warpSyncs.push_back(current);
    }
  }

  void seeCall(const Instruction &instruction) {
    for (const Operand &operand : instruction.operands) {
      if (operand.kind == OperandKind::List)
        continue;
      const Function *callee =
          operand.kind == OperandKind::Symbol ? module.function(operand.symbol) : nullptr;
      if (callee || (operand.kind == OperandKind::Symbol && isSystemCall(operand.symbol)))
        facts.calls.push_back({current, operand.symbol});
      else
        find(Reason::IndirectCall, here(), std::string(operand.text));
      return;
    }
    find(Reason::IndirectCall, here());
  }

  static bool isSystemCall(std::string_view name) { return name == "vprintf"; }

  void seeAsync(const Instruction &instruction) {
    llvm::StringRef opcode = ref(instruction.opcode);
    bool bulk = opcode == "cp" && instruction.has("bulk");
    // cp.async.bulk names its own block's shared memory .shared::cluster; multicast is the form
    // that reaches others. A scope of .cluster alone reaches no other block.
    if (instruction.has("multicast::cluster") || opcode == "mapa" || opcode == "getctarank" ||
        (instruction.has("shared::cluster") && !bulk))
      find(Reason::Cluster, here());
    if (opcode == "clusterlaunchcontrol")
      find(Reason::LaunchControl, here());
    if (opcode == "mbarrier" || llvm::any_of(instruction.modifiers, [](std::string_view each) {
          return ref(each).starts_with("mbarrier");
        }))
      find(Reason::Mbarrier, here());
    if (bulk || (opcode == "cp" && instruction.has("reduce")) || opcode == "tensormap" ||
        ((opcode == "st" || opcode == "red") && instruction.has("async")))
      find(Reason::AsyncCopy, here());
    else if (opcode == "cp" && instruction.has("async"))
      facts.copiesAsync = true;
    if (opcode == "wgmma" || opcode == "tcgen05")
      find(Reason::AsyncMma, here());
    if (opcode == "setmaxnreg")
      find(Reason::Setmaxnreg, here());
    if (opcode == "alloca" || opcode == "stackrestore")
      find(Reason::StackAllocation, here());
    facts.usesTensorAsync |=
        opcode == "wgmma" || opcode == "tcgen05" || (bulk && instruction.has("tensor"));
  }

  void seeMemory(const Instruction &instruction) {
    llvm::StringRef opcode = ref(instruction.opcode);
    facts.aidsPolling |= isPollingAid(instruction);
    if (isStrongRead(instruction))
      facts.strongReads.push_back(current);
    else if (opcode == "ld" && !instruction.has("nc") && !isPrivateSpace(instruction))
      facts.plainReads.push_back(current);
    if (opcode == "ld" && isStrongRead(instruction))
      facts.orderDependent = true;
    if (opcode != "atom" && opcode != "red" && opcode != "multimem" &&
        !(opcode == "cp" && instruction.has("reduce")))
      return;
    bool commutes = !llvm::any_of(instruction.modifiers, isFloat) && !instruction.has("exch") &&
                    !instruction.has("cas") && opcode != "multimem" && opcode != "cp";
    bool usesResult = false;
    if (opcode == "atom")
      forEachWrittenRegister(instruction,
                             [&](const Operand &each) { usesResult |= readers[each.reg]; });
    facts.orderDependent |= !commutes || usesResult || !sameReduction(instruction);
  }

  /// Reductions of one operation commute with themselves, not with another operation.
  bool sameReduction(const Instruction &instruction) {
    llvm::StringRef operation;
    for (std::string_view each : instruction.modifiers)
      if (llvm::StringSwitch<bool>(ref(each))
              .Case("add", true)
              .Case("and", true)
              .Case("or", true)
              .Case("xor", true)
              .Case("min", true)
              .Case("max", true)
              .Case("inc", true)
              .Case("dec", true)
              .Default(false))
        operation = ref(each);
    if (reduction.empty())
      reduction = operation;
    return reduction == operation;
  }

  const Module &module;
  const Function &function;
  FunctionFacts facts;
  std::vector<bool> readers; ///< whether a register is read anywhere
  llvm::StringRef reduction; ///< the first one seen
  std::uint32_t current = 0;
};

} // namespace

bool isPollingAid(const Instruction &instruction) {
  if (instruction.opcode == "nanosleep")
    return true;
  return (instruction.opcode == "fence" || instruction.opcode == "membar") &&
         !instruction.has("cta") && !instruction.has("proxy");
}

bool isStrongRead(const Instruction &instruction) {
  if (isPrivateSpace(instruction))
    return false;
  if (instruction.opcode == "atom")
    return true;
  if (instruction.opcode != "ld" && instruction.opcode != "multimem")
    return false;
  for (const char *strength : {"volatile", "relaxed", "acquire", "mmio", "cv", "cg"})
    if (instruction.has(strength))
      return true;
  return false;
}

FunctionFacts collectFacts(const Module &module, const Function &function) {
  return Collector(module, function).run();
}

} // namespace tally::ptx
