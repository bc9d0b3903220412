#include "saved_block.h"

#include "codings.h"
#include "emit.h"
#include "strip_loops.h"
#include "tally/bundle/abi.h"
#include "tally/ptx/analysis/opcodes.h"

#include "llvm/ADT/STLExtras.h"
#include <fmt/format.h>

#include <algorithm>

namespace tally::ptx {

SavedBlock::SavedBlock(const PassInput &input, const SaveRecord &record, Route route, bool early)
    : input(input), plan(input.analysis.checkpoint), record(record), route(route), early(early) {}

std::string SavedBlock::passes(bool value) const {
  if (plan.passages.empty())
    return {};
  return emit::opaqueZero("%tally_r0") +
         fmt::format("setp.{}.u32 %tally_passes, %tally_r0, 0;\n\t", value ? "eq" : "ne");
}

/// Recomputes registers from other registers. If the code stands before the loop, ptxas sees that
/// inside the loop the register is a function of its sources, whichever path entered: an address at
/// a fixed distance from another then takes no register of its own.
std::string SavedBlock::recompute(const std::vector<std::uint32_t> &statements) const {
  std::string text;
  for (std::uint32_t statement : statements) {
    const Instruction &instruction = input.function.body[statement].instruction;
    const Operand &source = instruction.operands[1];
    std::string_view name = specialRegisterName(source);
    if (name != "ctaid" && name != "nctaid") {
      text += std::string(input.function.body[statement].text) + "\n\t";
      continue;
    }
    std::string into(instruction.operands[0].text);
    auto dimension = static_cast<unsigned>(source.component[0] - 'x');
    if (name == "nctaid")
      text += emit::loadExtentFromParameters(dimension, into);
    else if (early)
      text += fmt::format("mov.u32 {}, %tally_ctaid_{};\n\t", into, source.component);
    else
      text += emit::loadIndexFromShared(dimension, into);
  }
  return text;
}

void SavedBlock::enter(FunctionEditor &editor, const Entrance &entrance,
                       const std::string &label) const {
  for (std::uint32_t branch : entrance.branches)
    editor.replace(input.function.body[branch].instruction.operands[0].text, label);
}

void SavedBlock::insertWays(FunctionEditor &editor) const {
  for (unsigned i = 0; i != plan.points.size(); ++i) {
    const SavePoint &point = plan.points[i];
    std::string label = fmt::format("$tally_{}_{}", point.entrance.label ? "enter" : "head", i + 1);
    std::string text = fmt::format("\n{}:\n\t", label);
    if (point.entrance.label) {
      editor.insertBefore(*point.entrance.label, text + recompute(point.recomputed));
      enter(editor, point.entrance, label);
    } else {
      editor.insertBefore(point.statement, text);
    }
  }
  for (unsigned i = 0; i != plan.passages.size(); ++i) {
    const Passage &passage = plan.passages[i];
    if (!passage.recomputed.empty()) {
      std::string label = fmt::format("$tally_enter_around_{}", i + 1);
      editor.insertBefore(*passage.entrance.label,
                          fmt::format("\n{}:\n\t", label) + recompute(passage.recomputed));
      if (!passage.point)
        enter(editor, passage.entrance, label);
    }
    bool strips = passage.point && isStrip(plan.points[*passage.point]);
    editor.insertBefore(passage.statement,
                        fmt::format("\n$tally_around_{}:\n\t@%tally_passes bra {};\n\t", i + 1,
                                    strips ? fmt::format("$tally_go_{}", *passage.point + 1)
                                           : fmt::format("$tally_inside_{}", i + 1)));
  }
}

std::string SavedBlock::passStrip(unsigned point) const {
  for (unsigned i = 0; i != plan.passages.size(); ++i)
    if (plan.passages[i].point == point)
      return fmt::format("@%tally_passes bra $tally_inside_{};\n\t", i + 1);
  return {};
}

/// Returns the passages around the point, the outermost first.
std::vector<unsigned> SavedBlock::passagesTo(const SavePoint &point) const {
  std::vector<unsigned> way;
  for (std::optional<unsigned> each = point.passage; each; each = plan.passages[*each].around)
    way.insert(way.begin(), *each);
  return way;
}

/// Branches to the points whose paths lead through the passage's head, or to all points.
std::string SavedBlock::part(std::optional<unsigned> passage) const {
  std::vector<unsigned> numbers;
  for (unsigned i = 0; i != plan.points.size(); ++i)
    if (!passage || std::ranges::count(passagesTo(plan.points[i]), *passage) != 0)
      numbers.push_back(i + 1);
  std::string text;
  if (passage && numbers.size() > 1) {
    // Thread 0 may have published another block by now.
    text += plan.byBlock ? SaveRecord::headerAddress() +
                               fmt::format("ld.global.u32 %tally_stopped, [%tally_slot+{}];\n\t",
                                           offsetof(tally_save_slot, point))
                         : record.locate() + record.stopped(Transfer::Restore);
  }
  auto label = [&](unsigned number) {
    return passage ? fmt::format("$tally_inside_{}_{}", *passage + 1, number)
                   : fmt::format("$tally_resume_{}", number);
  };
  // The code of the first point follows directly.
  for (unsigned number : llvm::drop_begin(numbers))
    text += fmt::format("setp.eq.u32 %tally_leave, %tally_stopped, {};\n"
                        "\t@%tally_leave bra {};\n\t",
                        number, label(number));
  text += fmt::format("bra {};\n", label(numbers.front()));
  return text;
}

std::string SavedBlock::goOn() const {
  std::string text = passes(true) + part(std::nullopt);
  for (unsigned i = 0; i != plan.points.size(); ++i)
    text += resumeAt(plan.points[i], i + 1);
  for (unsigned i = 0; i != plan.passages.size(); ++i)
    text += fmt::format("\n$tally_inside_{}:\n\t", i + 1) + part(i);
  return text;
}

std::string SavedBlock::resumeAt(const SavePoint &point, unsigned number) const {
  std::string text = fmt::format("\n$tally_resume_{}:\n\t", number);
  std::vector<unsigned> way = passagesTo(point);
  for (std::size_t i = 0; i != way.size(); ++i) {
    bool makes = !plan.passages[way[i]].recomputed.empty();
    text += beforeLoop(point, way, i) +
            fmt::format("bra $tally_{}around_{};\n\n$tally_inside_{}_{}:\n\t",
                        makes ? "enter_" : "", way[i] + 1, way[i] + 1, number);
    if (route == Route::Direct)
      text += record.locate();
  }
  auto isRest = [&](RegisterId reg) { return stageOf(reg, way) == way.size(); };
  return text + record.registers(point, Transfer::Restore, isRest) + toHead(point, number);
}

bool SavedBlock::isLiveAt(RegisterId reg, unsigned passage) const {
  return std::ranges::binary_search(plan.passages[passage].live, reg);
}

/// Returns the stage of the register: before which loop on the path it is restored. That is the
/// first loop from which on the register is live at all heads.
std::size_t SavedBlock::stageOf(RegisterId reg, const std::vector<unsigned> &way) const {
  std::size_t stage = way.size();
  while (stage != 0 && isLiveAt(reg, way[stage - 1]))
    --stage;
  return stage;
}

/// Restores the registers of the stage before the next loop. Other registers that its head may read
/// and that are not recomputed before the first loop become 0, so that they do not keep values of
/// the last block.
std::string SavedBlock::beforeLoop(const SavePoint &point, const std::vector<unsigned> &way,
                                   std::size_t at) const {
  const std::vector<std::uint32_t> &made = plan.passages[way.front()].recomputed;
  std::vector<RegisterId> others = plan.passages[way[at]].live;
  std::erase_if(others, [&](RegisterId reg) {
    bool isSaved = std::ranges::count(point.saved, reg) != 0;
    return (isSaved && stageOf(reg, way) <= at) || (at != 0 && isLiveAt(reg, way[at - 1])) ||
           std::ranges::any_of(made, [&](std::uint32_t statement) {
             return input.function.body[statement].instruction.operands[0].reg == reg;
           });
  });
  return zero(input.function, others) +
         record.registers(point, Transfer::Restore,
                          [&](RegisterId reg) { return stageOf(reg, way) == at; });
}

/// The point's registers are restored.
std::string SavedBlock::toHead(const SavePoint &point, unsigned number) const {
  std::string text = passes(false), strips;
  for (std::optional<unsigned> each = point.passage; each; each = plan.passages[*each].around)
    if (std::optional<unsigned> around = plan.passages[*each].point;
        around && isStrip(plan.points[*around]))
      strips += stripToTheEnd(input.function, plan.points[*around].strip, *around + 1);
  // The recomputed registers may include the end of a strip.
  if (!point.entrance.label || !strips.empty())
    text += recompute(point.recomputed);
  return text + strips +
         fmt::format("bra $tally_{}_{};\n", point.entrance.label ? "enter" : "head", number);
}

} // namespace tally::ptx
