#include "taint.h"

#include "awaited_reads.h"
#include "pointer_roots.h"
#include "tally/ptx/analysis/control_dependence.h"
#include "tally/ptx/analysis/opcodes.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"

#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <string>

namespace tally::ptx {
namespace {

/// Places of a taint besides registers: one cell for each state space (an access that names a space
/// reaches no other), one for tensor memory, one for mbarrier objects (no other instruction may
/// access them: PTX ISA, mbarrier), one for values that lanes exchange by unknown instructions, one
/// for which lanes are converged, and the carry flag.
enum Cell : unsigned {
  Shared = 1,
  Local = 2,
  Global = 4,
  Param = 8,
  Lanes = 16,
  Company = 32,
  Carry = 64,
  Tensor = 128,
  Barriers = 256,
  AnyMemory = Shared | Local | Global | Param | Tensor | Barriers | Lanes
};

/// Returns the cells of a space. A generic address may be in any of three.
unsigned cellsOf(std::string_view space) {
  if (space.starts_with("shared"))
    return Shared;
  if (space == "local")
    return Local;
  if (space == "global")
    return Global;
  if (space.starts_with("param"))
    return Param;
  return space == "const" ? 0u : unsigned{Shared | Local | Global};
}

/// Returns the cells that a memory access may reach.
unsigned cellsOf(const Instruction &access) {
  for (std::string_view each : access.modifiers)
    if (each == "local" || each == "global" || each == "const" || each.starts_with("shared") ||
        each.starts_with("param"))
      return cellsOf(each);
  return cellsOf(std::string_view());
}

/// Whether the result depends on which lanes are converged: the forms that name no lanes.
bool countsCompany(const Instruction &instruction) {
  return instruction.opcode == "activemask" ||
         (!instruction.has("sync") &&
          (instruction.opcode == "vote" || instruction.opcode == "shfl"));
}

bool isOneOf(std::string_view opcode, std::initializer_list<std::string_view> list) {
  return llvm::is_contained(list, opcode);
}

/// Returns the key by which threads of a warp or block meet to exchange values: threads at another
/// instruction with the same qualifiers meet too (PTX ISA, shfl.sync, vote.sync, …).
std::string meetingOf(const Instruction &instruction) {
  if (intakeOf(instruction) != Intake::Lanes)
    return {};
  if (isBlockBarrier(instruction))
    return instruction.has("red") ? "bar" : "";
  std::string name(instruction.opcode);
  for (std::string_view each : instruction.modifiers)
    name.append(".").append(each);
  return name;
}

/// Returns the cells that `instruction` may write besides its result. An instruction that is not
/// known to write less writes all memory.
unsigned cellsWrittenBy(const Instruction &instruction) {
  std::string_view opcode = instruction.opcode;
  switch (intakeOf(instruction)) {
  case Intake::Carry:
    return instruction.has("cc") ? +Carry : 0;
  case Intake::Lanes:
    return 0; // see meetingOf
  case Intake::Cached:
    return opcode == "wmma" && instruction.has("store") ? cellsOf(instruction) : 0;
  case Intake::Renewed:
    if (opcode == "cp")
      return cellsOf(copySpacesOf(instruction).to);
    if (opcode == "suld" || instruction.has("ld_reduce"))
      return 0;
    return opcode == "atom" ? cellsOf(instruction) : +AnyMemory;
  case Intake::Own:
    if (opcode == "ldmatrix" || opcode == "wgmma")
      return 0;
    if (opcode == "tensormap")
      return cellsOf(instruction);
    return opcode == "mbarrier"  ? +Barriers
           : opcode == "tcgen05" ? Shared | Tensor | Barriers
                                 : +AnyMemory;
  case Intake::Anything:
    return AnyMemory;
  case Intake::Operands:
    break;
  }
  if (opcode == "st" || opcode == "red")
    return instruction.has("async") ? +AnyMemory : cellsOf(instruction);
  if (isOneOf(opcode, {"sust", "sured"}))
    return Global;
  if (opcode == "stmatrix")
    return Shared;
  bool isSilent =
      resultKindOf(instruction) == ResultKind::Pure || isTerminator(instruction) ||
      isOneOf(opcode, {"alloca", "stacksave", "stackrestore", "mma", "movmatrix", "elect",
                       "prefetch", "prefetchu", "applypriority", "membar", "fence", "nanosleep",
                       "trap", "brkpt", "pmevent", "setmaxnreg", "griddepcontrol"});
  return isSilent ? 0 : +AnyMemory;
}

/// Follows a taint through one loop.
class Taint {
public:
  Taint(const Cfg &cfg, const Loop &loop, llvm::ArrayRef<std::uint32_t> sources,
        llvm::ArrayRef<std::uint32_t> exits, const Definitions *byRoots)
      : cfg(cfg), loop(loop), sources(sources.begin(), sources.end()),
        exits(exits.begin(), exits.end()), byRoots(byRoots) {
    if (!loop.header)
      return;
    turn.emplace(cfg, loop.blocks, *loop.header);
    dependence.emplace(*turn);
  }

  bool reachesExit() {
    do {
      changed = false;
      for (const CfgBlock *block : loop.blocks)
        visit(*block);
    } while (changed);
    return exitsInCall || llvm::any_of(loop.blocks, [&](const CfgBlock *block) {
             if (block->successors.size() < 2 || !(decides(*block) || control.contains(block)))
               return false;
             // Without a header every decision may be an exit of some turn.
             return !loop.header || llvm::any_of(block->successors, [&](const CfgBlock *next) {
               return !loop.has(*next);
             });
           });
  }

private:
  bool isTainted(const Operand &operand) const {
    bool any = false;
    forEachOperand(operand, [&](const Operand &each) {
      any |= each.kind == OperandKind::Register && registers.contains(each.reg);
    });
    return any;
  }

  bool decides(const CfgBlock &block) const {
    const Instruction *last = cfg.terminator(block);
    return last && ((last->guard && isTainted(last->guard->predicate)) ||
                    (last->opcode == "brx" && llvm::any_of(last->operands, [&](const auto &each) {
                       return isTainted(each);
                     })));
  }

  const CfgBlock *copyOf(const CfgBlock &block) const {
    return turn->blockOf(block.instructions.front());
  }

  void visit(const CfgBlock &block) {
    if (dependence && !block.instructions.empty())
      for (const CfgBlock *branch : dependence->controllers(*copyOf(block))) {
        const CfgBlock *original = cfg.blockOf(branch->instructions.front());
        if (decides(*original) || control.contains(original))
          changed |= control.insert(&block).second;
      }
    // Lanes diverge at a branch, and may not have reconverged when the next branch executes.
    if (block.successors.size() > 1 && decides(block))
      mark(Company);
    for (std::uint32_t statement : block.instructions) {
      const Instruction &instruction = cfg.instruction(statement);
      bool tainted = control.contains(&block) ||
                     (instruction.guard && isTainted(instruction.guard->predicate)) ||
                     mayReadTaint(statement);
      if (!tainted)
        forEachReadRegister(instruction,
                            [&](const Operand &each) { tainted |= registers.contains(each.reg); });
      if (!tainted && !sources.contains(statement))
        continue;
      // The data that a copy has read does not tell whether the copy is complete.
      if (tainted && instruction.opcode == "cp")
        mark(Barriers);
      exitsInCall |= exits.contains(statement);
      forEachWrittenRegister(
          instruction, [&](const Operand &each) { changed |= registers.insert(each.reg).second; });
      write(statement);
    }
  }

  /// Marks the cells that the statement may write. With `byRoots`, a store to global memory marks
  /// only the memory of its pointer.
  void write(std::uint32_t statement) {
    const Instruction &instruction = cfg.instruction(statement);
    unsigned written = cellsWrittenBy(instruction);
    bool isAccess = isOneOf(instruction.opcode, {"st", "atom", "red", "tensormap"});
    if (byRoots && isAccess && (written & Global)) {
      written &= ~unsigned{Global};
      if (stores.insert(statement).second) {
        storedTo.add(rootsOf(statement));
        changed = true;
      }
    }
    mark(written);
    if (std::string meeting = meetingOf(instruction); !meeting.empty())
      changed |= meetings.insert(std::move(meeting)).second;
  }

  bool mayReadTaint(std::uint32_t statement) {
    const Instruction &instruction = cfg.instruction(statement);
    unsigned read = cellsReadBy(instruction);
    if ((read & cells) || (!meetings.empty() && meetings.contains(meetingOf(instruction))))
      return true;
    if (intakeOf(instruction) == Intake::Anything && !meetings.empty())
      return true;
    if (!(read & Global) || stores.empty())
      return false;
    return !isOneOf(instruction.opcode, {"ld", "ldu", "atom"}) ||
           storedTo.meets(rootsOf(statement));
  }

  const PointerRoots &rootsOf(std::uint32_t statement) {
    auto [found, isNew] = roots.try_emplace(statement);
    if (isNew)
      found->second = rootsOfAddress(cfg, *byRoots, cfg.instruction(statement));
    return found->second;
  }

  void mark(unsigned written) {
    changed |= (written & ~cells) != 0;
    cells |= written;
  }

  /// Returns the cells that `instruction` may read. No instruction may write kernel parameters.
  unsigned cellsReadBy(const Instruction &instruction) const {
    std::string_view opcode = instruction.opcode;
    switch (intakeOf(instruction)) {
    case Intake::Operands:
      return 0;
    case Intake::Carry:
      return opcode.ends_with('c') ? +Carry : 0;
    case Intake::Lanes:
      return countsCompany(instruction) ? Lanes | Company : +Lanes;
    case Intake::Cached:
    case Intake::Renewed:
      if (opcode == "ld" || opcode == "ldu" || opcode == "atom")
        return readsEntryParameter(instruction) ? 0 : cellsOf(instruction);
      if (opcode == "cp")
        return copySpacesOf(instruction).moves ? cellsOf(copySpacesOf(instruction).from) : 0;
      return AnyMemory;
    case Intake::Own:
      if (opcode == "ldmatrix")
        return cellsOf(instruction);
      if (opcode == "tensormap")
        return cellsOf(instruction) | Shared;
      return opcode == "mbarrier" ? +Barriers : opcode == "tcgen05" ? Shared | Tensor : +Shared;
    case Intake::Anything:
      break;
    }
    return AnyMemory;
  }

  bool readsEntryParameter(const Instruction &instruction) const {
    if (!instruction.has("param") || instruction.operands.size() < 2 ||
        instruction.operands[1].children.empty())
      return false;
    const Operand &base = instruction.operands[1].children[0];
    return base.kind == OperandKind::Symbol &&
           llvm::any_of(cfg.function().parameters,
                        [&](const Variable &each) { return each.name == base.symbol; });
  }

  const Cfg &cfg;
  const Loop &loop;
  llvm::DenseSet<std::uint32_t> sources, exits;
  std::optional<Cfg> turn; ///< the CFG of one turn of the loop
  std::optional<ControlDependence> dependence;
  llvm::DenseSet<RegisterId> registers;
  llvm::DenseSet<const CfgBlock *> control;
  unsigned cells = 0;                   ///< tainted cells, bits of Cell
  const Definitions *byRoots;           ///< definitions of the whole body; may be null
  llvm::DenseSet<std::uint32_t> stores; ///< stores of tainted values to global memory, with byRoots
  PointerRoots storedTo;                ///< roots of `stores`
  std::map<std::uint32_t, PointerRoots> roots; ///< roots of the statements' addresses
  std::set<std::string> meetings;              ///< tainted keys of meetingOf
  bool exitsInCall = false;
  bool changed = false;
};

} // namespace

bool decideWhenItEnds(const Cfg &cfg, const Loop &loop, llvm::ArrayRef<std::uint32_t> sources,
                      llvm::ArrayRef<std::uint32_t> exits, const Definitions *byRoots) {
  return Taint(cfg, loop, sources, exits, byRoots).reachesExit();
}

} // namespace tally::ptx
