// Leads the threads of a saved block back to the points at which they stopped (checkpoint_pass.h).
//
// Control reaches a point in a nested loop through the heads of the enclosing loops, so that each
// loop of the variant has one entrance:
//
//   before   OUTER: <part> INNER: <turn>; @more bra INNER; <part>; @again bra OUTER;
//   after    OUTER: if (passes) goto inside;    // behind the body, but in OUTER's loop:
//            <part> INNER: ...                  // inside: passes = 0; registers live in INNER
//            alone;
//                                               //         goto INNER
//
// Registers that are live at OUTER's head have values before it, as for a block that begins. If
// ptxas knew at some head whether the block passes, it would route a passing block around the
// heads. So `passes` comes from a parameter that ptxas cannot know.
#ifndef TALLY_LIB_PTX_TRANSFORMS_SAVED_BLOCK_H
#define TALLY_LIB_PTX_TRANSFORMS_SAVED_BLOCK_H

#include "save_record.h"
#include "tally/ptx/transforms/editor.h"
#include "tally/ptx/transforms/pass.h"

#include <optional>
#include <string>

namespace tally::ptx {

/// Thread 0's publication in the first word of $tally_block; from GoOn on, the point at which a
/// saved block resumes.
enum class Publication : unsigned { Run = 0, Leave = 1, GoOn = 2 };

class SavedBlock {
public:
  /// `early`: registers hold the virtual ids.
  SavedBlock(const PassInput &input, const SaveRecord &record, Route route, bool early);

  /// At a block's begin: the block does not pass.
  std::string begin() const { return passes(false); }
  /// Inserts labels and recomputations before the points' loops, and the label and the test at the
  /// loops' heads. They stand right behind the heads' labels, before all other insertions.
  void insertWays(FunctionEditor &editor) const;
  /// The same test behind the label to which the strips of the point's loop branch.
  std::string passStrip(unsigned point) const;
  /// Behind restored memory: restores the registers and leads to each point.
  std::string goOn() const;

private:
  static bool isStrip(const SavePoint &point) { return point.strip.counter != noRegister; }
  std::string passes(bool value) const;
  std::string recompute(const std::vector<std::uint32_t> &statements) const;
  void enter(FunctionEditor &editor, const Entrance &entrance, const std::string &label) const;
  std::vector<unsigned> passagesTo(const SavePoint &point) const;
  std::string part(std::optional<unsigned> passage) const;
  std::string resumeAt(const SavePoint &point, unsigned number) const;
  std::string toHead(const SavePoint &point, unsigned number) const;
  bool isLiveAt(RegisterId reg, unsigned passage) const;
  std::size_t stageOf(RegisterId reg, const std::vector<unsigned> &way) const;
  std::string beforeLoop(const SavePoint &point, const std::vector<unsigned> &way,
                         std::size_t at) const;

  const PassInput &input;
  const CheckpointPlan &plan;
  const SaveRecord &record;
  Route route;
  bool early;
};

} // namespace tally::ptx

#endif
