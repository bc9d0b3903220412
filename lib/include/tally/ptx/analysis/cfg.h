// The control-flow graph of one function body, in the shape that LLVM's generic algorithms walk.
#ifndef TALLY_PTX_ANALYSIS_CFG_H
#define TALLY_PTX_ANALYSIS_CFG_H

#include "tally/ptx/ir/module.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/GraphTraits.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <memory>
#include <optional>
#include <vector>

namespace llvm {
class raw_ostream;
}

namespace tally::ptx {

class Cfg;

/// A straight run of instructions. The last one may be a terminator.
class CfgBlock {
public:
  unsigned number = 0;
  std::vector<std::uint32_t> instructions; ///< indices of statements in the function's body
  llvm::SmallVector<CfgBlock *, 2> successors, predecessors;

  Cfg *getParent() const { return parent; }
  void printAsOperand(llvm::raw_ostream &stream, bool printType = false) const;

private:
  friend class Cfg;
  Cfg *parent = nullptr;
};

/// Blocks of a body. Every ret, exit and the end of the body lead to one empty exit block.
///
/// A block that always ends in `trap` is left out together with the edges into it: once a thread
/// traps the launch is an error whatever the other threads do, so such paths bind no analysis. (If
/// even the entry always traps, they are kept.)
class Cfg {
public:
  explicit Cfg(const Function &function);
  /// One turn of a loop: copies of `part`, blocks of `whole`, beginning with `entry`; edges to
  /// `entry` and out of `part` lead to the exit block. Block `i` is a copy of `part`'s `i`-th, but
  /// `entry` comes first.
  Cfg(const Cfg &whole, const std::vector<CfgBlock *> &part, const CfgBlock &entry);
  Cfg(const Cfg &) = delete;
  Cfg &operator=(const Cfg &) = delete;

  const Function &function() const { return *source; }
  CfgBlock &front() { return *blockList.front(); }
  const CfgBlock &front() const { return *blockList.front(); }
  CfgBlock &exit() { return *blockList.back(); }
  const CfgBlock &exit() const { return *blockList.back(); }
  const std::vector<std::unique_ptr<CfgBlock>> &blocks() const { return blockList; }
  std::size_t size() const { return blockList.size(); }

  /// The block of the body's statement, or null for a statement that is no instruction.
  CfgBlock *blockOf(std::uint32_t statement) const { return blockOfStatement[statement]; }
  const Instruction &instruction(std::uint32_t statement) const {
    return source->body[statement].instruction;
  }
  /// The last instruction of `block` if it decides where control goes, else null.
  const Instruction *terminator(const CfgBlock &block) const;
  /// Labels or targets that the parser let through and that name nothing: the text of the first.
  std::optional<std::string_view> unresolvedLabel() const { return unresolved; }

private:
  CfgBlock *startBlock();
  void addEdge(CfgBlock &from, CfgBlock &to);
  void removeTraps();

  const Function *source;
  std::vector<std::unique_ptr<CfgBlock>> blockList; ///< entry first, exit last
  std::vector<CfgBlock *> blockOfStatement;
  std::optional<std::string_view> unresolved;
};

/// Which of `count` blocks, by number, a walk along successors (or predecessors) from `starts`
/// meets, these among them.
std::vector<bool> walkFrom(llvm::ArrayRef<const CfgBlock *> starts, std::size_t count,
                           bool forward);

/// Whether each loop is entered at one block alone.
bool everyLoopHasOneHead(const Cfg &cfg);

} // namespace tally::ptx

namespace llvm {

template <> struct GraphTraits<tally::ptx::CfgBlock *> {
  using NodeRef = tally::ptx::CfgBlock *;
  using ChildIteratorType = SmallVector<tally::ptx::CfgBlock *, 2>::iterator;
  static NodeRef getEntryNode(NodeRef node) { return node; }
  static ChildIteratorType child_begin(NodeRef node) { return node->successors.begin(); }
  static ChildIteratorType child_end(NodeRef node) { return node->successors.end(); }
};

template <> struct GraphTraits<Inverse<tally::ptx::CfgBlock *>> {
  using NodeRef = tally::ptx::CfgBlock *;
  using ChildIteratorType = SmallVector<tally::ptx::CfgBlock *, 2>::iterator;
  static NodeRef getEntryNode(Inverse<NodeRef> node) { return node.Graph; }
  static ChildIteratorType child_begin(NodeRef node) { return node->predecessors.begin(); }
  static ChildIteratorType child_end(NodeRef node) { return node->predecessors.end(); }
};

template <> struct GraphTraits<tally::ptx::Cfg *> : public GraphTraits<tally::ptx::CfgBlock *> {
  static tally::ptx::CfgBlock *get(const std::unique_ptr<tally::ptx::CfgBlock> &block) {
    return block.get();
  }
  using Iterator =
      mapped_iterator<std::vector<std::unique_ptr<tally::ptx::CfgBlock>>::const_iterator,
                      decltype(&get)>;
  using nodes_iterator = Iterator;
  static NodeRef getEntryNode(tally::ptx::Cfg *cfg) { return &cfg->front(); }
  static Iterator nodes_begin(tally::ptx::Cfg *cfg) {
    return Iterator(cfg->blocks().begin(), &get);
  }
  static Iterator nodes_end(tally::ptx::Cfg *cfg) { return Iterator(cfg->blocks().end(), &get); }
  static unsigned size(tally::ptx::Cfg *cfg) { return static_cast<unsigned>(cfg->size()); }
};

} // namespace llvm

#endif
