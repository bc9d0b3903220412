// PTX that the variants share. Every name here begins with %tally_ or $tally_.
#ifndef TALLY_LIB_PTX_TRANSFORMS_EMIT_H
#define TALLY_LIB_PTX_TRANSFORMS_EMIT_H

#include "tally/ptx/analysis/kernel_analysis.h"
#include "tally/ptx/transforms/editor.h"
#include "tally/ptx/transforms/pass.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <cstdint>
#include <string>

namespace tally::ptx::emit {

/// Renames the entry for `kind` and appends tally's parameters.
void beginVariant(FunctionEditor &editor, const PassInput &input, Kind kind, bool resume = false);

/// `.reg` declarations of all registers that the texts below use.
std::string declarations();

/// Declares tally's registers at the body's begin, and its shared variables. `$tally_block` has
/// four words: the first is nonzero when the block leaves, then comes the virtual %ctaid. With
/// `ofModule` the variable is the module's, which clones share, with the extents behind (clones.h).
/// With `spent` there is also `$tally_spent`, one word. ptxas lays out the entry's shared variables
/// in the order of declaration, then the module's, then dynamic shared memory: a large variable in
/// front of all others moves them by its size (KernelAnalysis::tallySharedBytes).
void declare(FunctionEditor &editor, const PassInput &input, bool ofModule, bool spent = false);

/// %tally_other = this thread is not thread 0.
std::string testLeader();

/// Skips to `label` in all threads but the block's first.
std::string unlessLeader(std::string_view label);

/// Like unlessLeader(), where each instruction counts that all warps issue: most other threads
/// branch after testing one of the three ids. %tally_other is set for threads that continue behind
/// `label`.
std::string unlessLeaderInTurn(std::string_view label);

/// Modifiers of a global load that sees concurrent writes of others: "relaxed.gpu.global", or
/// "volatile.global" before sm_70 and PTX 6.0. A plain load may hit a stale line for ever.
std::string_view strongGlobal(const Module &module);

/// %tally_d0 = the control word. One load, strong enough to see the host's write.
std::string loadControl(const Module &module);

/// %tally_yield = the epoch of the control word in %tally_d0 is greater than the launch's epoch.
std::string judge();

/// loadControl() and judge().
std::string poll(const Module &module);

/// loadControl(), and %tally_d2 = the launch's state. Branches to `label` unless the word has its
/// usual value: the launch's epoch, no limit on the workers, the mode RUN. For thread 0 alone.
std::string quickPoll(const Module &module, std::string_view label);

/// Appends the 32-bit `id` to list_out.
std::string appendToList(std::string_view id);

/// %tally_id = the block's linear id in the grid that was launched.
std::string physicalLinearId();

/// %tally_id = list_in[`index`], a physical index.
std::string idFromList(std::string_view index);

/// `into` = the virtual %ctaid of the linear id in %tally_id.
std::string decode(unsigned dimension, const std::string &into);

/// Above any number of blocks and workers: the limit of counters that must never wrap.
inline constexpr std::uint32_t counterLimit = 0xfffffffe;

/// %tally_d2 = the launch's state.
std::string loadState();

/// Like loadState(), in thread 0, whose ids are 0. If ptxas can tell that an address is the same
/// throughout a loop, it keeps the address in registers through the whole body, or loads it from
/// the parameters right before its use, and the use waits for that load.
std::string loadOpaqueState(char threadId);

/// %tally_id = the next virtual block that no worker has taken, after loadState().
std::string takeIndex();

/// Divides the linear id in `%tally_id` by the user's extents and stores x, y, z in $tally_block.
/// `inCluster` adds the block's position in its cluster, where the id is that of the cluster's
/// first block.
std::string decodeToShared(bool inCluster = false);

/// The virtual ids in use: none, %ctaid.x, or any.
enum class IdWords { None, X, All };

/// Divides the linear id in `%tally_id` and stores a flag of 0 and the ids by one store, in
/// $tally_block or at `at`.
std::string publish(IdWords words, std::string_view at = "$tally_block");

/// %tally_flag and %tally_ctaid_… = the published values, by one load.
std::string loadPublished(IdWords words, std::string_view at = "$tally_block");

/// The same with two slots of eight bytes in $tally_block, which a loop uses in turn. %tally_ids, a
/// register that the loop declares, is the address of the slot for its next block. With
/// IdWords::All the first word is %ctaid.x, negative where the block leaves (it is below 2^31), the
/// second %ctaid.y and, in its upper half, %ctaid.z (both below 2^16). Otherwise the words are the
/// flag and %ctaid.x: packed into one word they took `reduction` of benchmarks/variants 0.7 % of
/// its time, as ptxas allocated registers so that each turn waited for a load's address to be read.
std::string firstSlot();
std::string publishInSlot(IdWords words);
std::string publishLeaveInSlot();
/// Reads the current slot, leaves by `leave` if the slot asks for it, and switches to the other
/// slot.
std::string loadFromSlot(IdWords words);

/// `into` = a 0 that ptxas cannot know: the low byte of a slot's stride, which is a multiple of 256
/// (tally/bundle/abi.h).
std::string opaqueZero(std::string_view into);

/// %tally_flag = the first word of $tally_block.
std::string loadAgreed();

/// Leaves by `leave` if %tally_flag is set.
std::string leaveIfAgreed(std::string_view leave);

/// Meets at barrier 0, then loadAgreed() and leaveIfAgreed().
std::string agreeOrLeave(std::string_view leave = "ret");

/// Stores the user's extents in words 4 to 6 of $tally_block, for clones.
std::string storeExtents();

/// Text that loads a virtual id: (dimension, register) -> instructions.
using GridLoad = llvm::function_ref<std::string(unsigned, const std::string &)>;

/// Where a function reads its virtual %ctaid and %nctaid.
struct GridSources {
  GridLoad index, extent;
  /// If set: the first statement of a straight run reads all of %ctaid that the run reads. ptxas
  /// does not move reads of shared memory past the user's stores, so separate reads would stall one
  /// after the other.
  const Function *together = nullptr;
};

/// Replaces each read of a grid register by a read of a fresh register, loaded just before.
/// Replaces %clusterid and %nclusterid by %ctaid and %nctaid divided by the cluster's extent.
void replaceGridUses(FunctionEditor &editor, const FunctionFacts &facts,
                     const GridSources &sources);

std::string loadIndexFromShared(unsigned dimension, const std::string &into);
std::string loadExtentFromShared(unsigned dimension, const std::string &into);
std::string loadExtentFromParameters(unsigned dimension, const std::string &into);

/// Returns the instruction's guard as text with a blank behind it; empty without a guard.
std::string guardOf(const Instruction &instruction);

/// Returns a block barrier in the form that does not promise a whole warp.
std::string unalignedBarrier(const Statement &barrier);

/// Whether control can run off the end of the body: the last instruction falls through, or a branch
/// may target a label behind it.
bool mayReachEnd(const Function &function);

} // namespace tally::ptx::emit

#endif
