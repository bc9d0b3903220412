#include "emit.h"

#include "tally/bundle/abi.h"
#include "tally/bundle/bundle.h"
#include "tally/ptx/transforms/pass.h"

#include <fmt/format.h>

namespace tally::ptx::emit {
namespace {

constexpr char axis(unsigned dimension) { return "xyz"[dimension]; }

/// Offset of a member of tally's parameters, for use in `[$tally_launch+N]`.
#define TALLY_PARAMETER(member) offsetof(tally_launch_params, member)

} // namespace

void beginVariant(FunctionEditor &editor, const PassInput &input, Kind kind, bool resume) {
  editor.rename(bundle::entryName(input.function.name, kind, resume));
  editor.appendParameter(
      fmt::format(".param .align 8 .b8 $tally_launch[{}]", sizeof(tally_launch_params)));
}

std::string declarations(bool shared) {
  std::string text = ".reg .pred %tally_yield, %tally_other, %tally_leave;\n"
                     "\t.reg .pred %tally_joins, %tally_here, %tally_any;\n"
                     "\t.reg .b32 %tally_r<6>, %tally_id, %tally_flag, %tally_word, %tally_count;\n"
                     "\t.reg .b32 %tally_ctaid_x, %tally_ctaid_y, %tally_ctaid_z;\n"
                     "\t.reg .b32 %tally_nctaid_x, %tally_nctaid_y, %tally_nctaid_z;\n"
                     "\t.reg .b32 %tally_offset_x, %tally_offset_y, %tally_offset_z;\n"
                     "\t.reg .b64 %tally_d<6>;\n\t";
  if (shared)
    text += ".shared .align 16 .b32 $tally_block[4];\n\t";
  return text;
}

std::string unlessLeader(std::string_view label) {
  return fmt::format("mov.u32 %tally_r0, %tid.x;\n"
                     "\tmov.u32 %tally_r1, %tid.y;\n"
                     "\tmov.u32 %tally_r2, %tid.z;\n"
                     "\tor.b32 %tally_r0, %tally_r0, %tally_r1;\n"
                     "\tor.b32 %tally_r0, %tally_r0, %tally_r2;\n"
                     "\tsetp.ne.u32 %tally_other, %tally_r0, 0;\n"
                     "\t@%tally_other bra {};\n\t",
                     label);
}

std::string_view strongGlobal(const Module &module) {
  bool relaxed = module.versionMajor() >= 6 && module.targetArch() >= 70;
  return relaxed ? "relaxed.gpu.global" : "volatile.global";
}

std::string poll(const Module &module, std::string_view low) {
  return fmt::format("ld.param.u64 %tally_d0, [$tally_launch+{}];\n"
                     "\tcvta.to.global.u64 %tally_d0, %tally_d0;\n"
                     "\tld.{}.u64 %tally_d0, [%tally_d0];\n"
                     "{}"
                     "\tshr.u64 %tally_d0, %tally_d0, {};\n"
                     "\tld.param.u64 %tally_d1, [$tally_launch+{}];\n"
                     "\tsetp.gt.u64 %tally_yield, %tally_d0, %tally_d1;\n\t",
                     TALLY_PARAMETER(control), strongGlobal(module),
                     low.empty() ? "" : fmt::format("\tcvt.u32.u64 {}, %tally_d0;\n", low),
                     TALLY_CONTROL_EPOCH_SHIFT, TALLY_PARAMETER(epoch));
}

std::string appendToList(std::string_view id) {
  return fmt::format("ld.param.u64 %tally_d2, [$tally_launch+{}];\n"
                     "\tcvta.to.global.u64 %tally_d2, %tally_d2;\n"
                     "\tatom.global.add.u32 %tally_r0, [%tally_d2+{}], 1;\n"
                     "\tld.param.u64 %tally_d3, [$tally_launch+{}];\n"
                     "\tcvta.to.global.u64 %tally_d3, %tally_d3;\n"
                     "\tmul.wide.u32 %tally_d4, %tally_r0, 4;\n"
                     "\tadd.s64 %tally_d3, %tally_d3, %tally_d4;\n"
                     "\tst.global.u32 [%tally_d3], {};\n\t",
                     TALLY_PARAMETER(state), offsetof(tally_launch_state, yielded),
                     TALLY_PARAMETER(list_out), id);
}

namespace {

/// quotient = (number * multiplier) >> shift.
std::string divide(std::string_view quotient, std::string_view number, std::size_t divisor) {
  return fmt::format("ld.param.u32 %tally_r0, [$tally_launch+{}];\n"
                     "\tmul.wide.u32 %tally_d5, {}, %tally_r0;\n"
                     "\tld.param.u32 %tally_r0, [$tally_launch+{}];\n"
                     "\tshr.u64 %tally_d5, %tally_d5, %tally_r0;\n"
                     "\tcvt.u32.u64 {}, %tally_d5;\n\t",
                     divisor + offsetof(tally_divisor, multiplier), number,
                     divisor + offsetof(tally_divisor, shift), quotient);
}

/// remainder = number - quotient * extent, into word `word` of $tally_block.
std::string storeRemainder(std::string_view number, std::string_view quotient, unsigned dimension) {
  return fmt::format("ld.param.u32 %tally_r0, [$tally_launch+{}];\n"
                     "\tmul.lo.u32 %tally_r0, {}, %tally_r0;\n"
                     "\tsub.u32 %tally_r0, {}, %tally_r0;\n"
                     "\tst.shared.u32 [$tally_block+{}], %tally_r0;\n\t",
                     TALLY_PARAMETER(grid) + 4 * dimension, quotient, number, 4 + 4 * dimension);
}

} // namespace

std::string decodeToShared() {
  return divide("%tally_r1", "%tally_id", TALLY_PARAMETER(by_grid_x)) +
         storeRemainder("%tally_id", "%tally_r1", 0) +
         divide("%tally_r2", "%tally_r1", TALLY_PARAMETER(by_grid_y)) +
         storeRemainder("%tally_r1", "%tally_r2", 1) +
         "st.shared.u32 [$tally_block+12], %tally_r2;\n\t";
}

std::string agreeOrLeave() {
  return "bar.sync 0;\n"
         "\tld.shared.u32 %tally_flag, [$tally_block];\n"
         "\tsetp.ne.u32 %tally_leave, %tally_flag, 0;\n"
         "\t@%tally_leave ret;\n\t";
}

void replaceGridUses(FunctionEditor &editor, const FunctionFacts &facts,
                     llvm::function_ref<std::string(unsigned, const std::string &)> loadIndex) {
  for (const GridUse &use : facts.gridUses) {
    std::string into =
        fmt::format("%tally_{}_{}", use.isExtent ? "nctaid" : "ctaid", axis(use.dimension));
    std::string load = use.isExtent ? fmt::format("ld.param.u32 {}, [$tally_launch+{}];\n\t", into,
                                                  TALLY_PARAMETER(grid) + 4 * use.dimension)
                                    : loadIndex(use.dimension, into);
    editor.insertBefore(use.statement, load);
    editor.replace(use.operand->text, into);
  }
}

std::string loadIndexFromShared(unsigned dimension, const std::string &into) {
  return fmt::format("ld.shared.u32 {}, [$tally_block+{}];\n\t", into, 4 + 4 * dimension);
}

} // namespace tally::ptx::emit
