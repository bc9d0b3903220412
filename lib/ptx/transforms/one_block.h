// A worker of one block, for kernels whose workers may spend themselves: their launches have a
// worker for each block in any case. There is no loop, so nothing parks or spends, and all barriers
// stay as they are.
#ifndef TALLY_LIB_PTX_TRANSFORMS_ONE_BLOCK_H
#define TALLY_LIB_PTX_TRANSFORMS_ONE_BLOCK_H

#include "tally/ptx/transforms/editor.h"
#include "tally/ptx/transforms/pass.h"

#include <string>
#include <vector>

namespace tally::ptx {

/// Returns the codings of the workers, the default first. This coding is the default where workers
/// may spend themselves.
std::vector<Coding> codingsWithOneBlock(const PassInput &input, Kind kind);

/// Whether `input` asks for this coding.
bool asksForOneBlock(const PassInput &input);

/// The parts that one kind adds, as instructions that end in "\n\t"; names as in emit.h.
struct OneBlockParts {
  std::string declarations; ///< declarations of the registers that the other parts use
  std::string blockStart;   ///< before the body, in each thread
  /// Thread 0's code where the epoch has not passed, with the control word in %tally_d0. Ends in a
  /// branch: to $tally_index, to take a block; or to $tally_judge, with another word.
  std::string asked;
};

/// Makes the entry that `editor` edits an entry of `kind`. Other edits of the body must not be
/// calls or reads of grid registers.
void writeOneBlock(FunctionEditor &editor, const PassInput &input, Kind kind,
                   const OneBlockParts &parts);

} // namespace tally::ptx

#endif
