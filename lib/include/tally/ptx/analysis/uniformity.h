// Finds the registers and branches that are the same for all threads of a block, or of a warp.
#ifndef TALLY_PTX_ANALYSIS_UNIFORMITY_H
#define TALLY_PTX_ANALYSIS_UNIFORMITY_H

#include "tally/ptx/analysis/control_dependence.h"
#include "tally/ptx/analysis/opcodes.h"
#include "tally/ptx/analysis/register_values.h"

#include <vector>

namespace tally::ptx {

/// The degree to which a value may differ between threads; each enumerator includes the previous
/// ones.
enum class Variation : std::uint8_t {
  None,    ///< one value for all threads of a thread block
  Warps,   ///< one value for all threads of a warp, provided that %ntid.x is a multiple of 32
  Threads, ///< anything
};

/// A forward data flow over the values of registers (register_values.h) and control, from
/// "everything uniform" to a fixed point:
///
/// * A result varies as its sources, its guard and its opcode do: thread ids, lane ids, clocks,
///   atomics, shuffles, calls, textures and unknown opcodes vary by thread. Loads vary by thread,
///   except loads of kernel parameters, constants and ld.global.nc (for which the ISA lets us
///   assume read-only memory) from a uniform address.
/// * A value assigned under a branch varies as the branch does, and as the branches that decide on
///   that branch do (sync dependence). A loop's blocks depend on the loop's exits, so a value that
///   leaves a loop with a divergent exit is divergent too (temporal divergence).
///
/// * The analysis follows a value as `b + lane`, where b is a multiple of 32 that the warp shares
///   (%tid.x, or %ctaid.x * %ntid.x + %tid.x, given rows of whole warps). Shifting out or masking
///   the lane, or comparing with a multiple of 32, gives one value for the warp.
///
/// All arguments of a function that is no entry are taken to vary by thread.
///
/// A wrong "uniform" would be unsound; a wrong "varies" only refuses a kernel.
class Uniformity {
public:
  Uniformity(const Cfg &cfg, const ControlDependence &dependence);

  /// Variation of any value that `reg` may ever hold.
  Variation ofRegister(RegisterId reg) const { return variations[reg]; }
  /// Variation of the decision whether `block` runs: the iterated control dependence.
  Variation ofControl(const CfgBlock &block) const { return control[block.number]; }
  /// Variation of the decision whether the instruction runs: by its block and its guard.
  Variation ofExecution(std::uint32_t statement) const;
  /// Variation of the successor that `block` takes at its end, apart from whether the block runs.
  Variation ofBranch(const CfgBlock &block) const;

private:
  void assumeArgumentsVary();
  Variation ofValue(const Operand &operand) const { return variations[values.of(operand)]; }
  Variation ofOperand(const Operand &operand) const;
  Variation ofResult(const Instruction &instruction, ResultKind kind) const;
  Variation ofLoad(const Instruction &instruction) const;
  Variation ofPure(const Instruction &instruction) const;
  bool update();

  /// The form of an integer modulo 32. Meets go downwards: Unset; Zero or WarpSize, then Aligned;
  /// Thread, then Lane; Other.
  enum class Shape : std::uint8_t {
    Unset, ///< no assignment seen yet
    Zero,
    WarpSize, ///< 32
    Aligned,  ///< a multiple of 32, the same for the warp
    Thread,   ///< %tid.x
    Lane,     ///< an Aligned value plus the thread's lane
    Other
  };
  static bool isAligned(Shape shape) {
    return shape == Shape::Zero || shape == Shape::WarpSize || shape == Shape::Aligned;
  }
  static bool isLane(Shape shape) { return shape == Shape::Thread || shape == Shape::Lane; }
  static Shape meet(Shape a, Shape b);
  static Shape sum(Shape a, Shape b);
  Shape shapeOfOperand(const Operand &operand) const;
  static Shape shapeOfShift(Shape left, const Operand &by);
  Shape shapeOfProduct(const Operand &a, const Operand &b) const;
  Shape shapeOfResult(const Instruction &instruction) const;
  bool dropsLane(const Instruction &instruction) const;
  /// Adds a variation and a shape to `value`. Returns whether that changed anything.
  bool add(RegisterValues::Id value, Variation variation, Shape shape);

  const Cfg &cfg;
  const ControlDependence &dependence;
  RegisterValues values;
  std::vector<Variation> variations; ///< of values
  std::vector<Variation> control;    ///< of blocks
  std::vector<Shape> shapes;         ///< of values
  Variation carry = Variation::None; ///< variation of the condition code that .cc instructions set
  bool hasLocalParameters = false;
};

} // namespace tally::ptx

#endif
