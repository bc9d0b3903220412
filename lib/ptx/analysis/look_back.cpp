#include "look_back.h"

#include "linear_bounds.h"
#include "pointer_roots.h"
#include "shared_writes.h"
#include "tally/ptx/analysis/opcodes.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/GenericDomTreeConstruction.h"

namespace tally::ptx {
namespace {

class LookBack {
public:
  LookBack(const Cfg &cfg, const Definitions &whole, llvm::ArrayRef<std::uint32_t> reads,
           llvm::ArrayRef<std::uint32_t> writes)
      : cfg(cfg), whole(whole), reads(reads), writes(writes) {
    dominators.recalculate(const_cast<Cfg &>(cfg));
  }

  BlockOrder order() {
    if (isShown({}, std::nullopt))
      return BlockOrder::Blocks;
    std::optional<std::uint32_t> atom = ticket();
    // Either each thread has its own ticket, or the block has one: a sum never has both.
    bool shown = atom && (isShown({*atom}, atom) || isShown(copiesOf(*atom), atom));
    return shown ? BlockOrder::Tickets : BlockOrder::None;
  }

private:
  bool isShown(const std::set<std::uint32_t> &sources, std::optional<std::uint32_t> atom) const {
    if (atom && sources.empty())
      return false;
    LinearBounds bounds(cfg, whole, sources);
    auto bound = [&](std::uint32_t statement, bool upper) -> std::optional<LinearForm> {
      const Operand *address = singleAddressOf(cfg.instruction(statement));
      auto form = address ? bounds.of(address->children[0], statement, upper) : std::nullopt;
      if (form)
        form->constant += static_cast<std::int64_t>(address->bits);
      return form;
    };
    for (std::uint32_t read : reads) {
      auto last = bound(read, true);
      std::int64_t bytes = accessedBytes(cfg.instruction(read));
      if (!last || bytes == 0)
        return false;
      std::int64_t stride = last->factorOf({});
      if (stride <= 0)
        return false;
      auto lowest = bound(read, false);
      bool looksBack = false;
      for (std::uint32_t write : writes) {
        if (write == atom)
          continue;
        auto first = bound(write, false);
        if (first && first->terms != last->terms)
          first = whereItStands(bounds, write, *first, last->terms);
        if (!first || first->terms != last->terms ||
            stride + first->constant - last->constant < bytes)
          return false;
        looksBack |= !lowest || lowest->terms != first->terms || lowest->constant < first->constant;
      }
      // If no block writes the word, another kernel or the host does. A block need not await its
      // own word.
      if (!looksBack)
        return false;
    }
    return true;
  }

  /// Returns the bound `form` with the terms `wanted`, valid at `write`: under "x == y" it may add
  /// a multiple of x - y.
  std::optional<LinearForm> whereItStands(LinearBounds &bounds, std::uint32_t write,
                                          const LinearForm &form,
                                          const std::map<Unknown, std::int64_t> &wanted) const {
    const CfgBlock *at = cfg.blockOf(write);
    for (auto *node = dominators.getNode(at); node; node = node->getIDom()) {
      auto zero = differenceThatIsZero(bounds, *node->getBlock());
      if (!zero || zero->isConstant())
        continue;
      const auto &[unknown, factor] = *zero->terms.begin();
      auto target = wanted.find(unknown);
      std::int64_t missing = (target == wanted.end() ? 0 : target->second) - form.factorOf(unknown);
      if (missing % factor != 0)
        continue;
      LinearForm other = form;
      other.add(*zero, missing / factor);
      if (other.terms == wanted)
        return other;
    }
    return std::nullopt;
  }

  /// Returns x - y where control enters `block` only by a branch on x == y.
  std::optional<LinearForm> differenceThatIsZero(LinearBounds &bounds,
                                                 const CfgBlock &block) const {
    if (block.predecessors.size() != 1)
      return std::nullopt;
    const CfgBlock &before = *block.predecessors[0];
    const Instruction *branch = cfg.terminator(before);
    if (!branch || !branch->guard || before.successors.size() != 2)
      return std::nullopt;
    llvm::ArrayRef<std::uint32_t> assigned = whole.of(branch->guard->predicate.reg);
    if (assigned.size() != 1)
      return std::nullopt;
    const Instruction &test = cfg.instruction(assigned[0]);
    if (test.opcode != "setp" || test.guard || test.modifiers.size() != 2 ||
        test.operands.size() != 3 || test.operands[0].kind != OperandKind::Register ||
        !(test.modifiers[1].ends_with("32") && !test.modifiers[1].starts_with("f")))
      return std::nullopt;
    bool taken = before.successors[0] == &block;
    bool holds = taken != branch->guard->predicate.negated;
    if (test.modifiers[0] != (holds ? "eq" : "ne"))
      return std::nullopt;
    auto x = exact(bounds, test.operands[1], assigned[0]),
         y = exact(bounds, test.operands[2], assigned[0]);
    return x && y ? std::optional(x->add(*y, -1)) : std::nullopt;
  }

  static std::optional<LinearForm> exact(LinearBounds &bounds, const Operand &operand,
                                         std::uint32_t at) {
    auto low = bounds.of(operand, at, false), high = bounds.of(operand, at, true);
    bool same = low && high && low->terms == high->terms && low->constant == high->constant;
    return same ? low : std::nullopt;
  }

  /// Returns the only statement that takes a ticket, at most once in each thread, or nothing.
  std::optional<std::uint32_t> ticket() const {
    std::optional<std::uint32_t> result;
    PointerRoots awaited;
    for (std::uint32_t read : reads)
      awaited.add(rootsOfAddress(cfg, whole, cfg.instruction(read)));
    for (std::uint32_t write : writes) {
      const Instruction &atom = cfg.instruction(write);
      if (!isCountUp(atom) || isOnCycle(*cfg.blockOf(write)))
        continue;
      PointerRoots counter = rootsOfAddress(cfg, whole, atom);
      bool alone = !counter.unknown && counter.known.size() == 1 && !counter.meets(awaited) &&
                   isOneWord(write);
      for (const auto &block : cfg.blocks())
        for (std::uint32_t each : block->instructions)
          alone &= each == write || !mayWriteShared(cfg.instruction(each)) ||
                   !counter.meets(rootsOfAddress(cfg, whole, cfg.instruction(each)));
      if (!alone)
        continue;
      if (result)
        return std::nullopt;
      result = write;
    }
    return result;
  }

  static bool isCountUp(const Instruction &atom) {
    return atom.opcode == "atom" && atom.has("add") && atom.operands.size() == 3 &&
           atom.operands[0].kind == OperandKind::Register &&
           atom.operands[2].kind == OperandKind::Integer && atom.operands[2].bits >= 1 &&
           atom.operands[2].bits < 1024 && atom.modifiers.back().ends_with("32");
  }

  /// Whether the address is the same for the whole launch.
  bool isOneWord(std::uint32_t atom) const {
    const Operand *address = singleAddressOf(cfg.instruction(atom));
    LinearBounds bounds(cfg, whole, {atom});
    auto form = address ? exact(bounds, address->children[0], atom) : std::nullopt;
    return form && form->factorOf({}) == 0;
  }

  /// Returns the loads of shared memory that can see only the block's ticket: on every path to them
  /// all stores to shared memory store tickets to that place.
  std::set<std::uint32_t> copiesOf(std::uint32_t atom) const {
    std::set<std::uint32_t> copies;
    for (const auto &block : cfg.blocks())
      for (std::uint32_t statement : block->instructions)
        if (const Instruction &load = cfg.instruction(statement);
            load.opcode == "ld" && load.has("shared") && !load.guard && accessedBytes(load) == 4 &&
            load.operands.size() == 2 && load.operands[0].kind == OperandKind::Register &&
            seesOnlyTickets(*block, statement, atom))
          copies.insert(statement);
    return copies;
  }

  bool seesOnlyTickets(const CfgBlock &block, std::uint32_t load, std::uint32_t atom) const {
    const Operand *place = singleAddressOf(cfg.instruction(load));
    if (!place || place->children[0].kind != OperandKind::Symbol)
      return false;
    bool any = false;
    auto passes = [&](std::uint32_t statement) {
      const Instruction &each = cfg.instruction(statement);
      if (!mayWriteBlockMemory(each))
        return true;
      const Operand *target = singleAddressOf(each);
      bool isTicket =
          each.opcode == "st" && each.has("shared") && accessedBytes(each) == 4 && target &&
          target->children[0].kind == OperandKind::Symbol &&
          target->children[0].symbol == place->children[0].symbol &&
          target->bits + target->children[0].bits == place->bits + place->children[0].bits &&
          each.operands[1].kind == OperandKind::Register &&
          whole.of(each.operands[1].reg) == llvm::ArrayRef(atom);
      any |= isTicket;
      return isTicket;
    };
    for (std::uint32_t statement : block.instructions) {
      if (statement == load)
        break;
      if (!passes(statement))
        return false;
    }
    llvm::SmallVector<const CfgBlock *, 8> worklist = {&block};
    std::set<const CfgBlock *> seen;
    while (!worklist.empty())
      for (const CfgBlock *before : worklist.pop_back_val()->predecessors) {
        if (before == &block || !seen.insert(before).second)
          continue;
        if (!llvm::all_of(before->instructions, passes))
          return false;
        worklist.push_back(before);
      }
    return any && !isOnCycle(block);
  }

  static bool isOnCycle(const CfgBlock &block) {
    llvm::SmallVector<const CfgBlock *, 8> worklist = {&block};
    std::set<const CfgBlock *> seen;
    while (!worklist.empty())
      for (const CfgBlock *next : worklist.pop_back_val()->successors) {
        if (next == &block)
          return true;
        if (seen.insert(next).second)
          worklist.push_back(next);
      }
    return false;
  }

  const Cfg &cfg;
  const Definitions &whole;
  llvm::ArrayRef<std::uint32_t> reads, writes;
  llvm::DominatorTreeBase<CfgBlock, false> dominators;
};

} // namespace

BlockOrder lookBackOrder(const Cfg &cfg, const Definitions &whole,
                         llvm::ArrayRef<std::uint32_t> reads,
                         llvm::ArrayRef<std::uint32_t> writes) {
  return LookBack(cfg, whole, reads, writes).order();
}

} // namespace tally::ptx
