#include "tally/ptx/analysis/function_facts.h"

#include "awaited_reads.h"
#include "string_ref.h"
#include "tally/ptx/analysis/opcodes.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSwitch.h"

#include <fmt/format.h>

namespace tally::ptx {
namespace {

/// Returns the bits of an integer type, or 0.
unsigned integerBits(std::string_view type) {
  return llvm::StringSwitch<unsigned>(ref(type))
      .Cases({"u8", "s8", "b8"}, 8)
      .Cases({"u16", "s16", "b16"}, 16)
      .Cases({"u32", "s32", "b32"}, 32)
      .Case("b64", 64)
      .Default(0);
}

/// Returns 0 to 3 for x to w or their other names; 4 for anything else.
unsigned componentNumber(std::string_view component) {
  return llvm::StringSwitch<unsigned>(ref(component))
      .Cases({"x", "r"}, 0)
      .Cases({"y", "g"}, 1)
      .Cases({"z", "b"}, 2)
      .Cases({"w", "a"}, 3)
      .Default(4);
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

/// Walks a body once. Each `see…` function collects one kind of fact.
class Collector {
public:
  explicit Collector(const Function &function)
      : function(function), readers(function.registerCount) {}

  FunctionFacts run() {
    countReaders();
    for (const HeaderDirective &directive : function.directives)
      if (ref(directive.name).contains("cluster"))
        find(directive.name == "blocksareclusters" ? Reason::ClusterGrid : Reason::Cluster,
             directive.text);
    for (current = 0; current != function.body.size(); ++current) {
      const Statement &statement = function.body[current];
      seeVariables(statement);
      if (statement.kind != StatementKind::Instruction)
        continue;
      const Instruction &instruction = statement.instruction;
      seeOperands(instruction);
      seeControl(instruction);
      seeAsync(instruction);
      seeMemory(instruction);
      if (!isKnown(instruction)) {
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
      const Instruction &instruction = statement.instruction;
      ResultKind result = resultKindOf(instruction);
      forEachReadRegister(instruction, result,
                          [&](const Operand &each) { readers[each.reg] = true; });
      if (instruction.guard)
        readers[instruction.guard->predicate.reg] = true;
    }
  }

  void seeVariables(const Statement &statement) {
    for (const Variable &variable : statement.variables)
      if (!facts.ownVariable &&
          (variable.space == StateSpace::Global || variable.space == StateSpace::Const))
        facts.ownVariable = &variable;
  }

  void seeOperands(const Instruction &instruction) {
    const Operand *callee = calleeOf(instruction);
    for (std::size_t i = 0; i != instruction.operands.size(); ++i) {
      const Operand &operand = instruction.operands[i];
      bool isSource = i > 0 || resultKindOf(instruction) == ResultKind::None;
      forEachOperand(operand, [&](const Operand &each) {
        if (each.kind == OperandKind::SpecialRegister && isGridRegister(each))
          seeGridRegister(instruction, operand, each, isSource);
        else if (each.kind == OperandKind::SpecialRegister)
          seeSpecialRegister(each);
        else if (each.kind == OperandKind::Symbol && &each != callee)
          facts.symbols.push_back(each.symbol);
        else if (each.kind == OperandKind::Opaque && namesGridRegister(ref(each.text)))
          find(Reason::GridRegisterForm, each.text);
      });
    }
    if (instruction.guard && instruction.guard->predicate.kind != OperandKind::Register)
      find(Reason::GridRegisterForm, instruction.guard->predicate.text);
  }

  static bool isGridRegister(const Operand &operand) {
    std::string_view name = specialRegisterName(operand);
    return name == "ctaid" || name == "nctaid" || isClusterIndex(name);
  }
  static bool isClusterIndex(std::string_view name) {
    return name == "clusterid" || name == "nclusterid";
  }
  static bool namesGridRegister(llvm::StringRef text) {
    return text.contains("ctaid") || text.contains("clusterid");
  }

  /// `each` is `operand` or stands inside it. The last type of an instruction is the type of its
  /// sources; cvt and set name the result's type first.
  void seeGridRegister(const Instruction &instruction, const Operand &operand, const Operand &each,
                       bool isSource) {
    std::string_view name = specialRegisterName(each);
    GridUse use{current, &each, name.starts_with('n'), isClusterIndex(name)};
    if (use.isCluster) {
      find(Reason::Cluster, each.text, std::string(each.text));
      use.clusterExtents = requiredCluster(function);
    }
    use.dimension = componentNumber(each.component);
    use.isVector = each.component.empty() && &each == &operand && instruction.opcode == "mov" &&
                   instruction.has("v4");
    unsigned bits = instruction.modifiers.empty() ? 0 : integerBits(instruction.modifiers.back());
    bool fits = isKnown(instruction) && instruction.opcode != "call" &&
                !isBlockBarrier(instruction) && isSource && !each.negated &&
                (use.isVector || use.dimension < 4);
    if (&each == &operand)
      // A wider register may be a narrow source of cvt, not of other instructions.
      fits &= bits == 32 || bits == 16 || (bits == 8 && instruction.opcode == "cvt");
    else
      fits &= isElement(operand, each) &&
              (bits == 32 ||
               (bits == 64 && instruction.opcode == "mov" && operand.children.size() == 2));
    use.isHalf = bits == 16 && instruction.opcode != "cvt";
    if (fits)
      facts.gridUses.push_back(use);
    else
      find(Reason::GridRegisterForm, each.text, std::string(each.text));
  }

  /// Whether `each` is an element of a `{…}`: of `operand` itself, or of a texture's coordinates in
  /// it.
  static bool isElement(const Operand &operand, const Operand &each) {
    if (operand.kind != OperandKind::Vector && operand.kind != OperandKind::Address)
      return false;
    return llvm::any_of(operand.children, [&](const Operand &child) {
      return (operand.kind == OperandKind::Vector && &child == &each) || isElement(child, each);
    });
  }

  /// Whether the name is an address in the region that the system reserves in every block. Such a
  /// name is a place to access, not a measure of the kernel's memory.
  static bool isSystemAddress(llvm::StringRef name) {
    return name == "reserved_smem_offset_0" || name == "reserved_smem_offset_1";
  }

  void seeSpecialRegister(const Operand &operand) {
    llvm::StringRef name = ref(specialRegisterName(operand));
    std::string text(operand.text);
    if (name.contains("cluster"))
      find(Reason::Cluster, operand.text, text);
    else if (name == "gridid")
      find(Reason::GridId, operand.text);
    else if (name.starts_with("envreg"))
      find(Reason::GridBarrier, operand.text, text);
    else if (name == "total_smem_size" || name == "aggr_smem_size" ||
             (name.starts_with("reserved_smem") && !isSystemAddress(name)))
      find(Reason::SharedSize, operand.text, text);
    facts.readsSharedSize |= name == "dynamic_smem_size";
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

  /// `call (results), callee, (arguments), prototype`: all but the callee optional.
  static const Operand *calleeOf(const Instruction &instruction) {
    if (instruction.opcode != "call")
      return nullptr;
    for (const Operand &operand : instruction.operands)
      if (operand.kind != OperandKind::List)
        return &operand;
    return nullptr;
  }

  void seeCall(const Instruction &instruction) {
    const Operand *callee = calleeOf(instruction);
    if (callee && callee->kind == OperandKind::Symbol) {
      facts.calls.push_back({current, callee->symbol, nullptr});
      // malloc gives addresses to blocks in the order of their calls.
      facts.orderDependent |= callee->symbol == "malloc";
    } else if (callee && callee->kind == OperandKind::Register)
      facts.calls.push_back({current, {}, callee});
    else
      find(Reason::IndirectCall, here());
  }

  void seeAsync(const Instruction &instruction) {
    llvm::StringRef opcode = ref(instruction.opcode);
    bool bulk = opcode == "cp" && instruction.has("bulk");
    // cp.async.bulk names its own block's shared memory .shared::cluster; only its multicast form
    // reaches other blocks. A scope of .cluster alone reaches no other block. tcgen05.commit
    // likewise names its mbarrier .shared::cluster and has no other form; a pair of blocks is a
    // cluster.
    bool isCommit = opcode == "tcgen05" && instruction.has("commit");
    if (instruction.has("multicast::cluster") || opcode == "mapa" || opcode == "getctarank" ||
        (opcode == "tcgen05" && instruction.has("cta_group::2")) ||
        (instruction.has("shared::cluster") && !bulk && !isCommit))
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
    Awaits awaited = awaitedBy(instruction);
    if (awaited == Awaits::Others)
      facts.strongReads.push_back(current);
    else if (awaited != Awaits::Nothing)
      facts.plainReads.push_back(current);
    if (opcode == "ld" && (awaited == Awaits::Others || awaited == Awaits::OwnBlock))
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

  /// Whether the reduction has the operation of the body's earlier reductions. Reductions of one
  /// operation commute, different operations do not. Reductions that wrap at a bound commute only
  /// if all have the same bound, as a number in the text.
  bool sameReduction(const Instruction &instruction) {
    std::string operation;
    for (std::string_view each : instruction.modifiers)
      if (llvm::StringSwitch<bool>(ref(each))
              .Cases({"add", "and", "or", "xor", "min", "max", "inc", "dec"}, true)
              .Default(false))
        operation = each;
    if (operation == "inc" || operation == "dec") {
      const Operand &bound = instruction.operands.back();
      if (bound.kind != OperandKind::Integer)
        return false;
      operation += fmt::format(" {}", bound.text);
    }
    if (facts.reduction.empty())
      facts.reduction = operation;
    return facts.reduction == operation;
  }

  const Function &function;
  FunctionFacts facts;
  std::vector<bool> readers; ///< whether a register is read anywhere
  std::uint32_t current = 0;
};

} // namespace

std::array<std::uint32_t, 3> requiredCluster(const Function &function) {
  std::array<std::uint32_t, 3> extents = {0, 0, 0};
  if (const HeaderDirective *directive = function.directive("reqnctapercluster"))
    for (std::size_t i = 0; i != extents.size(); ++i)
      extents[i] =
          i < directive->values.size() ? static_cast<std::uint32_t>(directive->values[i]) : 1;
  return extents;
}

FunctionFacts collectFacts(const Function &function) { return Collector(function).run(); }

} // namespace tally::ptx
