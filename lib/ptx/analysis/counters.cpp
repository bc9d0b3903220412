#include "counters.h"

#include "congruence.h"
#include "linear_bounds.h"
#include "shared_writes.h"
#include "string_ref.h"
#include "tally/ptx/analysis/opcodes.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSwitch.h"

#include <map>
#include <optional>

namespace tally::ptx {
namespace {

/// Returns c of an atom.add or red.add of an integer constant, else 0.
std::uint64_t countedBy(const Instruction &add) {
  bool isAtom = add.opcode == "atom";
  if ((!isAtom && add.opcode != "red") || !add.has("add") ||
      add.operands.size() != (isAtom ? 3 : 2))
    return 0;
  bool isInteger = llvm::StringSwitch<bool>(ref(add.modifiers.back()))
                       .Cases({"u32", "s32", "u64", "s64"}, true)
                       .Default(false);
  const Operand &step = add.operands.back();
  constexpr std::uint64_t most = 1 << 20; // far from wrapping around in one step
  return isInteger && step.kind == OperandKind::Integer && step.bits <= most ? step.bits : 0;
}

/// The content of a register as one turn of the loop sees it.
enum class Content : std::uint8_t {
  Fixed,  ///< the loop does not change it
  Ticket, ///< grows with a ticket
  Itself, ///< the register under examination: its other assignments decide
  Other
};

class Counter {
public:
  Counter(const Cfg &cfg, const Definitions &whole, const Loop &loop, std::uint32_t atom)
      : cfg(cfg), whole(whole), loop(loop), inLoop(cfg, loop), atom(atom) {}

  bool leavesAtBound() {
    return llvm::any_of(loop.blocks, [&](const CfgBlock *block) {
      const Instruction *last = cfg.terminator(*block);
      if (!last || !last->guard || block->successors.size() != 2 || !everyTurnComesBy(*block))
        return false;
      const Operand &predicate = last->guard->predicate;
      return (!loop.has(*block->successors[0]) && holdsAtBound(predicate, true)) ||
             (!loop.has(*block->successors[1]) && holdsAtBound(predicate, false));
    });
  }

private:
  bool everyTurnComesBy(const CfgBlock &block) const { return !hasCycleWithout(loop, block); }
  bool isEachTurn(std::uint32_t statement) const {
    return everyTurnComesBy(*cfg.blockOf(statement));
  }

  /// Whether `predicate` is `value` once the tickets have reached the bound.
  bool holdsAtBound(const Operand &predicate, bool value, unsigned depth = 0) {
    if (predicate.kind != OperandKind::Register || depth > maxDepth)
      return false;
    value ^= predicate.negated;
    llvm::ArrayRef<std::uint32_t> assigned = inLoop.of(predicate.reg);
    if (assigned.size() != 1 || !isEachTurn(assigned[0]))
      return false;
    const Instruction &made = cfg.instruction(assigned[0]);
    const auto &operands = made.operands;
    if (made.guard || operands[0].kind != OperandKind::Register)
      return false;
    if (made.opcode == "setp" && made.modifiers.size() == 2 && operands.size() == 3)
      return comparesAtBound(made, value);
    if (!made.has("pred"))
      return false;
    if (made.opcode == "not")
      return holdsAtBound(operands[1], !value, depth + 1);
    // One true operand makes an or true, one false operand makes an and false.
    return made.opcode == (value ? "or" : "and") && operands.size() == 3 &&
           (holdsAtBound(operands[1], value, depth + 1) ||
            holdsAtBound(operands[2], value, depth + 1));
  }

  bool comparesAtBound(const Instruction &setp, bool value) {
    // +1: true when the first operand is large, -1: when the second is.
    int grows = llvm::StringSwitch<int>(ref(setp.modifiers[0]))
                    .Cases({"ge", "gt", "hs", "hi"}, 1)
                    .Cases({"lt", "le", "lo", "ls"}, -1)
                    .Default(0);
    if (grows == 0 || setp.modifiers[1].starts_with("f"))
      return false;
    Content first = of(setp.operands[1]), second = of(setp.operands[2]);
    if (!value)
      grows = -grows;
    return (grows > 0 && first == Content::Ticket && second == Content::Fixed) ||
           (grows < 0 && first == Content::Fixed && second == Content::Ticket);
  }

  Content of(const Operand &operand) {
    switch (operand.kind) {
    case OperandKind::Integer:
    case OperandKind::Symbol:
      return Content::Fixed;
    case OperandKind::SpecialRegister:
      return llvm::StringSwitch<Content>(ref(specialRegisterName(operand)))
          .Cases({"tid", "ntid", "ctaid", "nctaid", "laneid"}, Content::Fixed)
          .Default(Content::Other);
    case OperandKind::Register:
      return operand.negated || !operand.component.empty() ? Content::Other : of(operand.reg);
    default:
      return Content::Other;
    }
  }

  Content of(RegisterId reg) {
    llvm::ArrayRef<std::uint32_t> assigned = inLoop.of(reg);
    if (assigned.empty())
      return Content::Fixed;
    if (!open.empty() && open.back() == reg)
      return Content::Itself;
    if (llvm::is_contained(open, reg) || open.size() > maxDepth)
      return Content::Other;
    open.push_back(reg);
    bool grows = llvm::is_contained(assigned, atom);
    bool isFixed = false;
    bool isKnown = llvm::all_of(assigned, [&](std::uint32_t statement) {
      if (statement == atom)
        return true;
      Content content =
          isEachTurn(statement) || isStoredTicket(statement) ? ofResult(statement) : Content::Other;
      grows |= content == Content::Ticket;
      isFixed |= content == Content::Fixed;
      return content != Content::Other;
    });
    open.pop_back();
    if (!isKnown || (isFixed && assigned.size() != 1))
      return Content::Other;
    return grows ? Content::Ticket : isFixed ? Content::Fixed : Content::Other;
  }

  /// Whether the statement is behind the atom in its block, which a turn may skip: the thread that
  /// takes the ticket executes it.
  bool isStoredTicket(std::uint32_t statement) const {
    return cfg.blockOf(statement) == cfg.blockOf(atom) && statement > atom;
  }

  Content ofResult(std::uint32_t statement) {
    const Instruction &instruction = cfg.instruction(statement);
    const auto &operands = instruction.operands;
    llvm::StringRef opcode = ref(instruction.opcode);
    if (instruction.guard || operands.size() < 2)
      return Content::Other;
    if (opcode == "shfl")
      return of(operands[1]);
    if (opcode == "ld")
      return seesOnlyTickets(instruction, statement) ? Content::Ticket : Content::Other;
    if (operands[0].kind != OperandKind::Register || instruction.has("hi") ||
        instruction.has("cc") || instruction.has("sat"))
      return Content::Other;
    bool copies = opcode == "mov" || opcode == "cvt";
    if (copies && operands.size() == 2 && llvm::all_of(instruction.modifiers, isWord))
      return of(operands[1]);
    if (opcode == "add" && operands.size() == 3)
      return sum(of(operands[1]), of(operands[2]));
    if (opcode == "sub" && operands.size() == 3 && of(operands[2]) == Content::Fixed)
      return of(operands[1]);
    if (opcode == "shl" && operands.size() == 3 && operands[2].kind == OperandKind::Integer)
      return of(operands[1]);
    if (opcode == "mul" && operands.size() == 3)
      return product(operands[1], operands[2]);
    if (opcode == "mad" && operands.size() == 4)
      return sum(product(operands[1], operands[2]), of(operands[3]));
    return Content::Other;
  }

  static Content sum(Content a, Content b) {
    if (a == Content::Fixed || b == Content::Fixed)
      return a == Content::Fixed ? b : a;
    return Content::Other;
  }

  Content product(const Operand &a, const Operand &b) {
    Content one = of(a), other = of(b);
    if (one == Content::Fixed && other == Content::Fixed)
      return Content::Fixed;
    auto isStep = [](const Operand &operand) {
      return operand.kind == OperandKind::Integer && operand.bits - 1 < (1 << 20);
    };
    return isStep(b) ? one : isStep(a) ? other : Content::Other;
  }

  /// Whether the loop writes only tickets to the place in shared memory that `load` reads.
  bool seesOnlyTickets(const Instruction &load, std::uint32_t at) {
    const Operand *place = singleAddressOf(load);
    if (!load.has("shared") || load.operands[0].kind != OperandKind::Register || !place)
      return false;
    bool any = false;
    bool all = llvm::all_of(loop.blocks, [&](const CfgBlock *block) {
      return llvm::all_of(block->instructions, [&](std::uint32_t statement) {
        const Instruction &store = cfg.instruction(statement);
        if (!mayWriteBlockMemory(store) || liesApart(store, statement, load, at))
          return true;
        bool isTicket = store.opcode == "st" && store.has("shared") && isAtSamePlace(store, load) &&
                        store.operands[1].kind == OperandKind::Register && !store.guard &&
                        isStoredTicket(statement) && of(store.operands[1]) == Content::Ticket;
        any |= isTicket;
        return isTicket;
      });
    });
    return any && all;
  }

  bool isAtSamePlace(const Instruction &store, const Instruction &load) const {
    const Operand *one = singleAddressOf(store), *other = singleAddressOf(load);
    return one && accessedBytes(store) == accessedBytes(load) &&
           one->children[0].kind == OperandKind::Symbol &&
           other->children[0].kind == OperandKind::Symbol &&
           one->children[0].symbol == other->children[0].symbol &&
           one->bits + one->children[0].bits == other->bits + other->children[0].bits;
  }

  /// The bytes of shared memory that an access may touch, from `low` up to `end`, relative to
  /// `terms`.
  struct Extent {
    std::map<Unknown, std::int64_t> terms;
    std::int64_t low = 0, end = 0;
  };

  std::optional<Extent> extentOf(const Instruction &access, std::uint32_t at) const {
    auto low = bound(access, at, false), high = bound(access, at, true);
    std::int64_t bytes = accessedBytes(access);
    if (!low || !high || bytes == 0 || low->terms != high->terms)
      return std::nullopt;
    return Extent{low->terms, low->constant, high->constant + bytes};
  }

  /// Whether bounds of both addresses show that the accesses touch different bytes of one variable,
  /// or different variables.
  bool liesApart(const Instruction &one, std::uint32_t at, const Instruction &other,
                 std::uint32_t otherAt) const {
    if ((one.opcode != "st" && one.opcode != "atom" && one.opcode != "red") || !one.has("shared"))
      return false;
    auto a = extentOf(one, at), b = extentOf(other, otherAt);
    if (!a || !b)
      return false;
    if (a->terms == b->terms)
      return a->end <= b->low || b->end <= a->low;
    return liesIn(*a) && liesIn(*b);
  }

  /// Whether the extent lies in one shared variable of this body.
  bool liesIn(const Extent &extent) const {
    if (extent.terms.size() != 1 || extent.terms.begin()->second != 1 ||
        extent.terms.begin()->first.kind != Unknown::Kind::Address || extent.low < 0)
      return false;
    for (const Statement &statement : cfg.function().body)
      for (const Variable &variable : statement.variables)
        if (variable.name == extent.terms.begin()->first.name)
          return variable.space == StateSpace::Shared && !variable.isExtern &&
                 extent.end <= static_cast<std::int64_t>(variable.sizeInBytes);
    return false;
  }

  std::optional<LinearForm> bound(const Instruction &access, std::uint32_t at, bool upper) const {
    const Operand *address = singleAddressOf(access);
    LinearBounds bounds(cfg, whole, {});
    auto form = address ? bounds.of(address->children[0], at, upper) : std::nullopt;
    if (form)
      form->constant += static_cast<std::int64_t>(address->bits);
    return form;
  }

  static constexpr unsigned maxDepth = 16;

  const Cfg &cfg;
  const Definitions &whole;
  const Loop &loop;
  Definitions inLoop;
  std::uint32_t atom;
  llvm::SmallVector<RegisterId, 8> open; ///< registers under examination
};

} // namespace

bool areCounters(const Cfg &cfg, const Definitions &whole, llvm::ArrayRef<LoopReads> loops,
                 llvm::ArrayRef<std::uint32_t> writes) {
  const Instruction *first = nullptr;
  auto counts = [&](std::uint32_t statement) {
    const Instruction &add = cfg.instruction(statement);
    std::uint64_t step = countedBy(add);
    if (step != 0 && !first)
      first = &add;
    return step != 0 && step == countedBy(*first) &&
           add.modifiers.back().substr(1) == first->modifiers.back().substr(1);
  };
  return llvm::all_of(loops,
                      [&](const LoopReads &each) {
                        return each.reads.size() == 1 && counts(each.reads[0]) &&
                               cfg.instruction(each.reads[0]).opcode == "atom" &&
                               Counter(cfg, whole, each.loop, each.reads[0]).leavesAtBound();
                      }) &&
         llvm::all_of(writes, [&](std::uint32_t write) {
           return counts(write) || llvm::all_of(loops, [&](const LoopReads &each) {
                    return areApart(cfg, whole, cfg.instruction(write),
                                    cfg.instruction(each.reads[0]));
                  });
         });
}

} // namespace tally::ptx
