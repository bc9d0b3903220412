// Which registers and which branches are the same for all threads of a block, or of a warp.
#ifndef TALLY_PTX_ANALYSIS_UNIFORMITY_H
#define TALLY_PTX_ANALYSIS_UNIFORMITY_H

#include "tally/ptx/analysis/control_dependence.h"
#include "tally/ptx/analysis/opcodes.h"
#include "tally/ptx/analysis/register_values.h"

#include <vector>

namespace tally::ptx {

/// How far a value may differ; each includes the ones before it.
enum class Variation : std::uint8_t {
  None,    ///< one value for all threads of a thread block
  Warps,   ///< one value for all threads of a warp, provided that %ntid.x is a multiple of 32
  Threads, ///< anything
};

/// A forward data-flow over the values of registers (register_values.h) and control, to a fixed
/// point from "everything uniform":
///
/// * A result varies as its sources and its guard do, and as its opcode says: thread ids, lane ids,
///   clocks, atomics, shuffles, calls, textures and unknown opcodes vary by thread. Loads vary by
///   thread but those of kernel parameters, constants and ld.global.nc (which the ISA lets assume
///   read-only memory) from a uniform address.
/// * A value assigned under a branch varies as the branch does, and as the branches that decide on
///   that one do (sync dependence). A loop's blocks depend on the loop's exits, so a value that
///   leaves a loop with a divergent exit is divergent too (temporal divergence).
///
/// * A value is followed as `b + lane` with b a multiple of 32 that the warp shares (%tid.x, or
///   %ctaid.x * %ntid.x + %tid.x, given rows of whole warps): shifting out or masking the lane, or
///   comparing with a multiple of 32, leaves a value of the warp.
///
/// Of a function that is no entry all arguments are taken to vary by thread.
///
/// A wrong "uniform" would be unsound; a wrong "varies" only refuses a kernel.
class Uniformity {
public:
  Uniformity(const Cfg &cfg, const ControlDependence &dependence);

  /// Of whatever `reg` may ever hold.
  Variation ofRegister(RegisterId reg) const { return variations[reg]; }
  /// How the decision whether `block` runs varies: the iterated control dependence.
  Variation ofControl(const CfgBlock &block) const { return control[block.number]; }
  /// The same of one instruction: its block and its guard.
  Variation ofExecution(std::uint32_t statement) const;
  /// How the way that `block` takes at its end varies, not counting whether it runs.
  Variation ofBranch(const CfgBlock &block) const;

private:
  void assumeArgumentsVary();
  Variation ofValue(const Operand &operand) const { return variations[values.of(operand)]; }
  Variation ofOperand(const Operand &operand) const;
  Variation ofResult(const Instruction &instruction, ResultKind kind) const;
  Variation ofLoad(const Instruction &instruction) const;
  Variation ofPure(const Instruction &instruction) const;
  bool update();

  /// Of integers, modulo 32; meets downwards: Unset; Zero or WarpSize, then Aligned; Thread, then
  /// Lane; Other.
  enum class Shape : std::uint8_t {
    Unset, ///< no assignment seen yet
    Zero,
    WarpSize, ///< 32
    Aligned,  ///< a multiple of 32, the warp's
    Thread,   ///< %tid.x
    Lane,     ///< such a multiple plus the thread's lane
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
  /// Notes what a value may be; whether that is new.
  bool add(RegisterValues::Id value, Variation variation, Shape shape);

  const Cfg &cfg;
  const ControlDependence &dependence;
  RegisterValues values;
  std::vector<Variation> variations; ///< of values
  std::vector<Variation> control;    ///< of blocks
  std::vector<Shape> shapes;         ///< of values
  Variation carry = Variation::None; ///< of the condition code that add.cc and its kin leave
  bool hasLocalParameters = false;
};

} // namespace tally::ptx

#endif
