#include "turns.h"

#include "tally/ptx/analysis/opcodes.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallVector.h"

#include <bit>
#include <cstdlib>

namespace tally::ptx {
namespace {

/// Limit on the mask of a remainder loop behind an unrolled loop. A larger mask has another
/// purpose.
constexpr std::int64_t greatestRemainder = 255;

/// Whether it is `add reg, reg, constant` without a guard, of integers of 32 or 64 bits, or `add
/// reg, reg, reg`.
bool isStep(const Instruction &instruction) {
  bool subtracts = instruction.opcode == "sub";
  return !instruction.guard && (instruction.opcode == "add" || subtracts) &&
         instruction.modifiers.size() == 1 &&
         (instruction.modifiers[0].ends_with("32") || instruction.modifiers[0].ends_with("64")) &&
         !instruction.modifiers[0].starts_with("f") && instruction.operands.size() == 3 &&
         instruction.operands[0].kind == OperandKind::Register &&
         instruction.operands[1].kind == OperandKind::Register &&
         (instruction.operands[2].kind == OperandKind::Integer ||
          (!subtracts && instruction.operands[2].kind == OperandKind::Register));
}

/// Whether a path of at least one edge leads from `from` to `to` inside `loop` without `avoided`.
bool canReach(const Loop &loop, const CfgBlock &from, const CfgBlock &to, const CfgBlock &avoided) {
  std::vector<bool> seen(loop.contains.size());
  llvm::SmallVector<const CfgBlock *, 16> worklist = {&from};
  while (!worklist.empty())
    for (const CfgBlock *next : worklist.pop_back_val()->successors) {
      if (!loop.has(*next) || next == &avoided || seen[next->number])
        continue;
      if (next == &to)
        return true;
      seen[next->number] = true;
      worklist.push_back(next);
    }
  return false;
}

} // namespace

bool mayTurnWithout(const Loop &loop, const CfgBlock &block) {
  return !loop.header ||
         (&block != loop.header && canReach(loop, *loop.header, *loop.header, block));
}

const CfgBlock *latchOf(const Cfg &cfg, const CfgBlock &header, llvm::ArrayRef<CfgBlock *> blocks) {
  const CfgBlock *latch = nullptr;
  for (const CfgBlock *before : header.predecessors) {
    if (!llvm::is_contained(blocks, before))
      continue;
    if (latch)
      return nullptr;
    latch = before;
  }
  const Instruction *branch = latch ? cfg.terminator(*latch) : nullptr;
  if (!branch || branch->opcode != "bra" || branch->operands.size() != 1 ||
      branch->operands[0].kind != OperandKind::Symbol)
    return nullptr;
  // A fall-through to the header is no branch to it.
  bool twoWays = branch->guard && latch->successors.size() != 2;
  std::string_view label = branch->operands[0].symbol;
  const Function &function = cfg.function();
  std::uint32_t at = header.instructions.front();
  while (at > 1 && function.body[at - 1].kind != StatementKind::Instruction) {
    --at;
    if (function.body[at].kind == StatementKind::Label && function.body[at].label == label)
      return twoWays ? nullptr : latch;
  }
  return nullptr;
}

Turns::Turns(const Cfg &cfg, const Loop &loop, const Definitions &all)
    : cfg(cfg), loop(loop), all(all), inside(cfg, loop) {
  llvm::SetVector<RegisterId> assigned;
  for (const CfgBlock *block : loop.blocks)
    for (std::uint32_t statement : block->instructions)
      forEachWrittenRegister(cfg.instruction(statement),
                             [&](const Operand &each) { assigned.insert(each.reg); });
  for (RegisterId reg : assigned) {
    if (inside.of(reg).size() != 1)
      continue;
    const Instruction &definition = cfg.instruction(inside.of(reg)[0]);
    // Either `add r, r, c`, or `add s, r, c` and a copy of s into r.
    RegisterId next = isStep(definition) ? reg : copiedRegister(definition);
    if (next == noRegister || !comesByOnceEachTurn(inside.of(reg)[0]))
      continue;
    if (auto counter = counterBetween(reg, next))
      (counter->stride == noRegister ? counters : strided).push_back(*counter);
  }
}

bool Turns::comesByOnceEachTurn(std::uint32_t statement) const {
  const CfgBlock *block = cfg.blockOf(statement);
  return block && loop.has(*block) && !mayTurnWithout(loop, *block) &&
         (block == loop.header || !canReach(loop, *block, *block, *loop.header));
}

std::optional<Turns::Counter> Turns::counterBetween(RegisterId from, RegisterId to) const {
  if (inside.of(to).size() != 1)
    return std::nullopt;
  std::uint32_t statement = inside.of(to)[0];
  const Instruction &add = cfg.instruction(statement);
  if (!isStep(add) || !comesByOnceEachTurn(statement))
    return std::nullopt;
  const Operand &one = add.operands[1], &other = add.operands[2];
  auto holdsCounter = [&](const Operand &operand) {
    return operand.reg == from || (from == to && isCopiedBefore(from, operand.reg, statement));
  };
  bool isFirst = holdsCounter(one);
  if (other.kind == OperandKind::Register) {
    const Operand &stride = isFirst ? other : one;
    if ((!isFirst && !holdsCounter(other)) || inside.contains(stride.reg) ||
        !stride.component.empty())
      return std::nullopt;
    return Counter{from, to, 0, stride.reg};
  }
  auto step = static_cast<std::int64_t>(other.bits);
  if (!isFirst || step == 0)
    return std::nullopt;
  return Counter{from, to, add.opcode == "sub" ? -step : step};
}

/// Whether `copy` holds, at the loop's only assignment of `reg`, the value of `reg` at the turn's
/// begin.
bool Turns::isCopiedBefore(RegisterId reg, RegisterId copy, std::uint32_t statement) const {
  if (inside.of(copy).size() != 1)
    return false;
  std::uint32_t at = inside.of(copy)[0];
  const Instruction &instruction = cfg.instruction(at);
  if (instruction.opcode != "mov" || copiedRegister(instruction) != reg || !comesByOnceEachTurn(at))
    return false;
  const CfgBlock *from = cfg.blockOf(at), *to = cfg.blockOf(statement);
  return from == to ? at < statement : canReach(loop, *from, *to, *loop.header);
}

/// Returns the value that the statement assigns: of several possible values the least, or the
/// greatest. Compilers write a remainder loop behind an unrolled loop; its counter begins with the
/// low bits of a value.
std::optional<std::int64_t> Turns::extremeOf(std::uint32_t statement, bool least) const {
  const Instruction &instruction = cfg.instruction(statement);
  if (instruction.guard || instruction.operands.size() < 2)
    return std::nullopt;
  auto ofRegister = [&](RegisterId reg, bool least) -> std::optional<std::int64_t> {
    // The definition stands earlier in the text, so the search ends in a loop of copies.
    if (reg == noRegister || all.of(reg).size() != 1 || all.of(reg)[0] >= statement)
      return std::nullopt;
    return extremeOf(all.of(reg)[0], least);
  };
  const Operand &source = instruction.operands[1];
  if (instruction.opcode == "mov" && source.kind == OperandKind::Integer)
    return static_cast<std::int64_t>(source.bits);
  if (instruction.opcode == "mov")
    return ofRegister(copiedRegister(instruction), least);
  if (instruction.opcode == "neg" && source.kind == OperandKind::Register) {
    auto negated = ofRegister(source.reg, !least);
    return negated ? std::optional(-*negated) : std::nullopt;
  }
  if (instruction.opcode != "and" || instruction.operands.size() != 3 ||
      instruction.operands[2].kind != OperandKind::Integer)
    return std::nullopt;
  auto mask = static_cast<std::int64_t>(instruction.operands[2].bits);
  if (mask < 0 || mask > greatestRemainder)
    return std::nullopt;
  return least ? 0 : mask;
}

std::optional<std::int64_t> Turns::initialOf(const Counter &counter) const {
  std::optional<std::int64_t> initial;
  for (std::uint32_t statement : all.of(counter.reg)) {
    if (llvm::is_contained(inside.of(counter.reg), statement))
      continue;
    if (initial)
      return std::nullopt;
    initial = extremeOf(statement, counter.step > 0);
    if (!initial)
      return std::nullopt;
  }
  return initial;
}

std::optional<std::uint64_t> Turns::constant() const {
  std::optional<std::uint64_t> fewest;
  for (const CfgBlock *block : loop.blocks) {
    const Instruction *branch = cfg.terminator(*block);
    bool leaves = llvm::any_of(block->successors, [&](CfgBlock *to) { return !loop.has(*to); });
    if (!branch || !branch->guard || !leaves || mayTurnWithout(loop, *block))
      continue;
    RegisterId predicate = branch->guard->predicate.reg;
    if (predicate == noRegister || inside.of(predicate).size() != 1)
      continue;
    const Instruction &compare = cfg.instruction(inside.of(predicate)[0]);
    if (compare.opcode != "setp" || compare.operands.size() != 3 ||
        compare.operands[1].kind != OperandKind::Register ||
        compare.operands[2].kind != OperandKind::Integer)
      continue;
    auto limit = static_cast<std::int64_t>(compare.operands[2].bits);
    for (const Counter &counter : counters) {
      RegisterId compared = compare.operands[1].reg;
      auto initial = initialOf(counter);
      if (compared != counter.reg && compared != counter.next)
        continue;
      // The test reads the counter before the step, so the step's result is further on by one step.
      std::int64_t end = compared == counter.next ? limit : limit + counter.step;
      // The initial value is unknown, such as a thread's id: at most as many turns as from 0.
      if (!initial && end <= 0)
        continue;
      std::int64_t distance = end - initial.value_or(0);
      if ((distance < 0) != (counter.step < 0))
        continue;
      auto turns = static_cast<std::uint64_t>(distance / counter.step);
      fewest = std::max<std::uint64_t>(fewest ? std::min(*fewest, turns) : turns, 1);
    }
  }
  return fewest;
}

TurnRegister Turns::registerFor(std::uint32_t turns) const {
  for (const Counter &counter : counters) {
    auto step = static_cast<std::uint64_t>(std::llabs(counter.step));
    if (isSetAtHeader(counter) && std::has_single_bit(step) &&
        step * turns <= (std::uint64_t{1} << 31))
      return {counter.reg, static_cast<std::uint32_t>((turns - 1) * step)};
  }
  return {};
}

/// Whether another instruction than `branch`, the latch's branch, reads the same value of `reg`: in
/// the loop, or behind another exit of it.
bool Turns::isReadElsewhere(RegisterId reg, std::uint32_t branch) const {
  std::vector<bool> seen(loop.contains.size());
  llvm::SmallVector<const CfgBlock *, 16> worklist(loop.blocks.begin(), loop.blocks.end());
  for (const CfgBlock *block : loop.blocks)
    seen[block->number] = true;
  const CfgBlock *latch = cfg.blockOf(branch);
  while (!worklist.empty()) {
    const CfgBlock *block = worklist.pop_back_val();
    bool isOver = false;
    for (std::uint32_t each : block->instructions) {
      const Instruction &instruction = cfg.instruction(each);
      bool reads = false;
      forEachReadRegister(instruction,
                          [&](const Operand &operand) { reads |= operand.reg == reg; });
      if (reads && each != branch)
        return true;
      if (!loop.has(*block) && !instruction.guard)
        forEachWrittenRegister(instruction,
                               [&](const Operand &operand) { isOver |= operand.reg == reg; });
      if (isOver)
        break;
    }
    if (!isOver && block != latch)
      for (const CfgBlock *next : block->successors)
        if (!seen[next->number]) {
          seen[next->number] = true;
          worklist.push_back(next);
        }
  }
  return false;
}

/// Whether the copy of the counted value comes behind the count. A copy at the turn's begin leaves
/// at the header the value from the begin of the previous turn, and in the first turn nothing.
bool Turns::isSetAtHeader(const Counter &counter) const {
  std::uint32_t copy = inside.of(counter.reg)[0], add = inside.of(counter.next)[0];
  const CfgBlock *from = cfg.blockOf(add), *to = cfg.blockOf(copy);
  return from == to ? add <= copy : canReach(loop, *from, *to, *loop.header);
}

bool Turns::isAssignedBetween(RegisterId reg, std::uint32_t from, std::uint32_t to) const {
  return llvm::any_of(inside.of(reg), [&](std::uint32_t at) { return from < at && at < to; });
}

/// Whether the statement loads a word of 32 or 64 bits of a parameter that it names.
bool Turns::loadsParameter(std::uint32_t statement, bool isWide) const {
  const Instruction &load = cfg.instruction(statement);
  return load.opcode == "ld" && load.has("param") && !load.guard && load.operands.size() == 2 &&
         load.modifiers.size() == 2 && load.modifiers[1].ends_with(isWide ? "64" : "32") &&
         load.operands[1].kind == OperandKind::Address &&
         load.operands[1].children[0].kind == OperandKind::Symbol;
}

StripLoop Turns::stripFor(std::uint32_t turns) const {
  const CfgBlock *latch = latchOf(cfg, *loop.header, loop.blocks);
  if (!latch)
    return {};
  StripLoop strip;
  strip.branch = latch->instructions.back();
  const Instruction &branch = cfg.instruction(strip.branch);
  if (!branch.guard || inside.of(branch.guard->predicate.reg).size() != 1)
    return {};
  strip.compare = inside.of(branch.guard->predicate.reg)[0];
  const Instruction &compare = cfg.instruction(strip.compare);
  if (cfg.blockOf(strip.compare) != latch || compare.guard || compare.opcode != "setp" ||
      compare.modifiers.size() != 2 || compare.operands.size() != 3 ||
      compare.operands[0].kind != OperandKind::Register ||
      compare.operands[1].kind != OperandKind::Register ||
      isAssignedBetween(compare.operands[1].reg, strip.compare, strip.branch))
    return {};
  // With its branch before the comparison, the inner loop does not set the comparison's outcome,
  // and must have no other exit than this branch.
  bool isNext = latch->instructions.size() >= 2 &&
                latch->instructions[latch->instructions.size() - 2] == strip.compare;
  bool isFree = isNext && !isReadElsewhere(branch.guard->predicate.reg, strip.branch);
  strip.turnsAt = isFree ? strip.compare : strip.branch;
  const Operand &limit = compare.operands[2];
  if (limit.kind != OperandKind::Integer && limit.kind != OperandKind::Register)
    return {};
  std::string_view type = compare.modifiers[1];
  strip.isWide = type.ends_with("64");
  strip.isSigned = type.starts_with("s");
  if ((!strip.isWide && !type.ends_with("32")) || type.starts_with("f"))
    return {};
  if (limit.kind == OperandKind::Register && inside.contains(limit.reg)) {
    strip.limitLoad = inside.of(limit.reg)[0];
    // The load must be the only definition: otherwise a turn that skips the load compares with
    // another.
    if (all.of(limit.reg).size() != 1 || !loadsParameter(*strip.limitLoad, strip.isWide))
      return {};
  }
  // Another turn needs the comparison, or its opposite where the branch tests the negated
  // predicate.
  std::string_view test = compare.modifiers[0];
  bool negated = branch.guard->predicate.negated;
  auto holds = [&](std::initializer_list<std::string_view> straight,
                   std::initializer_list<std::string_view> opposite) {
    return llvm::is_contained(negated ? opposite : straight, test);
  };
  strip.isExact = holds({"ne"}, {"eq"});
  bool upwards = holds({"lt", "le", "lo", "ls"}, {"ge", "gt", "hs", "hi"});
  bool downwards = holds({"gt", "ge", "hi", "hs"}, {"le", "lt", "ls", "lo"});
  auto isCut = [&](const Counter &counter) {
    // The total of that many strides is unknown: with a test for equality the counter might pass
    // the limit.
    if (counter.stride != noRegister)
      return upwards;
    auto step = static_cast<std::uint64_t>(std::llabs(counter.step));
    return step <= (std::uint64_t{1} << 30) / turns &&
           (strip.isExact || (counter.step > 0 ? upwards : downwards));
  };
  for (const Counter &counter : llvm::concat<const Counter>(counters, strided)) {
    bool isWide = cfg.instruction(inside.of(counter.next)[0]).modifiers[0].ends_with("64");
    if ((compare.operands[1].reg != counter.reg && compare.operands[1].reg != counter.next) ||
        !isSetAtHeader(counter) || isWide != strip.isWide || !isCut(counter))
      continue;
    strip.counter = counter.reg;
    strip.step = counter.step;
    strip.stride = counter.stride;
    strip.turns = turns;
    return strip;
  }
  return {};
}

} // namespace tally::ptx
