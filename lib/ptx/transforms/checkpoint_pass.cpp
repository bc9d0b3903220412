#include "tally/ptx/transforms/checkpoint_pass.h"

#include "clones.h"
#include "codings.h"
#include "emit.h"
#include "kept_counter.h"
#include "persistent_loop.h"
#include "saved_block.h"
#include "strip_loops.h"
#include "tally/bundle/abi.h"
#include "tally/ptx/analysis/opcodes.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>

namespace tally::ptx {
namespace {

/// Codings. Registers go straight to the slot (counters of strips by way of shared memory, or not),
/// or by way of local memory. The virtual ids are read when the block starts or resumes, or at each
/// use.
constexpr std::string_view counted = "counted", direct = "direct", zeroed = "zeroed",
                           staged = "staged";

Route routeOf(const PassInput &input) {
  return input.coding == staged ? Route::Staged : Route::Direct;
}

/// Writes the entry of one kernel.
class Writer {
public:
  explicit Writer(const PassInput &input)
      : input(input), plan(input.analysis.checkpoint), route(routeOf(input)), ids(usedIds(input)),
        record(input.function, plan, route, keepsCounters() ? counterWord(input) : std::string()),
        saved(input, record, route, early()), editor(input.function) {}

  EditedText run();

private:
  std::string declarations() const;
  std::string begin() const;
  std::string takeSaved() const;
  std::string loopHead() const;
  std::string agree() const;
  std::string leaderLeaves() const;
  std::string stow() const;
  std::string keepId() const;
  std::string linearId() const;
  std::string depart() const;
  std::string leave(std::string_view label) const;
  std::string restore() const;
  std::string pollAt(const SavePoint &point, unsigned number) const;
  std::string startPolling() const;
  std::string barrierWithPoll(const Instruction &barrier) const;
  std::string reduce(std::string_view into, std::string_view predicate) const {
    return fmt::format("barrier.red.or.pred {}, {}, {};\n\t", into, input.analysis.loop.barrier,
                       predicate);
  }
  std::string readWord() const;
  bool keepsCounters() const {
    return input.coding == counted || (input.coding.empty() && canKeepCounters(input));
  }
  /// Whether registers hold the virtual ids.
  bool early() const { return input.coding != zeroed && input.coding != staged; }
  /// Whether thread 0 takes the next block while others are in the last block: nothing in the body
  /// reads $tally_block, and at the points all threads have passed the points that thread 0 has
  /// passed. (As in persistent_loop.cpp.)
  bool overlaps() const { return plan.byBlock && early() && input.analysis.cloned.empty(); }
  static std::string ownEpoch(std::string_view into);
  static std::string hint();
  std::string look() const;
  static std::string laundered(std::string_view reg);
  void rewriteBarriers();
  void insertPoints();
  void appendPolls();
  std::string turnTest(const SavePoint &point) const;
  /// Cycles between polls where nothing else tells the polling turn.
  std::uint64_t budget() const {
    return std::min<std::uint64_t>(input.polls.apart(), std::numeric_limits<std::int32_t>::max());
  }
  static bool isStrip(const SavePoint &point) { return point.strip.counter != noRegister; }
  static bool usesBudget(const SavePoint &point) {
    return !point.barrier && point.turns != 1 && !isStrip(point) && point.turn.reg == noRegister;
  }
  /// Returns the branch by which a thread continues after a poll at `point`.
  static std::string goOnAt(const SavePoint &point, unsigned number) {
    return fmt::format("bra $tally_{}_{};\n\t", isStrip(point) ? "strip" : "go", number);
  }

  const PassInput &input;
  const CheckpointPlan &plan;
  Route route;
  emit::IdWords ids;
  SaveRecord record;
  SavedBlock saved;
  FunctionEditor editor;
};

std::string Writer::declarations() const {
  std::string text = record.declarations() +
                     (keepsCounters() ? declareCounterWord(input) : std::string()) +
                     ".reg .pred %tally_asked, %tally_due, %tally_polls, %tally_passes;\n"
                     "\t.reg .b32 %tally_budget, %tally_control;\n\t";
  if (!plan.byBlock)
    text += ".local .align 4 .b32 $tally_seen;\n\t";
  for (unsigned i = 0; i != plan.points.size(); ++i)
    if (isStrip(plan.points[i]))
      text += stripDeclarations(plan.points[i].strip, i + 1);
  return text;
}

/// The low half of a control word with the launch's own epoch, except for its low bits.
std::string Writer::ownEpoch(std::string_view into) {
  return fmt::format("ld.param.u32 {0}, [$tally_launch+{1}];\n\tshl.b32 {0}, {0}, {2};\n", into,
                     offsetof(tally_launch_params, epoch), TALLY_CONTROL_EPOCH_SHIFT);
}

/// Returns the code at the begin of a block, and where a saved block resumes: the block has seen no
/// request yet.
std::string Writer::startPolling() const {
  return fmt::format("{}\tmov.u32 %tally_budget, {};\n"
                     "\tmov.pred %tally_asked, 0;\n"
                     "\tmov.pred %tally_polls, 0;\n\t",
                     ownEpoch("%tally_control"), budget());
}

/// %tally_control = the control word's low half.
std::string Writer::readWord() const {
  return fmt::format("ld.param.u64 %tally_d0, [$tally_launch+{}];\n"
                     "\tcvta.to.global.u64 %tally_d0, %tally_d0;\n"
                     "\tld.{}.u32 %tally_control, [%tally_d0];\n\t",
                     offsetof(tally_launch_params, control), emit::strongGlobal(input.module));
}

/// %tally_yield = the half word read last has a greater epoch, as far as its low bytes tell. (A
/// word of an older epoch may stay for long: no thread writes for requests that come while nothing
/// runs.) look() then tests whether the word asks for a checkpoint.
std::string Writer::hint() {
  return fmt::format("{}\tsub.u32 %tally_r0, %tally_control, %tally_r0;\n"
                     "\tsetp.ge.s32 %tally_yield, %tally_r0, {};\n\t",
                     ownEpoch("%tally_r0"), 1u << TALLY_CONTROL_EPOCH_SHIFT);
}

/// %tally_yield = the control word now has a greater epoch, and the mode CHECKPOINT.
std::string Writer::look() const {
  return emit::poll(input.module) +
         fmt::format("cvt.u32.u64 %tally_r0, %tally_d0;\n"
                     "\tand.b32 %tally_r0, %tally_r0, 255;\n"
                     "\tsetp.eq.and.u32 %tally_yield, %tally_r0, {}, %tally_yield;\n\t",
                     static_cast<unsigned>(TALLY_CONTROL_CHECKPOINT));
}

/// Passes the register through the thread's own memory, at a generic address. Where a strong load
/// decides a loop's exit, ptxas assumes that the loop waits for other threads, and makes each turn
/// yield (YIELD): threads that left the loop then no longer wait behind the branch for the rest of
/// their warp (docs/design/transforms-inside.md, checkpoint). ptxas does not track a value through
/// memory.
std::string Writer::laundered(std::string_view reg) {
  return fmt::format("mov.u64 %tally_d1, $tally_seen;\n"
                     "\tcvta.local.u64 %tally_d1, %tally_d1;\n"
                     "\tst.u32 [%tally_d1], {0};\n"
                     "\tld.u32 {0}, [%tally_d1];\n\t",
                     reg);
}

/// Thread 0 resumes the block in its slot, if there is one. It does so in the loop, where it takes
/// other blocks: with a separate entrance ptxas would not know where the threads of a warp
/// reconverge in the loop's parts. Thread 0 clears the header, so a block resumes once.
std::string Writer::takeSaved() const {
  std::string text = fmt::format("ld.param.u32 %tally_r0, [$tally_launch+{}];\n"
                                 "\tsetp.eq.u32 %tally_yield, %tally_r0, 0;\n"
                                 "\t@%tally_yield bra $tally_take;\n\t",
                                 offsetof(tally_launch_params, resume)) +
                     SaveRecord::headerAddress();
  text += fmt::format("ld.global.v2.u32 {{%tally_r4, %tally_id}}, [%tally_slot];\n"
                      "\tld.param.u32 %tally_r0, [$tally_launch+{}];\n"
                      "\tsetp.ne.u32 %tally_yield, %tally_r4, %tally_r0;\n"
                      "\t@%tally_yield bra $tally_take;\n"
                      "\tld.global.u32 %tally_stopped, [%tally_slot+{}];\n"
                      "\tmov.u32 %tally_r4, 0;\n"
                      "\tst.global.u32 [%tally_slot], %tally_r4;\n\t",
                      offsetof(tally_launch_params, resume), offsetof(tally_save_slot, point));
  text += emit::publish(ids) + keepId();
  if (!input.analysis.cloned.empty())
    text.append("\t").append(emit::storeExtents());
  return text + fmt::format("\tadd.u32 %tally_stopped, %tally_stopped, {};\n"
                            "\tst.shared.u32 [$tally_block], %tally_stopped;\n"
                            "\tbra $tally_agree;\n",
                            static_cast<unsigned>(Publication::GoOn));
}

std::string Writer::begin() const {
  return enter() + (plan.byBlock ? std::string() : nobodySpent()) + toFirstTurn();
}

/// Here all threads have finished the last block, except that threads that stopped one by one have
/// exited. With overlaps() thread 0 takes the next block as soon as it has finished itself.
std::string Writer::loopHead() const {
  std::string text = "\n$tally_next:\n\t";
  if (input.analysis.copiesAsync)
    text += "cp.async.wait_all;\n\t";
  if (!overlaps())
    text += meet(input);
  if (!plan.byBlock)
    text += ifSpent("$tally_depart");
  return text + "\n$tally_turn:\n\t@%tally_other bra $tally_agree;\n\t" + takeSaved() +
         leaderTakes(input, ids) + keepId();
}

std::string Writer::agree() const {
  std::string text = "\n$tally_agree:\n\t" + meet(input) +
                     emit::loadPublished(early() ? ids : emit::IdWords::None);
  // The aligned form tells ptxas that the value read is uniform over the warp.
  bool parts = input.analysis.loop.partsWarps;
  if (overlaps() || parts)
    text += plan.keepsAligned && !parts
                ? fmt::format("bar.sync {};\n\t", input.analysis.loop.barrier)
                : meet(input);
  return text + emit::leaveIfAgreed("bra $tally_other_than_run");
}

/// Behind the body: thread 0 leaves where a request asks it to or no block is left.
std::string Writer::leaderLeaves() const {
  return "\n$tally_asked:\n\t" + emit::judge() +
         "@!%tally_yield bra $tally_index;\n"
         "\n$tally_last:\n\t" +
         countOut() +
         fmt::format("mov.u32 %tally_flag, {};\n"
                     "\tst.shared.u32 [$tally_block], %tally_flag;\n"
                     "\tbra $tally_agree;\n",
                     static_cast<unsigned>(Publication::Leave));
}

/// The code by which a worker leaves with a saved block. Threads that stop one by one have exited
/// before.
std::string Writer::depart() const {
  std::string text = "\n$tally_depart:\n\t";
  if (plan.byBlock) {
    if (input.analysis.copiesAsync)
      text += "cp.async.wait_all;\n\t";
    // All writes in flight to shared memory have landed, and no thread writes there any more.
    text += meet(input) + record.shared(Transfer::Save);
  } else {
    text += record.locate() + "mov.u32 %tally_stopped, 0;\n\t" + record.stopped(Transfer::Save);
  }
  return text + leave("gone");
}

/// A thread of the saved block exits; thread 0 first writes the slot's header. `label`: of the last
/// step.
std::string Writer::leave(std::string_view label) const {
  return fmt::format("@%tally_other bra $tally_{};\n\t", label) + SaveRecord::headerAddress() +
         emit::loadState() +
         fmt::format("red.global.inc.u32 [%tally_d2+{}], {};\n\t",
                     offsetof(tally_launch_state, saved), emit::counterLimit) +
         countOut() + linearId() +
         fmt::format("ld.param.u32 %tally_r4, [$tally_launch+{}];\n"
                     "\tor.b32 %tally_r4, %tally_r4, {};\n"
                     "\tst.global.v2.u32 [%tally_slot], {{%tally_r4, %tally_id}};\n"
                     "\tst.global.u32 [%tally_slot+{}], %tally_stopped;\n"
                     "\n$tally_{}:\n\tret;\n",
                     offsetof(tally_launch_params, epoch), TALLY_SAVED_UNDER(0),
                     offsetof(tally_save_slot, point), label);
}

/// Where not all ids are published, a free word holds the linear id of thread 0's block.
std::string Writer::keepId() const {
  return ids == emit::IdWords::All ? std::string()
                                   : "\tst.shared.u32 [$tally_block+12], %tally_id;\n";
}

/// %tally_id = the block's linear id, in thread 0.
std::string Writer::linearId() const {
  if (ids != emit::IdWords::All)
    return "ld.shared.u32 %tally_id, [$tally_block+12];\n\t";
  return fmt::format("ld.shared.v4.u32 {{%tally_flag, %tally_r0, %tally_r1, %tally_r2}}, "
                     "[$tally_block];\n"
                     "\tld.param.u32 %tally_r3, [$tally_launch+{}];\n"
                     "\tmad.lo.u32 %tally_r1, %tally_r2, %tally_r3, %tally_r1;\n"
                     "\tld.param.u32 %tally_r3, [$tally_launch+{}];\n"
                     "\tmad.lo.u32 %tally_id, %tally_r1, %tally_r3, %tally_r0;\n\t",
                     offsetof(tally_launch_params, grid) + 4, offsetof(tally_launch_params, grid));
}

/// Handles a publication of thread 0 other than a new block.
std::string Writer::restore() const {
  std::string text = fmt::format("\n$tally_other_than_run:\n"
                                 "\tsetp.eq.u32 %tally_leave, %tally_flag, {};\n"
                                 "\t@%tally_leave bra $tally_gone;\n\t",
                                 static_cast<unsigned>(Publication::Leave)) +
                     record.locate();
  if (plan.byBlock)
    text += record.shared(Transfer::Restore) +
            fmt::format("sub.u32 %tally_stopped, %tally_flag, {};\n\t",
                        static_cast<unsigned>(Publication::GoOn));
  else
    text += record.stopped(Transfer::Restore) + "setp.eq.u32 %tally_leave, %tally_stopped, 0;\n"
                                                "\t@%tally_leave bra $tally_next;\n\t";
  text += record.stage(Transfer::Restore) + record.arrays(Transfer::Restore) +
          record.largeArrays(Transfer::Restore) + startPolling();
  if (plan.byBlock)
    text += meet(input);
  return text + saved.goOn();
}

/// Behind the body: the code of a thread at `point` when a poll is due.
std::string Writer::pollAt(const SavePoint &point, unsigned number) const {
  std::string back = goOnAt(point, number);
  std::string text = fmt::format("\n$tally_poll_{}:\n\t", number);
  if (keepsCounters() && canKeepCounter(point))
    text += keepCounter(input, point, counterWord(input));
  auto proceedIf = [&](std::string_view predicate) {
    text += fmt::format("@!{} {}", predicate, back);
  };
  if (point.barrier) {
    text += "mov.pred %tally_asked, 0;\n\t";
  } else {
    if (usesBudget(point))
      text += fmt::format("mov.u32 %tally_budget, {};\n\t", budget());
    std::string judged = (plan.byBlock ? "" : laundered("%tally_control")) + hint();
    text += isStrip(point) ? readWord() + judged : judged + readWord();
    if (plan.byBlock)
      text += reduce("%tally_any", "%tally_yield");
    proceedIf(plan.byBlock ? "%tally_any" : "%tally_yield");
  }
  text += look();
  if (plan.byBlock)
    text += reduce("%tally_any", "%tally_yield");
  else
    text += "selp.u32 %tally_r0, 1, 0, %tally_yield;\n\t" + laundered("%tally_r0") +
            "setp.ne.u32 %tally_yield, %tally_r0, 0;\n\t";
  proceedIf(plan.byBlock ? "%tally_any" : "%tally_yield");
  if (route == Route::Direct)
    text += record.locate();
  return text + record.registers(point, Transfer::Save) +
         fmt::format("mov.u32 %tally_stopped, {};\n\tbra $tally_stow;\n", number);
}

/// Saves the words that a thread saves at every point. A thread that stops alone exits here: if its
/// path joined the path of the others further on, ptxas would reconverge the warp there, and not
/// behind the user's loops (docs/design/transforms-inside.md, checkpoint).
std::string Writer::stow() const {
  std::string text = "\n$tally_stow:\n\t" + record.arrays(Transfer::Save);
  if (route == Route::Staged)
    text += record.locate() + record.stage(Transfer::Save);
  text += record.largeArrays(Transfer::Save);
  if (plan.byBlock)
    return text + "bra $tally_depart;\n";
  return text + record.stopped(Transfer::Save) + saySpent() + leave("stopped");
}

std::string Writer::barrierWithPoll(const Instruction &barrier) const {
  bool aligned = plan.keepsAligned && isAlignedBarrier(barrier);
  return hint() +
         fmt::format("{}.red.or.pred %tally_asked, {}, %tally_yield;\n\t",
                     aligned ? "bar" : "barrier", barrierIdOf(barrier).text) +
         readWord();
}

/// Where a loop has several heads, barriers take the form that does not promise a whole warp
/// (docs/design/transforms-inside.md).
void Writer::rewriteBarriers() {
  for (std::uint32_t statement : input.analysis.facts->blockBarriers) {
    const Statement &barrier = input.function.body[statement];
    const Instruction &instruction = barrier.instruction;
    bool polls = false;
    for (const SavePoint &point : plan.points)
      polls |= point.barrier == statement;
    if (polls)
      editor.replace(barrier.text, barrierWithPoll(instruction));
    else if (!plan.keepsAligned)
      editor.replace(barrier.text, emit::unalignedBarrier(barrier));
  }
}

void Writer::insertPoints() {
  saved.insertWays(editor);
  for (unsigned i = 0; i != plan.points.size(); ++i) {
    const SavePoint &point = plan.points[i];
    std::string text;
    if (isStrip(point)) {
      editor.insertBefore(point.strip.turnsAt, stripTurn(input.function, point.strip, i + 1));
      editor.insertBefore(point.statement, fmt::format("@%tally_polls bra $tally_poll_{};\n"
                                                       "\tmov.pred %tally_polls, 1;\n",
                                                       i + 1) +
                                               stripBegin(input.function, point.strip, i + 1) +
                                               saved.passStrip(i));
      continue;
    }
    if (point.barrier)
      text = fmt::format("@%tally_asked bra $tally_poll_{};\n", i + 1);
    else if (point.turns == 1)
      text = fmt::format("bra $tally_poll_{};\n", i + 1);
    else if (point.turn.reg != noRegister)
      text = turnTest(point) + fmt::format("@%tally_due bra $tally_poll_{};\n", i + 1);
    else
      text = fmt::format("sub.s32 %tally_budget, %tally_budget, {};\n"
                         "\tsetp.lt.s32 %tally_due, %tally_budget, 0;\n"
                         "\t@%tally_due bra $tally_poll_{};\n",
                         point.turnCycles, i + 1);
    editor.insertBefore(point.statement, text + fmt::format("\n$tally_go_{}:\n\t", i + 1));
  }
}

/// %tally_due = the thread polls in this turn.
std::string Writer::turnTest(const SavePoint &point) const {
  const RegisterDeclaration &declaration = input.function.declarationOf(point.turn.reg);
  std::string reg = registerName(declaration, point.turn.reg), text;
  if (declaration.type.ends_with("64")) {
    text = fmt::format("cvt.u32.u64 %tally_r0, {};\n\t", reg);
    reg = "%tally_r0";
  }
  return text + fmt::format("and.b32 %tally_r0, {}, {};\n"
                            "\tsetp.eq.u32 %tally_due, %tally_r0, 0;\n\t",
                            reg, point.turn.mask);
}

void Writer::appendPolls() {
  for (unsigned i = 0; i != plan.points.size(); ++i)
    editor.insertAtBodyEnd(pollAt(plan.points[i], i + 1));
}

EditedText Writer::run() {
  emit::beginVariant(editor, input, Kind::Checkpoint);
  emit::declare(editor, input, !input.analysis.cloned.empty(), !plan.byBlock);
  editor.insertAtBodyStart(declarations() + begin() + loopHead() + agree() + startPolling() +
                           saved.begin());
  editor.insertAtBodyStart(zero(input.function, undefinedAtBodyStart(input.function)));
  // Goes before other insertions at a loop's first instruction: a resumed thread executes those
  // too.
  insertPoints();
  const FunctionFacts &facts = *input.analysis.facts;
  auto index = [&](unsigned dimension, const std::string &into) {
    return early() ? std::string() : emit::loadIndexFromShared(dimension, into);
  };
  emit::replaceGridUses(editor, facts, {index, emit::loadExtentFromParameters, &input.function});
  redirectCalls(editor, input.function, input.analysis);
  for (std::uint32_t statement : facts.leaves) {
    const Statement &leaves = input.function.body[statement];
    editor.replace(leaves.text, emit::guardOf(leaves.instruction) + "bra $tally_next;");
  }
  if (emit::mayReachEnd(input.function))
    editor.insertAtBodyEnd("\tbra $tally_next;\n");
  rewriteBarriers();
  appendPolls();
  editor.insertAtBodyEnd(leaderLeaves() + stow() + depart() + restore());
  return editor.apply();
}

} // namespace

std::vector<EditedText> CheckpointPass::run(const PassInput &input) const {
  return {Writer(input).run()};
}

std::vector<Coding> CheckpointPass::codings(const PassInput &input) const {
  std::vector<Coding> codings = {{direct}, {zeroed}, {staged, /*onlyForOccupancy=*/true}};
  if (canKeepCounters(input))
    codings.insert(codings.begin(), {counted});
  return codings;
}

SaveSizes CheckpointPass::saveSizes(const PassInput &input) const {
  SaveRecord record(input.function, input.analysis.checkpoint, routeOf(input));
  return {record.recordBytes(), record.sharedBytes()};
}

} // namespace tally::ptx
