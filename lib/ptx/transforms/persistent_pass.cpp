#include "tally/ptx/transforms/persistent_pass.h"

#include "clones.h"
#include "codings.h"
#include "emit.h"
#include "tally/bundle/abi.h"

#include <fmt/format.h>

namespace tally::ptx {
namespace {

/// Codings: registers that the body may read before it writes them are set to 0 in each round, or
/// are not; besides, pointers are made to depend on the round.
constexpr std::string_view zeroed = "zeroed", plain = "plain", opaque = "opaque-pointers";

std::string takeIndex() {
  return emit::takeIndex() + fmt::format("ld.param.u32 %tally_r3, [$tally_launch+{}];\n"
                                         "\tsetp.ge.u32 %tally_yield, %tally_id, %tally_r3;\n"
                                         "\t@%tally_yield bra $tally_publish;\n"
                                         "\tmov.u32 %tally_flag, 0;\n\t",
                                         offsetof(tally_launch_params, blocks));
}

std::string loopHead(const PassInput &input) {
  std::string text = "bra.uni $tally_take;\n\n$tally_next:\n\t";
  if (input.analysis.needsWholeWarpRows)
    text += "mov.u32 %tally_r0, %ntid.x;\n"
            "\tand.b32 %tally_r0, %tally_r0, 31;\n"
            "\tsetp.ne.u32 %tally_leave, %tally_r0, 0;\n"
            "\t@%tally_leave ret;\n\t";
  if (input.analysis.copiesAsync)
    text += "cp.async.wait_all;\n\t";
  // Threads arrive from every way out of the body, perhaps not as one warp any more: the aligned
  // form is undefined then (PTX ISA, barrier).
  text += input.module.versionMajor() >= 6 ? "barrier.sync 0;" : "bar.sync 0;";
  text += "\n\n$tally_take:\n\t";
  bool clones = !input.analysis.cloned.empty();
  bool needsIds = clones || !input.analysis.facts->gridUses.empty();
  return text + emit::unlessLeader("$tally_agree") + emit::poll(input.module) +
         "mov.u32 %tally_flag, 1;\n\t@%tally_yield bra $tally_publish;\n\t" + takeIndex() +
         (needsIds ? emit::decodeToShared() : "") + (clones ? emit::storeExtents() : "") +
         "\n$tally_publish:\n\tst.shared.u32 [$tally_block], %tally_flag;\n\n$tally_agree:\n\t" +
         emit::agreeOrLeave();
}

/// Whether control can run off the end of the body: the last instruction lets it through, or a
/// label after it can be branched to.
bool mayReachEnd(const Function &function) {
  for (auto each = function.body.rbegin(); each != function.body.rend(); ++each) {
    if (each->kind == StatementKind::Label)
      return true;
    if (each->kind != StatementKind::Instruction)
      continue;
    std::string_view opcode = each->instruction.opcode;
    return each->instruction.guard || (opcode != "ret" && opcode != "exit" && opcode != "bra" &&
                                       opcode != "brx" && opcode != "trap");
  }
  return true;
}

} // namespace

std::vector<Coding> PersistentPass::codings(const PassInput &input) const {
  std::vector<Coding> codings = {{zeroed}, {plain}};
  if (undefinedAtBodyStart(input.function).empty())
    codings.erase(codings.begin());
  // Where calls are redirected (clones.h), whole call sequences are replaced.
  const FunctionFacts &facts = *input.analysis.facts;
  if (facts.calls.empty() && !facts.gridUses.empty() && !pointerLoads(input.function).empty())
    codings.push_back({opaque});
  return codings;
}

std::vector<std::string> PersistentPass::run(const PassInput &input) const {
  FunctionEditor editor(input.function);
  emit::beginVariant(editor, input, kind());
  editor.insertAtBodyStart(emit::declarations(input.analysis.cloned.empty()) + loopHead(input));
  if (input.coding != plain)
    editor.insertAtBodyStart(zero(input.function, undefinedAtBodyStart(input.function)));
  if (input.coding == opaque)
    makeOpaque(editor, input.function, pointerLoads(input.function),
               emit::loadIndexFromShared(0, "%tally_r0"));
  const FunctionFacts &facts = *input.analysis.facts;
  emit::replaceGridUses(editor, facts, {emit::loadIndexFromShared, emit::loadExtentFromParameters});
  redirectCalls(editor, input.function, input.analysis);
  for (std::uint32_t statement : facts.leaves) {
    const Statement &leave = input.function.body[statement];
    std::string text =
        leave.instruction.guard
            ? fmt::format("@{}{} ", leave.instruction.guard->predicate.negated ? "!" : "",
                          leave.instruction.guard->predicate.symbol)
            : "";
    editor.replace(leave.text, text + "bra $tally_next;");
  }
  if (mayReachEnd(input.function))
    editor.insertAtBodyEnd("\tbra $tally_next;\n");
  return {editor.apply()};
}

} // namespace tally::ptx
