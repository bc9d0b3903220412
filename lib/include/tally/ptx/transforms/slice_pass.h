// slice: the grid runs as boxes of blocks, one launch each. To yield, the host stops issuing boxes.
//
// Effect. The variant is launched with a box of the user's grid; tally's parameters hold the
// box's position. Each read of %ctaid becomes physical %ctaid plus the box's offset, each read of
// %nctaid the user's extent. Nothing else changes.
//
//   before   mov.u32 %r1, %ctaid.x;
//   after    ld.param.u32 %tally_offset_x, [$tally_launch+52];
//            mov.u32 %tally_ctaid_x, %ctaid.x;
//            add.u32 %tally_ctaid_x, %tally_ctaid_x, %tally_offset_x;
//            mov.u32 %r1, %tally_ctaid_x;
//
// Each use loads the offset: that costs the fewest registers (the parameter bank is an operand of
// the addition in machine code).
//
// Invariants. The boxes of one launch of the user's kernel partition its grid and run in order, so
// each virtual block runs exactly once with its own %ctaid. A block runs to its end: slice never
// yields inside a launch.
//
// In clusters a box is a number of whole clusters; %clusterid is the virtual %ctaid over the
// cluster's extent.
//
// Refuses what every kind refuses (docs/reference/reason-codes.md): waits on other blocks, grid
// registers that the pass cannot see.
//
//   tally-ptxopt kernels.ptx --variants=slice -S -o -
#ifndef TALLY_PTX_TRANSFORMS_SLICE_PASS_H
#define TALLY_PTX_TRANSFORMS_SLICE_PASS_H

#include "tally/ptx/transforms/pass.h"

namespace tally::ptx {

class SlicePass final : public Pass {
public:
  Kind kind() const override { return Kind::Slice; }
  std::vector<EditedText> run(const PassInput &input) const override;
};

} // namespace tally::ptx

#endif
