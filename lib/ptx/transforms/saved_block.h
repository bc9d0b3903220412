// How the threads of a saved block come back to the points at which they stopped
// (checkpoint_pass.h).
//
// A point in a loop within others is come to by way of their heads, so that each loop of the
// variant is entered at one place:
//
//   before   OUTER: <part> INNER: <turn>; @more bra INNER; <part>; @again bra OUTER;
//   after    OUTER: if (passes) goto inside;                // behind the body, but in OUTER's
//   loop:
//            <part> INNER: ...                              // inside: passes = 0; what is live in
//                                                           //   INNER alone; goto INNER
//
// What is live at OUTER's head is there before it, as for those who begin. ptxas would lead who
// passes around the heads if it knew at any of them whether somebody passes: `passes` comes from a
// parameter of which it knows nothing.
#ifndef TALLY_LIB_PTX_TRANSFORMS_SAVED_BLOCK_H
#define TALLY_LIB_PTX_TRANSFORMS_SAVED_BLOCK_H

#include "save_record.h"
#include "tally/ptx/transforms/editor.h"
#include "tally/ptx/transforms/pass.h"

#include <optional>
#include <string>

namespace tally::ptx {

/// What thread 0 publishes in the first word of $tally_block; from GoOn on, the point at which a
/// saved block goes on.
enum class Publication : unsigned { Run = 0, Leave = 1, GoOn = 2 };

class SavedBlock {
public:
  /// `early`: the virtual ids stand in registers.
  SavedBlock(const PassInput &input, const SaveRecord &record, Route route, bool early);

  /// At a block's begin: nobody passes.
  std::string begin() const { return passes(false); }
  /// Labels and what is made again before the point's loop; the label and the test at a loop's
  /// head: for the places behind the heads' labels, before all else there.
  void insertWays(FunctionEditor &editor) const;
  /// The same test behind the label at which the strips of the point's loop turn.
  std::string passStrip(unsigned point) const;
  /// Behind restored memory: registers and the way to each point.
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
