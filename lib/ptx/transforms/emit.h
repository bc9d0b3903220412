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

/// `.reg` declarations of everything that the texts below use.
std::string declarations();

/// Tally's registers at the body's begin, and its shared variables: `$tally_block`, four words, the
/// first nonzero when the block leaves, then the virtual %ctaid, unless it is the module's, which
/// clones share, with the extents behind (clones.h); and with `spent` `$tally_spent`, one word.
/// ptxas lays out the entry's shared variables as they are declared, then the module's, then the
/// dynamic ones: a large variable before all others moves them by its size
/// (KernelAnalysis::tallySharedBytes).
void declare(FunctionEditor &editor, const PassInput &input, bool ofModule, bool spent = false);

/// %tally_other = this is not thread 0.
std::string testLeader();

/// Skips to `label` in all threads but the block's first.
std::string unlessLeader(std::string_view label);

/// The same where each instruction counts that all warps issue: of the other threads most learn it
/// by one of the three ids. %tally_other is set for those that go on behind `label`.
std::string unlessLeaderInTurn(std::string_view label);

/// Modifiers of a global load that sees what others write meanwhile: "relaxed.gpu.global", or
/// "volatile.global" before sm_70 and PTX 6.0. A plain load may hit a stale line for ever.
std::string_view strongGlobal(const Module &module);

/// %tally_d0 = the control word. One load, strong enough to see the host's write.
std::string loadControl(const Module &module);

/// %tally_yield = the epoch of the control word in %tally_d0 is greater than the launch's.
std::string judge();

/// Both.
std::string poll(const Module &module);

/// loadControl(), and %tally_d2 = the launch's state. Goes to `label` unless the word is what it
/// mostly is: of the launch's epoch, no limit to the workers, the mode to run. For thread 0 alone.
std::string quickPoll(const Module &module, std::string_view label);

/// Appends the 32-bit `id` to list_out.
std::string appendToList(std::string_view id);

/// %tally_id = the block's linear id in the grid that was launched.
std::string physicalLinearId();

/// %tally_id = list_in[`index`], a physical index.
std::string idFromList(std::string_view index);

/// `into` = the virtual %ctaid of the linear id in %tally_id.
std::string decode(unsigned dimension, const std::string &into);

/// Above any count of blocks and workers: the limit of counters that must never wrap.
inline constexpr std::uint32_t counterLimit = 0xfffffffe;

/// %tally_d2 = the launch's state.
std::string loadState();

/// The same in thread 0, whose ids are 0: of an address that it can tell to be the same as
/// elsewhere in a loop ptxas makes one that it keeps in registers through the whole body, or loads
/// from the parameters right before its use, where that load is waited for.
std::string loadOpaqueState(char threadId);

/// %tally_id = the next virtual block that nobody has taken, after loadState().
std::string takeIndex();

/// Divides the linear id in `%tally_id` by the user's extents and stores x, y, z in $tally_block;
/// `inCluster` adds the block's position in its cluster, where the id is the cluster's first
/// block's.
std::string decodeToShared(bool inCluster = false);

/// Which of the virtual ids are used: none, %ctaid.x, or any.
enum class IdWords { None, X, All };

/// Divides the linear id in `%tally_id` and stores a flag of 0 and the ids in $tally_block, or
/// elsewhere, at once.
std::string publish(IdWords words, std::string_view at = "$tally_block");

/// %tally_flag and %tally_ctaid_… = what is published, by one load.
std::string loadPublished(IdWords words, std::string_view at = "$tally_block");

/// The same by two slots of eight bytes in $tally_block, which a loop takes in turn; %tally_ids, a
/// register that the loop declares, is the address of the one for its next block. Of all ids the
/// first word is %ctaid.x, negative where the block leaves (it is below 2^31), the second %ctaid.y
/// and, in its upper half, %ctaid.z (below 2^16 both). Otherwise they are the flag and %ctaid.x:
/// packed into one word they took `reduction` of benchmarks/variants 0.7 % of its time, as ptxas
/// gave out registers so that each turn waited for a load's address to be read.
std::string firstSlot();
std::string publishInSlot(IdWords words);
std::string publishLeaveInSlot();
/// Reads what is there, leaves by `leave` if that says so, and goes over to the other slot.
std::string loadFromSlot(IdWords words);

/// `into` = 0, of which ptxas cannot know that: the low byte of a slot's stride, which is a
/// multiple of 256 (tally/bundle/abi.h).
std::string opaqueZero(std::string_view into);

/// %tally_flag = the first word of $tally_block.
std::string loadAgreed();

/// Leaves by `leave` if that says so.
std::string leaveIfAgreed(std::string_view leave);

/// Meets at barrier 0, then does both.
std::string agreeOrLeave(std::string_view leave = "ret");

/// Stores the user's extents in words 4 to 6 of $tally_block, for clones.
std::string storeExtents();

/// Text that loads a virtual id: (dimension, register) -> instructions.
using GridLoad = llvm::function_ref<std::string(unsigned, const std::string &)>;

/// Where a function reads its virtual %ctaid and %nctaid.
struct GridSources {
  GridLoad index, extent;
  /// Where given, what a straight run of its statements reads of %ctaid is read at the first of
  /// them: reads of shared memory do not move past the user's stores, so what waits for them would
  /// be issued one after the other.
  const Function *together = nullptr;
};

/// Replaces each read of a grid register by one of a fresh register, loaded just before; %clusterid
/// and %nclusterid by %ctaid and %nctaid divided by the cluster's extent.
void replaceGridUses(FunctionEditor &editor, const FunctionFacts &facts,
                     const GridSources &sources);

std::string loadIndexFromShared(unsigned dimension, const std::string &into);
std::string loadExtentFromShared(unsigned dimension, const std::string &into);
std::string loadExtentFromParameters(unsigned dimension, const std::string &into);

/// The instruction's guard as text, a blank behind it; empty without one.
std::string guardOf(const Instruction &instruction);

/// A block barrier in the form that does not promise that the warp is whole.
std::string unalignedBarrier(const Statement &barrier);

/// Whether control can run off the end of the body: the last instruction lets it through, or a
/// label after it can be branched to.
bool mayReachEnd(const Function &function);

} // namespace tally::ptx::emit

#endif
