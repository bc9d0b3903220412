// The control-flow graph of one function body, with the interface of LLVM's generic graph
// algorithms.
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
/// The graph leaves out a block that always ends in `trap`, together with the edges into it: once a
/// thread traps, the launch is an error whatever the other threads do, so such paths bind no
/// analysis. (If even the entry always traps, these blocks stay.)
class Cfg {
public:
  explicit Cfg(const Function &function);
  /// Builds the graph of one turn of a loop: copies of `part`, blocks of `whole`, beginning with
  /// `entry`. Edges to `entry` and edges out of `part` lead to the exit block. `entry` comes first;
  /// the other blocks keep the order of `part`.
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

  /// Returns the block of the statement, or null for a statement that is no instruction.
  CfgBlock *blockOf(std::uint32_t statement) const { return blockOfStatement[statement]; }
  const Instruction &instruction(std::uint32_t statement) const {
    return source->body[statement].instruction;
  }
  /// Returns the last instruction of `block` if it decides where control goes, else null.
  const Instruction *terminator(const CfgBlock &block) const;
  /// Returns the text of the first label or target that names nothing; the parser accepts such
  /// names.
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

/// Returns, by block number, whether a walk along successors (or predecessors) from `starts` meets
/// a block. `count` is the number of blocks; `starts` count as met.
std::vector<bool> walkFrom(llvm::ArrayRef<const CfgBlock *> starts, std::size_t count,
                           bool forward);

/// Whether each loop is entered at a single block.
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
