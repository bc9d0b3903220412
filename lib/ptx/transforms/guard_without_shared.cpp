#include "guard_without_shared.h"

#include "emit.h"

namespace tally::ptx {
namespace {

/// One decision for the block: it yields when any thread saw that it should.
constexpr const char *agree = "bar.red.or.pred %tally_leave, 0, %tally_yield;\n"
                              "\t@!%tally_leave bra $tally_run;\n\t";

/// `linearId` puts the block's virtual id into %tally_id.
std::string pollOrLeave(const PassInput &input, const std::string &linearId) {
  return emit::declarations() + emit::poll(input.module) + agree +
         emit::unlessLeader("$tally_left") + linearId + emit::appendToList("%tally_id") +
         "\n$tally_left:\n\tret;\n\n$tally_run:\n\t";
}

} // namespace

std::vector<EditedText> guardWithoutShared(const PassInput &input) {
  FunctionEditor first(input.function), resume(input.function);
  emit::beginVariant(first, input, Kind::Guard);
  first.insertAtBodyStart(pollOrLeave(input, emit::physicalLinearId()));
  emit::beginVariant(resume, input, Kind::Guard, true);
  resume.insertAtBodyStart(pollOrLeave(input, emit::idFromList("%ctaid.x")));
  auto index = [](unsigned dimension, const std::string &into) {
    return emit::idFromList("%ctaid.x") + emit::decode(dimension, into);
  };
  emit::replaceGridUses(resume, *input.analysis.facts, {index, emit::loadExtentFromParameters});
  return {first.apply(), resume.apply()};
}

} // namespace tally::ptx
