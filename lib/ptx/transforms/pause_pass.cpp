#include "tally/ptx/transforms/pause_pass.h"

#include "codings.h"
#include "emit.h"
#include "one_block.h"
#include "persistent_loop.h"
#include "strip_loops.h"
#include "tally/bundle/abi.h"
#include "tally/ptx/analysis/opcodes.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

#include <algorithm>

namespace tally::ptx {
namespace {

/// Naps of 10 to 50 us cost the work beside them nothing, where naps of 1 us cost it 10 % more
/// (facts: H200). nanosleep takes at most twice its argument (PTX ISA). A napping thread resumes
/// late by as much, so naps are not longer.
constexpr std::uint32_t napNanoseconds = 10000;

constexpr std::string_view registers =
    ".reg .pred %tally_nap, %tally_due;\n"
    "\t.reg .b32 %tally_mode, %tally_left, %tally_turns, %tally_turn;\n"
    "\t.reg .b64 %tally_poll;\n\t";

std::string nap() { return fmt::format("nanosleep.u32 {};\n\t", napNanoseconds); }

/// %tally_mode = the mode of the control word, its lowest byte.
std::string loadMode(const Module &module) {
  return fmt::format("ld.param.u64 %tally_poll, [$tally_launch+{}];\n"
                     "\tcvta.to.global.u64 %tally_poll, %tally_poll;\n"
                     "\tld.{}.u8 %tally_mode, [%tally_poll];\n\t",
                     offsetof(tally_launch_params, control), emit::strongGlobal(module));
}

/// Whether a register counts the cycles to the point's next poll.
bool countsCycles(const PollPoint &point) {
  return point.place != PollPlace::Strip && point.turns > 1 && point.turn.reg == noRegister;
}
std::string_view counterOf(const PollPoint &point) {
  return point.place == PollPlace::Latch ? "%tally_turns" : "%tally_left";
}
std::uint64_t periodOf(const PollPoint &point) { return point.cycles * point.turns; }

std::string blockStart(const std::vector<PollPoint> &points) {
  std::string text = fmt::format("mov.u32 %tally_mode, {};\n\t", unsigned{TALLY_CONTROL_RUN});
  for (PollPlace place : {PollPlace::Header, PollPlace::Latch}) {
    std::uint64_t longest = 0;
    std::string_view counter;
    for (const PollPoint &point : points)
      if (point.place == place && countsCycles(point)) {
        longest = std::max(longest, periodOf(point));
        counter = counterOf(point);
      }
    if (longest != 0)
      text += fmt::format("mov.u32 {}, {};\n\t", counter, longest);
  }
  return text;
}

/// Naps while the mode is PAUSE.
std::string napLoop(const Module &module, std::size_t number) {
  return fmt::format("\n$tally_nap_{}:\n\t", number) + loadMode(module) +
         fmt::format("setp.ne.u32 %tally_nap, %tally_mode, {};\n"
                     "\t@%tally_nap bra $tally_look_{};\n\t",
                     unsigned{TALLY_CONTROL_PAUSE}, number) +
         nap() +
         fmt::format("bra $tally_nap_{0};\n"
                     "\n$tally_look_{0}:\n\t",
                     number);
}

/// Like napLoop(), if the mode read at the poll before is PAUSE; then reads the mode for the next
/// poll.
std::string look(const Module &module, std::size_t number) {
  return fmt::format("setp.ne.u32 %tally_nap, %tally_mode, {};\n"
                     "\t@%tally_nap bra $tally_look_{};\n",
                     unsigned{TALLY_CONTROL_PAUSE}, number) +
         napLoop(module, number) + loadMode(module);
}

/// %tally_turn = 0 in the turn that polls, for a point with a register that tells that turn.
std::string turnOf(const Function &function, const PollPoint &point) {
  const RegisterDeclaration &declaration = function.declarationOf(point.turn.reg);
  std::string name = registerName(declaration, point.turn.reg), text;
  if (declaration.type.ends_with("64")) {
    text = fmt::format("cvt.u32.u64 %tally_turn, {};\n\t", name);
    name = "%tally_turn";
  }
  return text + fmt::format("and.b32 %tally_turn, {}, {};\n\t", name, point.turn.mask);
}

/// %tally_due = it is not yet time to poll, and `extra`, if not empty, holds.
std::string judgeTurn(const Function &function, const PollPoint &point, std::string_view extra) {
  std::string combined = extra.empty() ? "" : ".and", also;
  if (!extra.empty())
    also = fmt::format(", {}", extra);
  if (!countsCycles(point))
    return turnOf(function, point) +
           fmt::format("setp.ne{}.u32 %tally_due, %tally_turn, 0{};\n\t", combined, also);
  return fmt::format("sub.s32 {0}, {0}, {1};\n"
                     "\tsetp.gt{2}.s32 %tally_due, {0}, 0{3};\n\t",
                     counterOf(point), point.cycles, combined, also);
}

std::string countAgain(const PollPoint &point) {
  return countsCycles(point) ? fmt::format("mov.u32 {}, {};\n\t", counterOf(point), periodOf(point))
                             : "";
}

std::string atHeader(const PassInput &input, const PollPoint &point, std::size_t number) {
  if (point.turns == 1)
    return look(input.module, number);
  return judgeTurn(input.function, point, {}) +
         fmt::format("@%tally_due bra $tally_on_{};\n\t", number) + countAgain(point) +
         look(input.module, number) + fmt::format("\n$tally_on_{}:\n\t", number);
}

/// Branches behind the poll where the user's branch back behind it is not taken.
std::string skipUnlessTaken(const Instruction &branch, std::size_t number) {
  if (!branch.guard)
    return {};
  return fmt::format("@{}{} bra $tally_on_{};\n\t", branch.guard->predicate.negated ? "" : "!",
                     branch.guard->predicate.symbol, number);
}

std::string atLatch(const PassInput &input, const PollPoint &point, std::size_t number) {
  const Instruction &branch = input.function.body[point.statement].instruction;
  std::string back, text;
  if (branch.guard)
    back = fmt::format("{}{}", branch.guard->predicate.negated ? "!" : "",
                       branch.guard->predicate.symbol);
  text =
      judgeTurn(input.function, point, back) + fmt::format("@%tally_due bra {};\n\t", point.header);
  text += skipUnlessTaken(branch, number) + countAgain(point) + look(input.module, number);
  if (branch.guard)
    text += fmt::format("\n$tally_on_{}:\n\t", number);
  return text;
}

/// Before the branch back: polls where the loop continues with another strip. It does not poll
/// before the first strip, since a block that enters the loop once has polled just before.
std::string betweenStrips(const PassInput &input, const PollPoint &point, std::size_t number) {
  const Instruction &branch = input.function.body[point.strip.branch].instruction;
  return skipUnlessTaken(branch, number) + napLoop(input.module, number) +
         fmt::format("\n$tally_on_{}:\n\t", number);
}

/// Thread 0's code where its epoch has not passed, with the word's low half: while the mode is
/// PAUSE it takes no block, and continues by `again`. It ignores the number of workers wanted.
std::string asked(std::string_view again) {
  return fmt::format("and.b32 %tally_word, %tally_word, 255;\n"
                     "\tsetp.ne.u32 %tally_nap, %tally_word, {};\n"
                     "\t@%tally_nap bra $tally_index;\n\t",
                     unsigned{TALLY_CONTROL_PAUSE}) +
         nap() + fmt::format("{};\n", again);
}

/// The code of thread 0 in a worker that takes no further block. It naps as long as other workers
/// of the launch have blocks, so that its SM looks as occupied as theirs to the placement of a
/// request's blocks. While the mode is PAUSE it naps too, whatever the epoch, and even if no worker
/// has a block: a launch that ends would make space for the next launch, whose workers would be
/// placed where the request's blocks are not, and stay there. In any other mode a greater epoch
/// makes it leave. The block's other threads wait for it where the block agrees.
std::string stay(const Module &module) {
  return fmt::format("ld.param.u32 %tally_r1, [$tally_launch+{}];\n"
                     "\tsetp.eq.u32 %tally_nap, %tally_r1, 0;\n"
                     "\t@%tally_nap bra $tally_publish;\n"
                     "\n$tally_stay:\n\t",
                     offsetof(tally_launch_params, stay)) +
         emit::loadControl(module) +
         fmt::format("cvt.u32.u64 %tally_word, %tally_d0;\n"
                     "\tand.b32 %tally_word, %tally_word, 255;\n"
                     "\tsetp.ne.u32 %tally_nap, %tally_word, {};\n"
                     "\t@%tally_nap bra $tally_stays;\n\t",
                     unsigned{TALLY_CONTROL_PAUSE}) +
         nap() +
         fmt::format("bra $tally_stay;\n"
                     "\n$tally_stays:\n"
                     "\tld.{}.u32 %tally_r0, [%tally_d2+{}];\n"
                     "\tsetp.eq.u32 %tally_yield, %tally_r0, 0;\n"
                     "\t@%tally_yield bra $tally_publish;\n\t",
                     emit::strongGlobal(module), offsetof(tally_launch_state, live_workers)) +
         emit::judge() +
         "@%tally_yield bra $tally_publish;\n"
         "\tnanosleep.u32 %tally_r1;\n"
         "\tbra $tally_stay;\n";
}

/// Where a warp may diverge ahead of the user's barriers, they lose .aligned. ptxas takes .aligned
/// for a promise that the warp is whole, and with naps in the body's loops it does not always
/// reconverge the warp to keep it (docs/design/transforms.md, persistent).
void loseAlignment(FunctionEditor &editor, const PassInput &input, bool parks) {
  for (std::uint32_t statement : input.analysis.facts->blockBarriers) {
    const Statement &barrier = input.function.body[statement];
    if (!parks || barrierFormOf(barrier.instruction) != BarrierForm::Full)
      editor.replace(barrier.text, emit::unalignedBarrier(barrier));
  }
}

} // namespace

std::vector<Coding> PausePass::codings(const PassInput &input) const {
  return codingsWithOneBlock(input, kind());
}

std::vector<EditedText> PausePass::run(const PassInput &input) const {
  const std::vector<PollPoint> &points = input.analysis.polls;
  FunctionEditor editor(input.function);
  // Insert the polls before the loop of workers is inserted. The loop's insertions set values for
  // the user's next instruction, so they must stand right before that instruction.
  std::string declarations(registers);
  for (std::size_t i = 0; i != points.size(); ++i)
    switch (points[i].place) {
    case PollPlace::Strip:
      declarations += stripDeclarations(points[i].strip, i);
      editor.insertBefore(points[i].strip.turnsAt, stripTurn(input.function, points[i].strip, i));
      if (points[i].isOutermost)
        editor.insertBefore(points[i].strip.branch, betweenStrips(input, points[i], i));
      editor.insertBefore(points[i].statement,
                          (points[i].isOutermost ? std::string() : napLoop(input.module, i)) +
                              stripBegin(input.function, points[i].strip, i));
      break;
    case PollPlace::Header:
      editor.insertBefore(points[i].statement, atHeader(input, points[i], i));
      break;
    case PollPlace::Latch:
      editor.insertBefore(points[i].statement, atLatch(input, points[i], i));
      break;
    }
  const LoopPlan &plan = input.analysis.loop;
  if (plan.partsWarps)
    loseAlignment(editor, input, plan.parks && !asksForOneBlock(input));
  if (asksForOneBlock(input)) {
    writeOneBlock(editor, input, kind(),
                  {declarations, blockStart(points),
                   "cvt.u32.u64 %tally_word, %tally_d0;\n\t" +
                       asked(emit::loadControl(input.module) + "bra $tally_judge")});
    return {editor.apply()};
  }
  // Workers that may spend themselves are as many as blocks: a worker that stays keeps others from
  // starting.
  writeWorkers(editor, input, kind(),
               {declarations, blockStart(points), asked("bra $tally_take"),
                plan.spends ? std::string() : stay(input.module)});
  return {editor.apply()};
}

} // namespace tally::ptx
