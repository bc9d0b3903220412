// Executes PTX on the CPU. Used in two ways: as a microscope (Machine::run: one grid, one host
// thread, a seeded schedule, a callback at every poll) and, by runtime's emulator device, as a GPU
// (GridExecution: blocks of several grids on several host threads).
//
// What it does not model: caches and timing (%clock counts the
// block's warp-instructions), weak memory order, printing (a call of vprintf does nothing and
// returns 0). Approximate instructions are computed to well within the errors that the PTX ISA
// states. What it lacks it names when a thread reaches it.
#ifndef TALLY_EMULATOR_MACHINE_H
#define TALLY_EMULATOR_MACHINE_H

#include "tally/ptx/ir/module.h"
#include "tally/support/dim3.h"
#include "tally/support/result.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tally::emulator {

using DevicePtr = std::uint64_t;

/// Why a run stopped. The message says what, at which PTX line, by which block and thread.
enum class FaultKind : std::uint8_t {
  OutOfBounds,
  Misaligned,
  BarrierMisuse,
  Deadlock,
  Trap,
  Unimplemented,
  StepLimit,
  BadLaunch ///< no such kernel, or a shape or parameters that do not fit it
};
struct Fault {
  FaultKind kind;
  std::string message;
  std::uint32_t line = 0;               ///< 1-based, in the module's text
  Dim3 block{0, 0, 0}, thread{0, 0, 0}; ///< physical
};

/// How blocks and warps interleave. Seed 0 is the plain order: blocks by id, each warp as far as it
/// goes, the lowest program counter first. Any other seed picks the block, the warp, the divergent
/// path and how long it runs at random.
struct Schedule {
  std::uint64_t seed = 0;
  /// Blocks in flight at a time: the wave of the microscope. Of clusters as many as fit, one at
  /// least.
  std::uint32_t residentBlocks = 4;
};

/// Called before the thread's read of the watched address takes effect, so what it stores there is
/// what the thread sees. `index` counts reads by warps since the watch was set, from 0 (a warp's
/// lanes reading it in one instruction are one read).
using ReadObserver = std::function<void(std::uint64_t index)>;

/// A decoded module, immutable, shared by any number of threads. Module-scope variables are
/// allocated and initialised in the machine that loads it.
class Program;

/// Global memory and loaded programs. Memory calls are thread-safe; run() calls of one machine may
/// overlap in time only through GridExecution.
class Machine {
public:
  Machine();
  ~Machine();

  /// Fails where an operand cannot be decoded; an instruction that the emulator lacks is named when
  /// it is reached (FaultKind::Unimplemented), not here.
  Result<std::shared_ptr<const Program>> load(const ptx::Module &module);

  /// 256-byte aligned, filled with a byte pattern (0xA5) so that unwritten output shows. Reads and
  /// writes by kernels outside allocations fault.
  Result<DevicePtr> allocate(std::size_t bytes);
  Result<void> free(DevicePtr pointer);
  /// Host view of [pointer, pointer+bytes); fails unless inside one allocation.
  Result<std::span<std::byte>> view(DevicePtr pointer, std::size_t bytes);

  /// One observer at a time; an empty one ends the watch. `pointer` is 8-byte aligned.
  void watchReads(DevicePtr pointer, ReadObserver observer);

  /// Runs one grid to its end on the calling thread. Returns the fault that stopped it, if any.
  std::optional<Fault> run(const Program &program, std::string_view kernel,
                           const LaunchShape &shape, std::span<const std::byte> parameters,
                           const Schedule &schedule = {});

  /// Thread-instructions executed by all runs so far.
  std::uint64_t executedThreadInstructions() const;

  /// How many warp-instructions one run(), or one block of a GridExecution, may take before it ends
  /// with FaultKind::StepLimit.
  void setStepLimit(std::uint64_t warpInstructions);
  /// What kernels launched from now on read in %nsmid; 1 unless set.
  void setVirtualSmCount(std::uint32_t count);
  static constexpr std::uint64_t defaultStepLimit = std::uint64_t{1} << 33;

private:
  friend class GridExecution;
  struct State;
  std::unique_ptr<State> state;
};

/// Facts of a loaded kernel; fails when there is no such entry.
struct KernelInfo {
  std::uint32_t parameterBytes = 0, staticSharedBytes = 0, maxThreadsPerBlock = 1024;
};
Result<KernelInfo> kernelInfo(const Program &program, std::string_view kernel);

/// One launched grid whose blocks are run one at a time by whoever calls runBlock, on any number of
/// host threads. Blocks are handed out in order of id; where the launch has clusters, whole
/// clusters are, and "block" below means one of those.
class GridExecution {
public:
  GridExecution(Machine &machine, std::shared_ptr<const Program> program, std::string_view kernel,
                const LaunchShape &shape, std::span<const std::byte> parameters);
  ~GridExecution();
  /// Whether a block is left that nobody has taken.
  bool hasBlock() const;
  /// Takes the next block and runs it to its end; false when none is left. A fault is kept for
  /// fault() and ends the grid. `virtualSm` is what the block reads in %smid.
  bool runBlock(std::uint32_t virtualSm = 0);
  /// Whether every block has been run to its end, or a fault ended the grid.
  bool finished() const;
  std::optional<Fault> fault() const;

private:
  struct State;
  std::unique_ptr<State> state;
};

} // namespace tally::emulator

#endif
