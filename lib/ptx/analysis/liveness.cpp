#include "tally/ptx/analysis/liveness.h"

#include "tally/ptx/analysis/opcodes.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cassert>

namespace tally::ptx {
namespace {

/// Whether the instruction ends the previous value of its first operand.
bool overwrites(const Instruction &instruction, ResultKind result) {
  return !instruction.guard && result != ResultKind::None && result != ResultKind::Unknown &&
         instruction.opcode != "wgmma" && instruction.opcode != "tcgen05";
}

template <class Visit>
void forEachOverwritten(const Instruction &instruction, ResultKind result, Visit &&visit) {
  if (overwrites(instruction, result))
    forEachWrittenRegister(instruction, result, [&](const Operand &each) {
      if (each.component.empty())
        visit(each.reg);
    });
}

/// Visits everything read: guard, sources, and a first operand that is also a source.
template <class Visit>
void forEachSource(const Instruction &instruction, ResultKind result, Visit &&visit) {
  if (instruction.guard)
    visit(instruction.guard->predicate.reg);
  forEachReadRegister(instruction, result, [&](const Operand &each) { visit(each.reg); });
  if (instruction.opcode == "wgmma" || instruction.opcode == "tcgen05")
    forEachWrittenRegister(instruction, result, [&](const Operand &each) { visit(each.reg); });
}

} // namespace

Liveness::Liveness(const Cfg &cfg) : cfg(cfg), indexOf(cfg.function().registerCount, local) {
  findCrossing();
  solve();
}

void Liveness::findCrossing() {
  std::vector<std::uint32_t> writtenIn(indexOf.size(), local); // the last block that overwrote it
  for (const auto &block : cfg.blocks())
    for (std::uint32_t statement : block->instructions) {
      const Instruction &instruction = cfg.instruction(statement);
      ResultKind result = resultKindOf(instruction);
      forEachSource(instruction, result, [&](RegisterId reg) {
        if (writtenIn[reg] == block->number || indexOf[reg] != local)
          return;
        indexOf[reg] = static_cast<std::uint32_t>(crossing.size());
        crossing.push_back(reg);
      });
      forEachOverwritten(instruction, result,
                         [&](RegisterId reg) { writtenIn[reg] = block->number; });
    }
}

void Liveness::solve() {
  const auto count = static_cast<unsigned>(crossing.size());
  std::vector<llvm::BitVector> kept(cfg.size(), llvm::BitVector(count, true));
  in.assign(cfg.size(), llvm::BitVector(count));
  out = in;
  for (const auto &block : cfg.blocks())
    for (std::uint32_t statement : llvm::reverse(block->instructions)) {
      const Instruction &instruction = cfg.instruction(statement);
      ResultKind result = resultKindOf(instruction);
      forEachOverwritten(instruction, result, [&](RegisterId reg) {
        if (indexOf[reg] == local)
          return;
        kept[block->number].reset(indexOf[reg]);
        in[block->number].reset(indexOf[reg]);
      });
      forEachSource(instruction, result, [&](RegisterId reg) {
        if (indexOf[reg] != local)
          in[block->number].set(indexOf[reg]);
      });
    }
  // Blocks stand in the order of the text, so most edges lead onwards, and it is best to visit the
  // last block first.
  std::vector<CfgBlock *> worklist;
  std::vector<bool> waiting(cfg.size(), true);
  for (const auto &block : cfg.blocks())
    worklist.push_back(block.get());
  llvm::BitVector through(count);
  while (!worklist.empty()) {
    CfgBlock *block = worklist.back();
    worklist.pop_back();
    waiting[block->number] = false;
    for (const CfgBlock *next : block->successors)
      out[block->number] |= in[next->number];
    through = out[block->number];
    through &= kept[block->number];
    if (!through.test(in[block->number])) // nothing new
      continue;
    in[block->number] |= through;
    for (CfgBlock *before : block->predecessors)
      if (!waiting[before->number]) {
        waiting[before->number] = true;
        worklist.push_back(before);
      }
  }
}

std::vector<RegisterId> Liveness::namesOf(const llvm::BitVector &set) const {
  std::vector<RegisterId> names;
  for (unsigned index : set.set_bits())
    names.push_back(crossing[index]);
  llvm::sort(names);
  return names;
}

std::vector<RegisterId> Liveness::liveIn(const CfgBlock &block) const {
  return namesOf(in[block.number]);
}

std::vector<RegisterId> Liveness::liveOut(const CfgBlock &block) const {
  return namesOf(out[block.number]);
}

std::vector<RegisterId> Liveness::liveBefore(std::uint32_t statement) const {
  const CfgBlock *block = cfg.blockOf(statement);
  assert(block && "no instruction of this CFG");
  llvm::BitVector live(static_cast<unsigned>(indexOf.size()));
  for (RegisterId reg : liveOut(*block))
    live.set(reg);
  for (std::uint32_t each : llvm::reverse(block->instructions)) {
    const Instruction &instruction = cfg.instruction(each);
    ResultKind result = resultKindOf(instruction);
    forEachOverwritten(instruction, result, [&](RegisterId reg) { live.reset(reg); });
    forEachSource(instruction, result, [&](RegisterId reg) { live.set(reg); });
    if (each == statement)
      break;
  }
  std::vector<RegisterId> names;
  for (unsigned reg : live.set_bits())
    names.push_back(reg);
  return names;
}

bool Liveness::carryLiveBefore(std::uint32_t statement) const {
  const CfgBlock *block = cfg.blockOf(statement);
  assert(block && "no instruction of this CFG");
  for (auto each =
           std::lower_bound(block->instructions.begin(), block->instructions.end(), statement);
       each != block->instructions.end(); ++each) {
    const Instruction &instruction = cfg.instruction(*each);
    if (instruction.opcode == "addc" || instruction.opcode == "subc" ||
        instruction.opcode == "madc")
      return true;
    if (instruction.has("cc") && !instruction.guard)
      return false;
  }
  return false;
}

} // namespace tally::ptx
