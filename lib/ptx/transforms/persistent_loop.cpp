#include "persistent_loop.h"

#include "clones.h"
#include "codings.h"
#include "emit.h"
#include "tally/bundle/abi.h"
#include "tally/ptx/analysis/opcodes.h"

#include <fmt/format.h>

#include <map>

namespace tally::ptx {
namespace {

/// Codings. The virtual ids are read once when the block starts, from one of two slots or from a
/// single place; or at each use. In the last case each round sets registers that the body may read
/// before it writes them to 0, or does not; and pointers may be made to depend on the round.
constexpr std::string_view twoSlots = "two-slots", earlyIds = "early-ids", zeroed = "zeroed",
                           plain = "plain", opaque = "opaque-pointers";

/// The form of the loop.
struct LoopForm {
  bool early;        ///< registers hold the ids from the loop's head on
  emit::IdWords ids; ///< the published ids
  /// Thread 0 takes the next block as soon as it has finished the last block itself: nothing in the
  /// body reads $tally_block, and no exit from the body ends the worker. Threads meet once before
  /// they read the publication, and, without slots, once behind the read.
  bool overlaps;
  /// Two slots hold the publications in turn, so that one meeting per block is enough.
  bool slots;
};

/// With two slots no barrier in the aligned form stands behind the meeting. Where a warp may nap in
/// the body, ptxas then makes threads wait for each other behind each loop. The module must have
/// bar.warp.sync.
bool mayTakeSlots(const PassInput &input, Kind kind) {
  return kind == Kind::Persistent && input.module.versionMajor() >= 6 &&
         input.module.targetArch() >= 70;
}

LoopForm formOf(const PassInput &input, Kind kind) {
  const KernelAnalysis &analysis = input.analysis;
  bool clones = !analysis.cloned.empty();
  LoopForm form{};
  form.early = input.coding.empty() || input.coding == twoSlots || input.coding == earlyIds;
  form.overlaps = form.early && !clones && !analysis.loop.parks && !analysis.loop.spends;
  form.slots = form.overlaps && mayTakeSlots(input, kind) && input.coding != earlyIds;
  form.ids = !form.early && !analysis.facts->gridUses.empty() ? emit::IdWords::All : usedIds(input);
  return form;
}

// The first word of $tally_block is 1 when the worker leaves now: thread 0 writes it for each
// block. $tally_spent is 1 when part of a warp has exited, so that the worker leaves when this
// virtual block has ended. Any thread sets it, once, and threads read it only behind the next
// meeting. It is a separate variable, since ptxas reads neighbouring words of $tally_block by one
// wide load.

constexpr std::size_t live = offsetof(tally_launch_state, live_workers);

/// %tally_leave = the rows of this block are not whole warps.
constexpr const char *hasPartialRows = "mov.u32 %tally_r0, %ntid.x;\n"
                                       "\tand.b32 %tally_r0, %tally_r0, 31;\n"
                                       "\tsetp.ne.u32 %tally_leave, %tally_r0, 0;\n\t";

/// Behind the body: thread 0's code where a request asks for an action, or no block is left.
std::string leaderLeaves(const LoopForm &form, const WorkerParts &parts) {
  return "\n$tally_asked:\n\tcvt.u32.u64 %tally_word, %tally_d0;\n\t" + emit::judge() +
         "@%tally_yield bra $tally_last;\n\t" + parts.asked + "\n$tally_last:\n\t" + countOut() +
         parts.stay + "\n$tally_publish:\n" +
         (form.slots ? emit::publishLeaveInSlot()
                     : "\tmov.u32 %tally_flag, 1;\n"
                       "\tst.shared.u32 [$tally_block], %tally_flag;\n") +
         "\tbra $tally_agree;\n";
}

/// Continues where all threads of the warp are here together; otherwise branches to $tally_spend.
/// The last warp of a block has `threads - first` threads, and a shift by 32 or more leaves 0.
std::string spendUnlessWholeWarp(unsigned way) {
  std::string whole = fmt::format("$tally_whole_{}", way);
  return "activemask.b32 %tally_r0;\n"
         "\tsetp.eq.b32 %tally_leave, %tally_r0, -1;\n"
         "\t@%tally_leave bra " +
         whole +
         ";\n"
         "\tmov.u32 %tally_r1, %tid.z;\n"
         "\tmov.u32 %tally_r2, %ntid.y;\n"
         "\tmov.u32 %tally_r3, %tid.y;\n"
         "\tmad.lo.u32 %tally_r1, %tally_r1, %tally_r2, %tally_r3;\n"
         "\tmov.u32 %tally_r4, %ntid.x;\n"
         "\tmov.u32 %tally_r3, %tid.x;\n"
         "\tmad.lo.u32 %tally_r1, %tally_r1, %tally_r4, %tally_r3;\n"
         "\tand.b32 %tally_r1, %tally_r1, -32;\n"
         "\tmov.u32 %tally_r3, %ntid.z;\n"
         "\tmul.lo.u32 %tally_r2, %tally_r2, %tally_r3;\n"
         "\tmul.lo.u32 %tally_r2, %tally_r2, %tally_r4;\n"
         "\tsub.u32 %tally_r2, %tally_r2, %tally_r1;\n"
         "\tmov.u32 %tally_r3, 1;\n"
         "\tshl.b32 %tally_r3, %tally_r3, %tally_r2;\n"
         "\tsub.u32 %tally_r3, %tally_r3, 1;\n"
         "\tsetp.ne.b32 %tally_leave, %tally_r0, %tally_r3;\n"
         "\t@%tally_leave bra $tally_spend;\n"
         "\n" +
         whole + ":\n\t";
}

/// meet() where threads may still be in the body: takes part in their barriers until none is left
/// there.
std::string park(const LoopPlan &plan, unsigned way) {
  std::string text = fmt::format("mov.pred %tally_here, 0;\n"
                                 "\n$tally_park_{0}:\n"
                                 "\tbarrier.red.or.pred %tally_any, {1}, %tally_here;\n\t",
                                 way, plan.barrier);
  if (!plan.reduces)
    return text + fmt::format("@%tally_any bra $tally_park_{};\n\tbra $tally_next;\n", way);
  return text + fmt::format("@!%tally_any bra $tally_next;\n"
                            "\tbarrier.red.popc.u32 %tally_count, {1}, %tally_here;\n"
                            "\tbra.uni $tally_park_{0};\n",
                            way, plan.barrier);
}

/// Code of a thread that leaves the body, before the block has met.
std::string leaving(const PassInput &input, unsigned way) {
  const LoopPlan &plan = input.analysis.loop;
  std::string text;
  if (input.analysis.copiesAsync)
    text += "cp.async.wait_all;\n\t";
  if (plan.spends)
    text += spendUnlessWholeWarp(way);
  if (plan.needsWholeWarpRows)
    text += std::string(hasPartialRows) + "@%tally_leave bra $tally_spend;\n\t";
  return text;
}

/// Behind the body: the code of `count` exits of a kernel that spends. ptxas lets the lanes of a
/// warp that take different exits wait for each other where the exits join. With one place for all
/// exits, lanes that have left would wait there for lanes that wait for them at a barrier; so no
/// exits join before the block has met.
std::string ways(const PassInput &input, unsigned count) {
  std::string text;
  for (unsigned way = 0; way != count; ++way) {
    text += fmt::format("\n$tally_way_{}:\n\t", way) + leaving(input, way);
    text += input.analysis.loop.parks ? park(input.analysis.loop, way) : "bra $tally_next;\n";
  }
  return text;
}

/// The block meets behind the branch that only thread 0 takes, and reads thread 0's publication.
/// The barrier is not in the aligned form: ptxas takes that form for a promise that the warp is
/// whole here, and drops the code that reconverges it (bar.warp.sync). Where the loop had several
/// entrances, lanes that do not take the branch came first, and the barrier counted them for their
/// whole warp. The second meeting is in the aligned form, which tells ptxas that the block's ids
/// are uniform. An exception are bodies with polls where warps may diverge and callees may have
/// barriers: these barriers keep their form.
std::string agree(const PassInput &input, const LoopForm &form, const WorkerParts &parts) {
  std::string text = "\n$tally_agree:\n\t" + meet(input);
  if (form.slots)
    return text + emit::loadFromSlot(form.ids);
  text +=
      emit::loadPublished(form.early ? form.ids : emit::IdWords::None) + emit::leaveIfAgreed("ret");
  if (!form.overlaps)
    return text;
  if (!parts.stay.empty() && input.analysis.loop.partsWarps && !input.analysis.facts->calls.empty())
    return text + meet(input);
  return text + fmt::format("bar.sync {};\n\t", input.analysis.loop.barrier);
}

std::string loopHead(const PassInput &input, const LoopForm &form, const WorkerParts &parts) {
  const LoopPlan &plan = input.analysis.loop;
  // A predicate keeps whether the thread is thread 0: reading three thread ids in each round costs
  // more.
  std::string text = enter();
  if (plan.spends)
    text += nobodySpent();
  if (form.slots)
    text += emit::firstSlot();
  text += toFirstTurn() + "\n$tally_next:\n\t";
  if (!plan.spends)
    text += leaving(input, 0);
  if (!plan.parks && !form.overlaps)
    text += meet(input);
  if (plan.spends)
    text += ifSpent("$tally_leave");
  return text + "\n$tally_turn:\n\t@%tally_other bra $tally_agree;\n" +
         leaderTakes(input, form.ids, form.slots) + agree(input, form, parts);
}

/// Behind the body: how a thread exits that cannot go to the loop's head.
std::string spend(const LoopPlan &plan) {
  // Where rows are not whole warps all threads exit, and none is left to read $tally_spent.
  return std::string("\n$tally_spend:\n\t") +
         (plan.spends ? saySpent() + "\n$tally_leave:\n\t" : "") +
         "@%tally_other bra $tally_gone;\n\t" + emit::loadState() + countOut() +
         "\n$tally_gone:\n\tret;\n";
}

/// Returns a full-block barrier in which threads that left the body take part (persistent_pass.h).
std::string parkedBarrier(const Instruction &barrier, const LoopPlan &plan) {
  std::string guard = emit::guardOf(barrier);
  std::string text = fmt::format("mov.pred %tally_here, 1;\n"
                                 "\t{}barrier.red.or.pred %tally_any, {}, %tally_here;",
                                 guard, plan.barrier);
  if (!plan.reduces)
    return text;
  auto count = [&](std::string_view into, std::string_view predicate, bool negated) {
    text += fmt::format("\n\t{}barrier.red.popc.u32 {}, {}, {}{};", guard, into, plan.barrier,
                        negated ? "!" : "", predicate);
  };
  if (!barrier.has("red")) {
    count("%tally_count", "%tally_here", false);
    return text;
  }
  const Operand &result = barrier.operands[0], &predicate = barrier.operands[2];
  if (barrier.has("popc")) {
    count(result.text, predicate.symbol, predicate.negated);
    return text;
  }
  // Threads that have left must not count: for `and`, count threads in the body whose value is
  // false.
  bool all = barrier.has("and");
  count("%tally_count", predicate.symbol, predicate.negated != all);
  text +=
      fmt::format("\n\t{}setp.{}.u32 {}, %tally_count, 0;", guard, all ? "eq" : "ne", result.text);
  return text;
}

/// Returns the targets of branches to an unguarded ret or exit.
std::vector<const Operand *> branchesToLeaves(const Function &function) {
  // By label, whether it leads to a bare ret or exit; a label may repeat.
  std::map<std::string_view, bool> leads;
  for (std::size_t i = 0; i != function.body.size(); ++i) {
    if (function.body[i].kind != StatementKind::Label)
      continue;
    std::size_t next = i + 1;
    while (function.body[next].kind == StatementKind::Label ||
           function.body[next].kind == StatementKind::Location)
      ++next;
    const Instruction &instruction = function.body[next].instruction;
    bool leaves = function.body[next].kind == StatementKind::Instruction && !instruction.guard &&
                  (instruction.opcode == "ret" || instruction.opcode == "exit");
    auto [place, isNew] = leads.emplace(function.body[i].label, leaves);
    place->second &= isNew && leaves;
  }
  std::vector<const Operand *> targets;
  for (const Statement &statement : function.body)
    if (statement.kind == StatementKind::Instruction && statement.instruction.opcode == "bra" &&
        statement.instruction.operands.size() == 1)
      if (auto found = leads.find(statement.instruction.operands[0].symbol);
          found != leads.end() && found->second)
        targets.push_back(&statement.instruction.operands[0]);
  return targets;
}

} // namespace

// The code uses inc and dec, with limits that are never reached, instead of add: ptxas turns an add
// by a constant into a longer, warp-wide form.
std::string enter() {
  return emit::testLeader() + emit::loadOpaqueState('x') +
         fmt::format("@!%tally_other red.global.inc.u32 [%tally_d2+{}], {};\n\t", live,
                     emit::counterLimit);
}

// With the loop's entrance behind thread 0's turn, ptxas would move loop-invariant values into
// registers: 9 more in a kernel that used 19.
std::string toFirstTurn() {
  return emit::opaqueZero("%tally_r1") + "or.b32 %tally_r0, %tally_r0, %tally_r1;\n"
                                         "\tsetp.ne.u32 %tally_other, %tally_r0, 0;\n"
                                         "\tbra.uni $tally_turn;\n";
}

std::string nobodySpent() {
  return "mov.u32 %tally_flag, 0;\n"
         "\t@!%tally_other st.shared.u32 [$tally_spent], %tally_flag;\n\t";
}

std::string saySpent() {
  return "mov.u32 %tally_flag, 1;\n"
         "\tst.volatile.shared.u32 [$tally_spent], %tally_flag;\n"
         "\tmembar.cta;\n\t";
}

std::string ifSpent(std::string_view label) {
  return fmt::format("ld.shared.u32 %tally_flag, [$tally_spent];\n"
                     "\tsetp.ne.u32 %tally_leave, %tally_flag, 0;\n"
                     "\t@%tally_leave bra {};\n\t",
                     label);
}

std::string countOut() {
  return fmt::format("red.global.dec.u32 [%tally_d2+{}], {};\n\t", live, emit::counterLimit);
}

std::string leaderTakes(const PassInput &input, emit::IdWords ids, bool inSlot) {
  std::string text = "\n$tally_take:\n\t" + emit::quickPoll(input.module, "$tally_asked") +
                     "\n$tally_index:\n\t" + emit::takeIndex() +
                     fmt::format("ld.param.u32 %tally_r3, [$tally_launch+{}];\n"
                                 "\tsetp.ge.u32 %tally_yield, %tally_id, %tally_r3;\n"
                                 "\t@%tally_yield bra $tally_last;\n\t",
                                 offsetof(tally_launch_params, blocks)) +
                     (inSlot ? emit::publishInSlot(ids) : emit::publish(ids));
  if (!input.analysis.cloned.empty())
    text.append("\t").append(emit::storeExtents());
  return text;
}

std::string meet(const PassInput &input) {
  return fmt::format("{} {};\n\t", input.module.versionMajor() >= 6 ? "barrier.sync" : "bar.sync",
                     input.analysis.loop.barrier);
}

emit::IdWords usedIds(const PassInput &input) {
  emit::IdWords ids = input.analysis.cloned.empty() ? emit::IdWords::None : emit::IdWords::All;
  for (const GridUse &use : input.analysis.facts->gridUses)
    if (!use.isExtent && ids != emit::IdWords::All)
      ids = !use.isVector && use.dimension == 0 ? emit::IdWords::X : emit::IdWords::All;
  return ids;
}

std::vector<Coding> workerCodings(const PassInput &input, Kind kind) {
  std::vector<Coding> codings;
  LoopForm form = formOf(input, kind);
  if (form.slots)
    codings.push_back({twoSlots});
  codings.push_back({earlyIds});
  if (form.ids != emit::IdWords::None)
    codings.push_back({zeroed});
  if (!undefinedAtBodyStart(input.function).empty())
    codings.push_back({plain});
  // redirectCalls() replaces whole call sequences (clones.h).
  const FunctionFacts &facts = *input.analysis.facts;
  if (facts.calls.empty() && !facts.gridUses.empty() && !pointerLoads(input.function).empty())
    codings.push_back({opaque});
  return codings;
}

std::string leaveIfSurplus(const PassInput &input) {
  constexpr std::uint32_t mask = TALLY_CONTROL_WORKERS_UNLIMITED << TALLY_CONTROL_WORKERS_SHIFT;
  const LoopPlan &plan = input.analysis.loop;
  if (plan.spends)
    return "bra.uni $tally_index;\n";
  std::string text;
  if (plan.needsWholeWarpRows)
    text = std::string(hasPartialRows) + "@%tally_leave bra $tally_index;\n\t";
  text += fmt::format("and.b32 %tally_word, %tally_word, {0};\n"
                      "\tsetp.eq.u32 %tally_yield, %tally_word, {0};\n"
                      "\t@%tally_yield bra $tally_index;\n"
                      "\tshr.u32 %tally_word, %tally_word, {1};\n"
                      "\tmax.u32 %tally_word, %tally_word, 1;\n\t",
                      mask, TALLY_CONTROL_WORKERS_SHIFT);
  text += fmt::format("ld.{0}.u32 %tally_r0, [%tally_d2+{1}];\n"
                      "\n$tally_width:\n"
                      "\tsetp.le.u32 %tally_yield, %tally_r0, %tally_word;\n"
                      "\t@%tally_yield bra $tally_index;\n"
                      "\tmov.u32 %tally_r1, %tally_r0;\n"
                      "\tadd.s32 %tally_r2, %tally_r1, -1;\n"
                      "\tatom.global.cas.b32 %tally_r0, [%tally_d2+{1}], %tally_r1, %tally_r2;\n"
                      "\tsetp.ne.u32 %tally_yield, %tally_r0, %tally_r1;\n"
                      "\t@%tally_yield bra $tally_width;\n"
                      "\tbra.uni $tally_publish;\n",
                      emit::strongGlobal(input.module), live);
  return text;
}

void writeWorkers(FunctionEditor &editor, const PassInput &input, Kind kind,
                  const WorkerParts &parts) {
  LoopForm form = formOf(input, kind);
  emit::beginVariant(editor, input, kind);
  emit::declare(editor, input, !input.analysis.cloned.empty(), input.analysis.loop.spends);
  editor.insertAtBodyStart((form.slots ? ".reg .b32 %tally_ids;\n\t" : "") + parts.declarations +
                           loopHead(input, form, parts) + parts.blockStart);
  if (input.coding != plain)
    editor.insertAtBodyStart(zero(input.function, undefinedAtBodyStart(input.function)));
  if (input.coding == opaque)
    makeOpaque(editor, input.function, pointerLoads(input.function),
               emit::loadIndexFromShared(0, "%tally_r0"));
  const FunctionFacts &facts = *input.analysis.facts;
  const LoopPlan &plan = input.analysis.loop;
  auto index = [&](unsigned dimension, const std::string &into) {
    return form.early ? std::string() : emit::loadIndexFromShared(dimension, into);
  };
  emit::replaceGridUses(editor, facts, {index, emit::loadExtentFromParameters, &input.function});
  redirectCalls(editor, input.function, input.analysis);
  unsigned count = 0;
  auto wayOut = [&] {
    return plan.spends ? fmt::format("$tally_way_{}", count++) : std::string("$tally_next");
  };
  for (std::uint32_t statement : facts.leaves) {
    const Statement &leave = input.function.body[statement];
    editor.replace(leave.text, emit::guardOf(leave.instruction) + "bra " + wayOut() + ";");
  }
  if (plan.spends)
    for (const Operand *target : branchesToLeaves(input.function))
      editor.replace(target->text, wayOut());
  for (std::uint32_t statement : facts.blockBarriers) {
    const Statement &barrier = input.function.body[statement];
    if (plan.parks && barrierFormOf(barrier.instruction) == BarrierForm::Full)
      editor.replace(barrier.text, parkedBarrier(barrier.instruction, plan));
  }
  if (emit::mayReachEnd(input.function))
    editor.insertAtBodyEnd("\tbra " + wayOut() + ";\n");
  editor.insertAtBodyEnd(ways(input, count));
  editor.insertAtBodyEnd(leaderLeaves(form, parts));
  if (plan.spends || plan.needsWholeWarpRows)
    editor.insertAtBodyEnd(spend(plan));
}

} // namespace tally::ptx
