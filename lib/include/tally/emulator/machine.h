// Executes PTX on the CPU. Used in two ways: as a microscope (Machine::run: one grid, one host
// thread, a seeded schedule, a callback at every poll) and, by runtime's emulator device, as a GPU
// (GridExecution: blocks of several grids on several host threads).
//
// It does not model caches, timing (%clock counts the block's warp-instructions) or weak memory
// order. It computes approximate instructions to well within the errors that the PTX ISA states.
// When a thread reaches an instruction that the emulator lacks, the fault names the instruction.
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

/// Why a run stopped. The message names the cause, the PTX line, the block and the thread.
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

/// The interleaving of blocks and warps. Seed 0 is the plain order: blocks by id, each warp as far
/// as it can go, the lowest program counter first. Any other seed picks the block, the warp, the
/// divergent path and the length of its turn at random.
struct Schedule {
  std::uint64_t seed = 0;
  /// Blocks in flight at a time: the wave of the microscope. Of clusters, as many as fit but at
  /// least one.
  std::uint32_t residentBlocks = 4;
};

/// Called before the thread's read of the watched address takes effect, so the thread reads a value
/// that the observer stores there. `index` counts reads by warps since the watch was set, from 0
/// (all lanes of a warp in one instruction make one read).
using ReadObserver = std::function<void(std::uint64_t index)>;

/// A decoded module, immutable, shared by any number of threads. The machine that loads it
/// allocates and initialises the module-scope variables.
class Program;

/// Takes the text of one vprintf call of one thread. Called on the host thread that runs the block.
using Printer = std::function<void(std::string_view)>;

/// Global memory and loaded programs. Memory calls are thread-safe; run() calls of one machine may
/// overlap in time only through GridExecution.
class Machine {
public:
  /// `hostAddressed`: device addresses equal host addresses, so that host and kernels can share
  /// pointers. Where the process lacks the address space, isHostAddressed() is false.
  explicit Machine(bool hostAddressed = false);
  ~Machine();
  bool isHostAddressed() const;

  /// Fails where an operand cannot be decoded. An instruction that the emulator lacks does not fail
  /// here, but when a thread reaches it (FaultKind::Unimplemented).
  Result<std::shared_ptr<const Program>> load(const ptx::Module &module);
  /// Links the modules, in this order. A module may define what another declares `.extern`; the
  /// first of several `.weak` definitions counts; names without linkage are private to their
  /// module. Fails where a name is defined twice.
  Result<std::shared_ptr<const Program>> load(std::span<const ptx::Module *const> modules);
  /// Frees the memory of the program's variables. None of its kernels may run or be launched again.
  void unload(const Program &program);

  /// Allocates memory, 256-byte aligned and filled with a byte pattern (0xA5) so that unwritten
  /// output shows. Reads and writes by kernels outside of allocations fault.
  Result<DevicePtr> allocate(std::size_t bytes);
  /// Allocates memory filled with zeros; large allocations take host memory only where they are
  /// used.
  Result<DevicePtr> allocateZeroed(std::size_t bytes);
  Result<void> free(DevicePtr pointer);
  /// Lets kernels use this host memory at its own address until free(). The machine must be
  /// isHostAddressed().
  Result<void> adopt(std::span<std::byte> memory);
  /// Returns the host view of [pointer, pointer+bytes); fails unless it lies inside one allocation.
  Result<std::span<std::byte>> view(DevicePtr pointer, std::size_t bytes);

  /// Returns the allocation around `pointer`: its first address and its size. Fails where there is
  /// none.
  Result<std::span<std::byte>> allocationAt(DevicePtr pointer);

  /// Returns a handle that kernels pass to tex, suld and sust. The caller keeps the memory alive
  /// while kernels use it.
  std::uint64_t createTexture(const Texture &texture);
  Result<void> destroyTexture(std::uint64_t handle);

  /// Without a printer vprintf prints nothing and returns 0. Set it before kernels run.
  void setPrinter(Printer printer);

  /// Sets the observer of reads; there is one at a time, and an empty one ends the watch. `pointer`
  /// is 8-byte aligned.
  void watchReads(DevicePtr pointer, ReadObserver observer);

  /// Runs one grid to its end on the calling thread. Returns the fault that stopped it, if any.
  std::optional<Fault> run(const Program &program, std::string_view kernel,
                           const LaunchShape &shape, std::span<const std::byte> parameters,
                           const Schedule &schedule = {});

  /// Thread-instructions executed by all runs so far.
  std::uint64_t executedThreadInstructions() const;

  /// Sets how many warp-instructions one run(), or one block of a GridExecution, may take before it
  /// ends with FaultKind::StepLimit.
  void setStepLimit(std::uint64_t warpInstructions);
  /// Sets the value of %nsmid for kernels launched from now on; 1 by default.
  void setVirtualSmCount(std::uint32_t count);
  static constexpr std::uint64_t defaultStepLimit = std::uint64_t{1} << 33;

private:
  friend class GridExecution;
  struct State;
  std::unique_ptr<State> state;
};

/// Facts of a loaded kernel and its parameters; kernelInfo() fails without such an entry.
struct KernelParameter {
  std::uint32_t offset = 0, bytes = 0; ///< in the parameter space
};
struct KernelInfo {
  std::uint32_t parameterBytes = 0, staticSharedBytes = 0, maxThreadsPerBlock = 1024;
  std::uint32_t localBytes = 0;    ///< per thread, of the kernel itself
  std::uint32_t constantBytes = 0; ///< bytes of the program's `.const` variables
  Dim3 requiredCluster{0, 0, 0};   ///< zeros: none
  std::vector<KernelParameter> parameters;
};
Result<KernelInfo> kernelInfo(const Program &program, std::string_view kernel);

/// A module-scope variable of a loaded program; programVariable() fails without that name.
struct ProgramVariable {
  DevicePtr address = 0;
  std::size_t bytes = 0;
  bool isConstant = false, isManaged = false;
};
Result<ProgramVariable> programVariable(const Program &program, std::string_view name);

/// Cooperative: all blocks of the launch are in flight at a time, taking turns on one host thread,
/// so that they can wait for each other; cooperative groups find the grid's barrier.
enum class Residency : std::uint8_t { AsTheyCome, Cooperative };

/// One launched grid. Callers of runBlock run its blocks one at a time, on any number of host
/// threads. Blocks are handed out in order of id. For a launch with clusters, "block" below means a
/// whole cluster; for a cooperative launch, the grid.
class GridExecution {
public:
  GridExecution(Machine &machine, std::shared_ptr<const Program> program, std::string_view kernel,
                const LaunchShape &shape, std::span<const std::byte> parameters,
                Residency residency = Residency::AsTheyCome);
  ~GridExecution();
  /// Whether a block is left that no caller has taken.
  bool hasBlock() const;
  /// Takes the next block and runs it to its end; false when none is left. A fault ends the grid;
  /// fault() returns it. `virtualSm` is the block's %smid.
  bool runBlock(std::uint32_t virtualSm = 0);
  /// Whether every block has run to its end, or a fault ended the grid.
  bool finished() const;
  std::optional<Fault> fault() const;

private:
  struct State;
  std::unique_ptr<State> state;
};

} // namespace tally::emulator

#endif
