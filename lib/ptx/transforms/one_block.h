// A worker of one block: for kernels whose workers may spend themselves, of which a launch has one
// for each block in any case. No loop, so nothing parks or spends, and no barrier is another.
#ifndef TALLY_LIB_PTX_TRANSFORMS_ONE_BLOCK_H
#define TALLY_LIB_PTX_TRANSFORMS_ONE_BLOCK_H

#include "tally/ptx/transforms/editor.h"
#include "tally/ptx/transforms/pass.h"

#include <string>
#include <vector>

namespace tally::ptx {

/// The ways to write workers, the default one first: this one where they may spend themselves.
std::vector<Coding> codingsWithOneBlock(const PassInput &input, Kind kind);

/// Whether `input` asks for it.
bool asksForOneBlock(const PassInput &input);

/// What one kind adds, as instructions that end in "\n\t"; names as emit.h has them.
struct OneBlockParts {
  std::string declarations; ///< of registers that the other parts use
  std::string blockStart;   ///< before the body, in each thread
  /// What thread 0 does where the epoch has not passed, with the control word in %tally_d0. Ends in
  /// a branch: to $tally_index, to take a block; or to $tally_judge, with another word.
  std::string asked;
};

/// Makes the entry that `editor` edits one of `kind`. What else is edited in the body must be no
/// call or read of a grid register.
void writeOneBlock(FunctionEditor &editor, const PassInput &input, Kind kind,
                   const OneBlockParts &parts);

} // namespace tally::ptx

#endif
