#include "tally/ptx/transforms/guard_pass.h"

#include "clones.h"
#include "emit.h"
#include "guard_without_shared.h"
#include "tally/ptx/analysis/opening.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

namespace tally::ptx {
namespace {

constexpr std::string_view own = "own-barrier", byBarrier = "told-by-barrier",
                           late = "late-agreement", sharedWord = "shared-word",
                           everyWarp = "every-warp", everyThread = "every-thread";

/// The block's flag: 1 when the block leaves.
constexpr const char *publishYield = "selp.u32 %tally_flag, 1, 0, %tally_yield;\n"
                                     "\tst.shared.u32 [$tally_block], %tally_flag;\n\t";

/// All threads of the cluster read the flag of its first block. That block lives until all have
/// read it: a block that has exited has no shared memory. The whole cluster meets at both barriers,
/// aligned like bar.sync 0.
constexpr const char *agreeInClusterOrLeave =
    "barrier.cluster.arrive.aligned;\n"
    "\tbarrier.cluster.wait.aligned;\n"
    "\tmov.u32 %tally_r0, $tally_block;\n"
    "\tmov.u32 %tally_r1, 0;\n"
    "\tmapa.shared::cluster.u32 %tally_r0, %tally_r0, %tally_r1;\n"
    "\tld.shared::cluster.u32 %tally_flag, [%tally_r0];\n"
    "\tsetp.ne.u32 %tally_leave, %tally_flag, 0;\n"
    "\tbarrier.cluster.arrive.aligned;\n"
    "\tbarrier.cluster.wait.aligned;\n"
    "\t@%tally_leave ret;\n\t";

/// Skips to `label` in all blocks of the cluster but the first.
std::string unlessFirstOfCluster(std::string_view label) {
  return fmt::format("mov.u32 %tally_r0, %cluster_ctarank;\n"
                     "\tsetp.ne.u32 %tally_other, %tally_r0, 0;\n"
                     "\t@%tally_other bra {};\n\t",
                     label);
}

std::string agreement(const PassInput &input) {
  return "\n$tally_agree:\n\t" +
         (input.analysis.usesClusters ? agreeInClusterOrLeave : emit::agreeOrLeave());
}

/// Stores the extents for clones, which read them besides the ids.
std::string extentsForClones(const PassInput &input) {
  return input.analysis.cloned.empty() ? "" : emit::storeExtents();
}

/// Puts the block on the list.
std::string append() { return emit::physicalLinearId() + emit::appendToList("%tally_id"); }

/// Code behind the body for a block that leaves, beginning with `first`. There it is out of the way
/// of blocks that stay.
void appendBehindBody(FunctionEditor &editor, const Function &function,
                      const std::string &first = {}) {
  if (emit::mayReachEnd(function))
    editor.insertAtBodyEnd("\n$tally_end:\n\tret;\n");
  editor.insertAtBodyEnd(fmt::format("\n$tally_left:\n\t{}@%tally_other bra $tally_gone;\n\t{}"
                                     "\n$tally_gone:\n\tret;\n",
                                     first, append()));
}

EditedText entryToldByWord(const PassInput &input) {
  FunctionEditor editor(input.function);
  emit::beginVariant(editor, input, Kind::Guard);
  emit::declare(editor, input, false);
  std::string start = emit::unlessLeader("$tally_agree");
  if (input.analysis.usesClusters) {
    start += unlessFirstOfCluster("$tally_agree") + emit::poll(input.module) + publishYield +
             "@!%tally_yield bra $tally_agree;\n\t" + append() + agreement(input);
  } else {
    start += emit::poll(input.module) + publishYield + "\n$tally_agree:\n\t" +
             emit::agreeOrLeave("bra $tally_left");
    appendBehindBody(editor, input.function);
  }
  editor.insertAtBodyStart(start);
  return editor.apply();
}

/// Whether the block's own poll decides: the block is in no cluster and takes no ticket.
bool pollsForItself(const PassInput &input) {
  return !input.analysis.usesClusters && input.analysis.waits != bundle::Waits::LowerBlocks;
}

bool canAgreeLate(const PassInput &input) {
  return pollsForItself(input) && openingOf(input.function).loads != 0;
}

std::optional<OwnBarrier> barrierToAgreeAt(const PassInput &input) {
  return pollsForItself(input) ? ownBarrierOf(input.function) : std::nullopt;
}

/// Begins thread 0's poll; no thread waits for its load here.
std::string beginPoll(const PassInput &input) {
  return emit::unlessLeader("$tally_polled") + emit::loadControl(input.module) +
         "\n$tally_polled:\n\t";
}

/// Keeps ptxas from moving the poll behind the copies that follow, as it tends to: it assumes that
/// the load returns at once. Costs no instruction where ptxas knows that the warp is whole.
std::string keepPollFirst(const Module &module) {
  return module.versionMajor() >= 6 && module.targetArch() >= 70 ? "bar.warp.sync -1;\n\t" : "";
}

/// The first entry where the block agrees at the body's own first barrier, behind everything before
/// it.
EditedText entryAtOwnBarrier(const PassInput &input, const OwnBarrier &meeting) {
  FunctionEditor editor(input.function);
  emit::beginVariant(editor, input, Kind::Guard);
  emit::declare(editor, input, false);
  editor.insertAtBodyStart(beginPoll(input) + keepPollFirst(input.module));
  editor.insertBefore(meeting.end, "@%tally_other bra $tally_agree;\n\t" + emit::judge() +
                                       publishYield + "\n$tally_agree:\n\t");
  editor.insertBefore(meeting.barrier + 1, emit::loadAgreed());
  editor.insertBefore(meeting.leave, emit::leaveIfAgreed("bra $tally_left"));
  appendBehindBody(editor, input.function, meeting.copies ? "cp.async.wait_all;\n\t" : "");
  return editor.apply();
}

/// The first entry where the block agrees behind the body's opening, which runs while thread 0's
/// poll is in flight. The append to the list is inline: otherwise ptxas turns thread 0's part into
/// predicated instructions, which all warps issue.
EditedText lateEntry(const PassInput &input) {
  FunctionEditor editor(input.function);
  emit::beginVariant(editor, input, Kind::Guard);
  emit::declare(editor, input, false);
  editor.insertAtBodyStart(beginPoll(input));
  std::string agree = "@%tally_other bra $tally_agree;\n\t" + emit::judge() + publishYield +
                      "@!%tally_yield bra $tally_agree;\n\t" + append() + agreement(input);
  editor.insertBefore(openingOf(input.function).end, agree);
  return editor.apply();
}

/// The first entry where a barrier reduction tells the block what thread 0 has seen: three
/// instructions in each warp, where a shared word takes eight with its address. The block agrees
/// behind the body's opening, if it has one. The append to the list is inline, and the block leaves
/// where it has agreed: otherwise ptxas turns thread 0's part into predicated instructions, which
/// all warps issue; and behind a branch it no longer assumes whole warps, and tests before each
/// shuffle.
EditedText entryToldByBarrier(const PassInput &input) {
  FunctionEditor editor(input.function);
  emit::beginVariant(editor, input, Kind::Guard);
  std::string judgement = emit::judge() +
                          "not.pred %tally_other, %tally_yield;\n"
                          "\t@%tally_other bra $tally_agree;\n\t" +
                          append() +
                          "\n$tally_agree:\n\tbar.red.and.pred %tally_stay, 0, %tally_other;\n"
                          "\t@!%tally_stay ret;\n\t";
  bool late = canAgreeLate(input);
  editor.insertAtBodyStart(
      emit::declarations() + emit::unlessLeaderInTurn(late ? "$tally_polled" : "$tally_agree") +
      emit::loadControl(input.module) + (late ? "\n$tally_polled:\n\t" : judgement));
  if (late)
    editor.insertBefore(openingOf(input.function).end,
                        "@%tally_other bra $tally_agree;\n\t" + judgement);
  return editor.apply();
}

/// Returns the prelude that each warp may run on its own poll, if it is longer than an opening.
std::optional<Prelude> preludeOfWarps(const PassInput &input) {
  if (!pollsForItself(input) || input.module.versionMajor() < 6 || input.module.targetArch() < 70)
    return std::nullopt;
  std::optional<Prelude> prelude = preludeOf(input.function);
  return prelude && prelude->end > openingOf(input.function).end ? prelude : std::nullopt;
}

/// The first entry where each warp polls, beside the body's opening, and executes or skips the
/// prelude by its own poll. The block agrees behind the prelude: it leaves if any warp has seen
/// that it should, so all warps of a block that stays have executed the prelude. Lanes of a warp
/// may load different values of the word; the vote makes one value of them, so that no warp
/// diverges.
EditedText entryByWarps(const PassInput &input, const Prelude &prelude) {
  FunctionEditor editor(input.function);
  emit::beginVariant(editor, input, Kind::Guard);
  editor.insertAtBodyStart(emit::declarations() + emit::loadControl(input.module));
  editor.insertBefore(openingOf(input.function).end,
                      emit::judge() + "vote.sync.any.pred %tally_any, %tally_yield, -1;\n"
                                      "\t@%tally_any bra $tally_agree;\n\t");
  editor.insertBefore(prelude.end, "\n$tally_agree:\n"
                                   "\tbar.red.or.pred %tally_leave, 0, %tally_any;\n"
                                   "\t@%tally_leave bra $tally_left;\n\t");
  appendBehindBody(editor, input.function, emit::testLeader());
  return editor.apply();
}

/// Every block decodes its own id; the cluster's first block decides whether the cluster yields.
std::string resumeInCluster(const PassInput &input) {
  return emit::idFromList("%clusterid.x") + emit::decodeToShared(true) + extentsForClones(input) +
         unlessFirstOfCluster("$tally_agree") + emit::poll(input.module) + publishYield +
         "@!%tally_yield bra $tally_agree;\n\t" + emit::appendToList("%tally_id");
}

std::string resumeAlone(const PassInput &input) {
  return emit::poll(input.module) + publishYield + emit::idFromList("%ctaid.x") +
         "@%tally_yield bra $tally_list;\n\t" + emit::decodeToShared() + extentsForClones(input) +
         "bra.uni $tally_agree;\n\n$tally_list:\n\t" + emit::appendToList("%tally_id");
}

EditedText resumeEntry(const PassInput &input) {
  FunctionEditor editor(input.function);
  emit::beginVariant(editor, input, Kind::Guard, true);
  emit::declare(editor, input, !input.analysis.cloned.empty());
  editor.insertAtBodyStart(
      emit::unlessLeader("$tally_agree") +
      (input.analysis.usesClusters ? resumeInCluster(input) : resumeAlone(input)) +
      agreement(input));
  emit::replaceGridUses(editor, *input.analysis.facts,
                        {emit::loadIndexFromShared, emit::loadExtentFromParameters});
  redirectCalls(editor, input.function, input.analysis);
  return editor.apply();
}

EditedText ticketedEntry(const PassInput &input) {
  FunctionEditor editor(input.function);
  emit::beginVariant(editor, input, Kind::Guard);
  emit::declare(editor, input, !input.analysis.cloned.empty());
  editor.insertAtBodyStart(emit::unlessLeader("$tally_agree") + emit::poll(input.module) +
                           publishYield + "@%tally_yield bra $tally_agree;\n\t" +
                           emit::loadState() + emit::takeIndex() + emit::decodeToShared() +
                           extentsForClones(input) + "\n$tally_agree:\n\t" + emit::agreeOrLeave());
  emit::replaceGridUses(editor, *input.analysis.facts,
                        {emit::loadIndexFromShared, emit::loadExtentFromParameters});
  redirectCalls(editor, input.function, input.analysis);
  return editor.apply();
}

/// Whether the kernel declares blocks of the largest size, 32 warps. Two of them fill an SM, so no
/// other warp hides the latency of work that all of them do at the same time, and reading a
/// barrier's result is slow for so many warps: an H200 took 1.032 of the user's time in place of
/// 1.026.
bool declaresWideBlocks(const Function &function) {
  for (std::string_view name : {"maxntid", "reqntid"})
    if (const HeaderDirective *directive = function.directive(name)) {
      std::uint64_t threads = 1;
      for (std::uint64_t extent : directive->values)
        threads *= extent;
      return threads >= 1024;
    }
  return false;
}

/// Returns the ways to write the first entry that the body allows, the quickest first.
std::vector<Coding> firstEntries(const PassInput &input) {
  std::vector<Coding> codings;
  if (barrierToAgreeAt(input))
    codings.push_back({own});
  if (canAgreeLate(input))
    codings.push_back({late});
  codings.push_back({sharedWord});
  if (pollsForItself(input))
    codings.insert(
        declaresWideBlocks(input.function)
            ? codings.end()
            : llvm::find_if(codings, [](const Coding &each) { return each.name != own; }),
        {byBarrier});
  if (std::optional<Prelude> prelude = preludeOfWarps(input))
    codings.insert(prelude->loops && declaresWideBlocks(input.function) ? codings.begin()
                                                                        : codings.end(),
                   {everyWarp});
  return codings;
}

EditedText firstEntry(const PassInput &input, std::string_view coding) {
  if (coding == own)
    return entryAtOwnBarrier(input, *barrierToAgreeAt(input));
  if (coding == byBarrier)
    return entryToldByBarrier(input);
  if (coding == everyWarp)
    return entryByWarps(input, *preludeOfWarps(input));
  return coding == late ? lateEntry(input) : entryToldByWord(input);
}

} // namespace

std::vector<Coding> GuardPass::codings(const PassInput &input) const {
  if (!input.analysis.mayAvoidShared || input.analysis.mustAvoidShared)
    return {};
  std::vector<Coding> codings = firstEntries(input);
  codings.push_back({everyThread, /*onlyForOccupancy=*/true});
  return codings;
}

std::vector<EditedText> GuardPass::run(const PassInput &input) const {
  if (input.analysis.mustAvoidShared || input.coding == everyThread)
    return guardWithoutShared(input);
  if (input.analysis.waits == bundle::Waits::LowerBlocks)
    return {ticketedEntry(input)};
  std::string_view coding = input.coding.empty() ? firstEntries(input)[0].name : input.coding;
  return {firstEntry(input, coding), resumeEntry(input)};
}

} // namespace tally::ptx
