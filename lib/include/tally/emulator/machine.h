// Executes PTX on the CPU. Used in two ways: as a microscope (Machine::run: one grid, one host
// thread, a seeded schedule, a callback at every poll) and, by runtime's emulator device, as a GPU
// (GridExecution: blocks of several grids on several host threads).
//
// What it does not model: caches and timing (%clock counts the
// block's warp-instructions), weak memory order. Approximate instructions are computed to well
// within the errors that the PTX ISA states. What it lacks it names when a thread reaches it.
#ifndef TALLY_EMULATOR_MACHINE_H
#define TALLY_EMULATOR_MACHINE_H

#include "tally/emulator/texture.h"
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
#include <vector>

namespace tally::emulator {

using DevicePtr = std::uint64_t;

/// Why a run stopped. The message says what, at which PTX line, by which block and thread.
enum class FaultKind : std::uint8_t {
  OutOfBounds,
  Misaligned,
  BarrierMisuse,
  Deadlock,
  Trap,
  Assertion, ///< a call of __assertfail
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

/// Takes the text of one vprintf by one thread. Called by whichever thread runs the block.
using Printer = std::function<void(std::string_view)>;

/// Global memory and loaded programs. Memory calls are thread-safe; run() calls of one machine may
/// overlap in time only through GridExecution.
class Machine {
public:
  /// `hostAddressed`: device addresses are those of host memory, so that host and kernels can share
  /// pointers. Where the process has no room for that, isHostAddressed() says so.
  explicit Machine(bool hostAddressed = false);
  ~Machine();
  bool isHostAddressed() const;

  /// Fails where an operand cannot be decoded; an instruction that the emulator lacks is named when
  /// it is reached (FaultKind::Unimplemented), not here.
  Result<std::shared_ptr<const Program>> load(const ptx::Module &module);
  /// Links the modules, in this order: what one declares `.extern` another may define, of `.weak`
  /// definitions the first counts, names without linkage are each module's own. Fails where a name
  /// is defined twice.
  Result<std::shared_ptr<const Program>> load(std::span<const ptx::Module *const> modules);
  /// Gives back the memory of the program's variables. No kernel of it runs or is launched again.
  void unload(const Program &program);

  /// 256-byte aligned, filled with a byte pattern (0xA5) so that unwritten output shows. Reads and
  /// writes by kernels outside allocations fault.
  Result<DevicePtr> allocate(std::size_t bytes);
  /// The same, filled with zeros; large pieces take host memory only where they are used.
  Result<DevicePtr> allocateZeroed(std::size_t bytes);
  Result<void> free(DevicePtr pointer);
  /// Lets kernels use this host memory at its own address until free(); the machine is
  /// isHostAddressed().
  Result<void> adopt(std::span<std::byte> memory);
  /// Host view of [pointer, pointer+bytes); fails unless inside one allocation.
  Result<std::span<std::byte>> view(DevicePtr pointer, std::size_t bytes);

  /// The memory that kernels may use around `pointer`: its first address and its size. Fails where
  /// there is none.
  Result<std::span<std::byte>> allocationAt(DevicePtr pointer);

  /// A handle that kernels pass to tex, suld and sust. The memory is theirs while they use it.
  std::uint64_t createTexture(const Texture &texture);
  Result<void> destroyTexture(std::uint64_t handle);

  /// Without a printer vprintf prints nothing and returns 0. Set it before kernels run.
  void setPrinter(Printer printer);

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
struct KernelParameter {
  std::uint32_t offset = 0, bytes = 0; ///< in the parameter space
};
struct KernelInfo {
  std::uint32_t parameterBytes = 0, staticSharedBytes = 0, maxThreadsPerBlock = 1024;
  std::uint32_t localBytes = 0;    ///< per thread, of the kernel itself
  std::uint32_t constantBytes = 0; ///< of the program's `.const` variables
  Dim3 requiredCluster{0, 0, 0};   ///< zeros: none
  std::vector<KernelParameter> parameters;
};
Result<KernelInfo> kernelInfo(const Program &program, std::string_view kernel);

/// A module-scope variable of a loaded program; fails when there is none of that name.
struct ProgramVariable {
  DevicePtr address = 0;
  std::size_t bytes = 0;
  bool isConstant = false, isManaged = false;
};
Result<ProgramVariable> programVariable(const Program &program, std::string_view name);

/// A cooperative launch: all its blocks are in flight at a time, taking turns on one host thread,
/// so that they can wait for each other; cooperative groups find the grid's barrier.
enum class Residency : std::uint8_t { AsTheyCome, Cooperative };

/// One launched grid whose blocks are run one at a time by whoever calls runBlock, on any number of
/// host threads. Blocks are handed out in order of id; where the launch has clusters, whole
/// clusters are, and "block" below means one of those; of a cooperative launch it is the grid.
class GridExecution {
public:
  GridExecution(Machine &machine, std::shared_ptr<const Program> program, std::string_view kernel,
                const LaunchShape &shape, std::span<const std::byte> parameters,
                Residency residency = Residency::AsTheyCome);
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
