#include "tally/ptx/analysis/cfg.h"

#include "string_ref.h"
#include "tally/ptx/analysis/opcodes.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/raw_ostream.h"

#include <cassert>

namespace tally::ptx {
namespace {

/// Labels by scope. A label is visible in its scope and in the scopes inside it, before and after
/// its own place (PTX ISA 9.0, 5.2 and 9.7.13).
class LabelScopes {
public:
  explicit LabelScopes(const Function &function) : scopeOf(function.body.size()) {
    scopes.emplace_back();
    std::uint32_t current = 0;
    for (std::uint32_t i = 0; i != function.body.size(); ++i) {
      const Statement &statement = function.body[i];
      if (statement.kind == StatementKind::ScopeBegin) {
        scopes.push_back({current, {}});
        current = static_cast<std::uint32_t>(scopes.size() - 1);
      }
      scopeOf[i] = current;
      if (statement.kind == StatementKind::ScopeEnd)
        current = scopes[current].parent;
      else if (!statement.label.empty())
        scopes[current].labels[ref(statement.label)] = i;
    }
  }

  /// Returns the statement that declares `label` as seen from statement `from`.
  std::optional<std::uint32_t> find(std::string_view label, std::uint32_t from) const {
    for (std::uint32_t scope = scopeOf[from];; scope = scopes[scope].parent) {
      auto found = scopes[scope].labels.find(ref(label));
      if (found != scopes[scope].labels.end())
        return found->second;
      if (scope == 0)
        return std::nullopt;
    }
  }

private:
  struct Scope {
    std::uint32_t parent = 0;
    llvm::StringMap<std::uint32_t> labels;
  };
  std::vector<Scope> scopes;
  std::vector<std::uint32_t> scopeOf; ///< of each statement
};

/// Returns the labels that a terminator names: the operand of `bra`, the table's labels of
/// `brx.idx`.
llvm::SmallVector<std::string_view, 4> targetNames(const Function &function,
                                                   const LabelScopes &scopes,
                                                   const Instruction &instruction,
                                                   std::uint32_t statement) {
  llvm::SmallVector<std::string_view, 4> names;
  for (const Operand &operand : instruction.operands) {
    if (operand.kind != OperandKind::Symbol)
      continue;
    if (instruction.opcode == "bra") {
      names.push_back(operand.symbol);
    } else if (auto table = scopes.find(operand.symbol, statement)) {
      for (std::string_view name : function.body[*table].names)
        names.push_back(name);
    }
  }
  return names;
}

} // namespace

void CfgBlock::printAsOperand(llvm::raw_ostream &stream, bool) const { stream << '#' << number; }

void Cfg::addEdge(CfgBlock &from, CfgBlock &to) {
  if (llvm::is_contained(from.successors, &to))
    return;
  from.successors.push_back(&to);
  to.predecessors.push_back(&from);
}

CfgBlock *Cfg::startBlock() {
  blockList.push_back(std::make_unique<CfgBlock>());
  CfgBlock *block = blockList.back().get();
  block->parent = this;
  block->number = static_cast<unsigned>(blockList.size() - 1);
  return block;
}

Cfg::Cfg(const Cfg &whole, const std::vector<CfgBlock *> &part, const CfgBlock &entry)
    : source(whole.source), blockOfStatement(source->body.size()) {
  llvm::DenseMap<const CfgBlock *, CfgBlock *> copies;
  auto copy = [&](const CfgBlock &block) {
    CfgBlock *mine = startBlock();
    mine->instructions = block.instructions;
    for (std::uint32_t statement : block.instructions)
      blockOfStatement[statement] = mine;
    copies[&block] = mine;
  };
  copy(entry);
  for (const CfgBlock *block : part)
    if (block != &entry)
      copy(*block);
  startBlock(); // the exit
  for (const CfgBlock *block : part)
    for (const CfgBlock *next : block->successors) {
      auto target = next == &entry ? copies.end() : copies.find(next);
      addEdge(*copies[block], target == copies.end() ? exit() : *target->second);
    }
}

Cfg::Cfg(const Function &function) : source(&function), blockOfStatement(function.body.size()) {
  LabelScopes scopes(function);
  llvm::DenseMap<std::uint32_t, CfgBlock *> blockAtLabel;
  CfgBlock *current = startBlock();
  bool mustStart = false;
  for (std::uint32_t i = 0; i != function.body.size(); ++i) {
    const Statement &statement = function.body[i];
    if (statement.kind == StatementKind::Label) {
      if (mustStart || !current->instructions.empty() || blockList.size() == 1)
        current = startBlock();
      mustStart = false;
      blockAtLabel[i] = current;
    } else if (statement.kind == StatementKind::Instruction) {
      if (mustStart)
        current = startBlock();
      current->instructions.push_back(i);
      blockOfStatement[i] = current;
      mustStart = isTerminator(statement.instruction) ||
                  (statement.instruction.opcode == "trap" && !statement.instruction.guard);
    }
  }
  startBlock(); // the exit

  for (std::size_t b = 0; b + 1 != blockList.size(); ++b) {
    CfgBlock &block = *blockList[b];
    const Instruction *last = terminator(block);
    bool leaves = last && (last->opcode == "ret" || last->opcode == "exit");
    if (leaves) {
      addEdge(block, exit());
    } else if (last) {
      std::uint32_t statement = block.instructions.back();
      auto names = targetNames(function, scopes, *last, statement);
      if (names.empty() && !unresolved)
        unresolved = function.body[statement].text;
      for (std::string_view name : names) {
        auto label = scopes.find(name, statement);
        auto target = label ? blockAtLabel.find(*label) : blockAtLabel.end();
        if (target != blockAtLabel.end())
          addEdge(block, *target->second);
        else if (!unresolved)
          unresolved = name;
      }
    }
    if (!last || last->guard)
      addEdge(block, *blockList[b + 1]);
  }
  removeTraps();
}

const Instruction *Cfg::terminator(const CfgBlock &block) const {
  if (block.instructions.empty())
    return nullptr;
  const Instruction &last = instruction(block.instructions.back());
  return isTerminator(last) ? &last : nullptr;
}

void Cfg::removeTraps() {
  auto alwaysTraps = [&](const CfgBlock &block) {
    if (block.instructions.empty())
      return false;
    const Instruction &last = instruction(block.instructions.back());
    return last.opcode == "trap" && !last.guard;
  };
  std::vector<bool> doomed(blockList.size());
  llvm::SmallVector<CfgBlock *, 8> worklist;
  for (const auto &block : blockList)
    if (alwaysTraps(*block)) {
      doomed[block->number] = true;
      worklist.push_back(block.get());
    }
  while (!worklist.empty())
    for (CfgBlock *before : worklist.pop_back_val()->predecessors)
      if (!doomed[before->number] &&
          llvm::all_of(before->successors, [&](CfgBlock *next) { return doomed[next->number]; })) {
        doomed[before->number] = true;
        worklist.push_back(before);
      }
  if (doomed[0])
    return;
  for (const auto &block : blockList) {
    llvm::erase_if(block->successors, [&](CfgBlock *next) { return doomed[next->number]; });
    if (!doomed[block->number])
      continue;
    for (CfgBlock *next : block->successors)
      llvm::erase(next->predecessors, block.get());
    block->successors.clear();
    block->predecessors.clear();
  }
}

std::vector<bool> walkFrom(llvm::ArrayRef<const CfgBlock *> starts, std::size_t count,
                           bool forward) {
  std::vector<bool> met(count);
  llvm::SmallVector<const CfgBlock *, 32> worklist(starts.begin(), starts.end());
  for (const CfgBlock *start : starts)
    met[start->number] = true;
  while (!worklist.empty()) {
    const CfgBlock *block = worklist.pop_back_val();
    for (CfgBlock *next : forward ? block->successors : block->predecessors)
      if (!met[next->number]) {
        met[next->number] = true;
        worklist.push_back(next);
      }
  }
  return met;
}

} // namespace tally::ptx
