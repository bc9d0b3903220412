#include "emit.h"

#include "tally/bundle/abi.h"
#include "tally/bundle/bundle.h"
#include "tally/ptx/analysis/opcodes.h"
#include "tally/ptx/transforms/pass.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

namespace tally::ptx::emit {
namespace {

/// Bytes of a slot. $tally_block is aligned to two slots.
constexpr std::uint32_t slotBytes = 8;
constexpr std::string_view slot = "%tally_ids";

constexpr char axis(unsigned dimension) { return "xyz"[dimension]; }

/// Offset of a member of tally's parameters, for use in `[$tally_launch+N]`.
#define TALLY_PARAMETER(member) offsetof(tally_launch_params, member)

} // namespace

void beginVariant(FunctionEditor &editor, const PassInput &input, Kind kind, bool resume) {
  editor.rename(bundle::entryName(input.function.name, kind, resume));
  editor.appendParameter(
      fmt::format(".param .align 8 .b8 $tally_launch[{}]", sizeof(tally_launch_params)));
}

std::string declarations() {
  return ".reg .pred %tally_yield, %tally_other, %tally_leave, %tally_stay;\n"
         "\t.reg .pred %tally_here, %tally_any;\n"
         "\t.reg .b32 %tally_r<6>, %tally_id, %tally_flag, %tally_word, %tally_count;\n"
         "\t.reg .b32 %tally_ctaid_x, %tally_ctaid_y, %tally_ctaid_z;\n"
         "\t.reg .b32 %tally_nctaid_x, %tally_nctaid_y, %tally_nctaid_z;\n"
         "\t.reg .b32 %tally_clusterid_x, %tally_clusterid_y, %tally_clusterid_z;\n"
         "\t.reg .b32 %tally_nclusterid_x, %tally_nclusterid_y, %tally_nclusterid_z;\n"
         "\t.reg .b32 %tally_offset_x, %tally_offset_y, %tally_offset_z;\n"
         "\t.reg .b64 %tally_d<6>;\n\t";
}

void declare(FunctionEditor &editor, const PassInput &input, bool ofModule, bool spent) {
  std::uint32_t bytes = input.analysis.tallySharedBytes;
  bool isLarge = bytes > 32;
  auto variable = [&](std::string_view name, std::string_view small) {
    return isLarge ? fmt::format(".shared .align {} .b32 {}[{}];\n\t", bytes, name, bytes / 4)
                   : fmt::format(".shared .align 16 .b32 {}{};\n\t", name, small);
  };
  std::string shared = (ofModule ? "" : variable("$tally_block", "[4]")) +
                       (spent ? variable("$tally_spent", "") : "");
  if (isLarge)
    editor.insertBefore(1, shared);
  editor.insertAtBodyStart(declarations() + (isLarge ? "" : shared));
}

std::string testLeader() {
  return "mov.u32 %tally_r0, %tid.x;\n"
         "\tmov.u32 %tally_r1, %tid.y;\n"
         "\tmov.u32 %tally_r2, %tid.z;\n"
         "\tor.b32 %tally_r0, %tally_r0, %tally_r1;\n"
         "\tor.b32 %tally_r0, %tally_r0, %tally_r2;\n"
         "\tsetp.ne.u32 %tally_other, %tally_r0, 0;\n\t";
}

std::string unlessLeader(std::string_view label) {
  return testLeader() + fmt::format("@%tally_other bra {};\n\t", label);
}

std::string unlessLeaderInTurn(std::string_view label) {
  return fmt::format("mov.u32 %tally_r0, %tid.x;\n"
                     "\tsetp.ne.u32 %tally_other, %tally_r0, 0;\n"
                     "\t@%tally_other bra {0};\n"
                     "\tmov.u32 %tally_r1, %tid.y;\n"
                     "\tmov.u32 %tally_r2, %tid.z;\n"
                     "\tor.b32 %tally_r1, %tally_r1, %tally_r2;\n"
                     "\tsetp.ne.u32 %tally_other, %tally_r1, 0;\n"
                     "\t@%tally_other bra {0};\n\t",
                     label);
}

std::string_view strongGlobal(const Module &module) {
  bool relaxed = module.versionMajor() >= 6 && module.targetArch() >= 70;
  return relaxed ? "relaxed.gpu.global" : "volatile.global";
}

std::string loadControl(const Module &module) {
  return fmt::format("ld.param.u64 %tally_d0, [$tally_launch+{}];\n"
                     "\tcvta.to.global.u64 %tally_d0, %tally_d0;\n"
                     "\tld.{}.u64 %tally_d0, [%tally_d0];\n\t",
                     TALLY_PARAMETER(control), strongGlobal(module));
}

namespace {

/// %tally_d1 = the control word with the launch's epoch and the low bits `low`.
std::string wordOfEpoch(std::uint32_t low) {
  return fmt::format("ld.param.u64 %tally_d1, [$tally_launch+{}];\n"
                     "\tshl.b64 %tally_d1, %tally_d1, {};\n"
                     "\tor.b64 %tally_d1, %tally_d1, {};\n\t",
                     TALLY_PARAMETER(epoch), TALLY_CONTROL_EPOCH_SHIFT, low);
}

} // namespace

std::string judge() {
  return wordOfEpoch((1u << TALLY_CONTROL_EPOCH_SHIFT) - 1) +
         "setp.gt.u64 %tally_yield, %tally_d0, %tally_d1;\n\t";
}

std::string poll(const Module &module) { return loadControl(module) + judge(); }

std::string physicalLinearId() {
  return "mov.u32 %tally_r1, %ctaid.z;\n"
         "\tmov.u32 %tally_r2, %nctaid.y;\n"
         "\tmov.u32 %tally_r3, %ctaid.y;\n"
         "\tmad.lo.u32 %tally_r1, %tally_r1, %tally_r2, %tally_r3;\n"
         "\tmov.u32 %tally_r2, %nctaid.x;\n"
         "\tmov.u32 %tally_r3, %ctaid.x;\n"
         "\tmad.lo.u32 %tally_id, %tally_r1, %tally_r2, %tally_r3;\n\t";
}

std::string idFromList(std::string_view index) {
  return fmt::format("ld.param.u64 %tally_d2, [$tally_launch+{}];\n"
                     "\tcvta.to.global.u64 %tally_d2, %tally_d2;\n"
                     "\tmov.u32 %tally_r1, {};\n"
                     "\tmul.wide.u32 %tally_d3, %tally_r1, 4;\n"
                     "\tadd.s64 %tally_d2, %tally_d2, %tally_d3;\n"
                     "\tld.global.u32 %tally_id, [%tally_d2];\n\t",
                     TALLY_PARAMETER(list_in), index);
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

std::string loadState() {
  return fmt::format("ld.param.u64 %tally_d2, [$tally_launch+{}];\n"
                     "\tcvta.to.global.u64 %tally_d2, %tally_d2;\n\t",
                     TALLY_PARAMETER(state));
}

std::string loadOpaqueState(char threadId) {
  return loadState() + fmt::format("mov.u32 %tally_r5, %tid.{};\n"
                                   "\tcvt.u64.u32 %tally_d3, %tally_r5;\n"
                                   "\tadd.s64 %tally_d2, %tally_d2, %tally_d3;\n\t",
                                   threadId);
}

std::string quickPoll(const Module &module, std::string_view label) {
  constexpr std::uint32_t unlimited = TALLY_CONTROL_WORKERS_UNLIMITED
                                      << TALLY_CONTROL_WORKERS_SHIFT;
  return loadControl(module) + loadOpaqueState('y') + wordOfEpoch(unlimited | TALLY_CONTROL_RUN) +
         fmt::format("setp.ne.u64 %tally_yield, %tally_d0, %tally_d1;\n"
                     "\t@%tally_yield bra {};\n",
                     label);
}

std::string takeIndex() {
  return fmt::format("atom.global.inc.u32 %tally_id, [%tally_d2+{}], {};\n\t",
                     offsetof(tally_launch_state, next_block), counterLimit);
}

std::string storeExtents() {
  std::string text;
  for (unsigned dimension = 0; dimension != 3; ++dimension)
    text += fmt::format("ld.param.u32 %tally_r0, [$tally_launch+{}];\n"
                        "\tst.shared.u32 [$tally_block+{}], %tally_r0;\n\t",
                        TALLY_PARAMETER(grid) + 4 * dimension, 16 + 4 * dimension);
  return text;
}

namespace {

/// quotient = (number * multiplier) >> shift.
std::string divide(std::string_view quotient, std::string_view number, std::size_t divisor,
                   std::string_view scratch = "%tally_r0") {
  return fmt::format("ld.param.u32 {0}, [$tally_launch+{1}];\n"
                     "\tmul.wide.u32 %tally_d5, {2}, {0};\n"
                     "\tld.param.u32 {0}, [$tally_launch+{3}];\n"
                     "\tshr.u64 %tally_d5, %tally_d5, {0};\n"
                     "\tcvt.u32.u64 {4}, %tally_d5;\n\t",
                     scratch, divisor + offsetof(tally_divisor, multiplier), number,
                     divisor + offsetof(tally_divisor, shift), quotient);
}

/// into = number - quotient * extent.
std::string remainder(std::string_view into, std::string_view number, std::string_view quotient,
                      unsigned dimension) {
  return fmt::format("ld.param.u32 {0}, [$tally_launch+{1}];\n"
                     "\tmul.lo.u32 {0}, {2}, {0};\n"
                     "\tsub.u32 {0}, {3}, {0};\n\t",
                     into, TALLY_PARAMETER(grid) + 4 * dimension, quotient, number);
}

/// %tally_r0 += the block's position in its cluster.
std::string addClusterPosition(unsigned dimension) {
  return fmt::format("mov.u32 %tally_r3, %cluster_ctaid.{};\n"
                     "\tadd.u32 %tally_r0, %tally_r0, %tally_r3;\n\t",
                     axis(dimension));
}

std::string storeToBlock(unsigned dimension, bool inCluster) {
  return (inCluster ? addClusterPosition(dimension) : "") +
         fmt::format("st.shared.u32 [$tally_block+{}], %tally_r0;\n\t", 4 + 4 * dimension);
}

/// remainder = number - quotient * extent, into $tally_block.
std::string storeRemainder(std::string_view number, std::string_view quotient, unsigned dimension,
                           bool inCluster) {
  return remainder("%tally_r0", number, quotient, dimension) + storeToBlock(dimension, inCluster);
}

} // namespace

std::string decodeToShared(bool inCluster) {
  return divide("%tally_r1", "%tally_id", TALLY_PARAMETER(by_grid_x)) +
         storeRemainder("%tally_id", "%tally_r1", 0, inCluster) +
         divide("%tally_r2", "%tally_r1", TALLY_PARAMETER(by_grid_y)) +
         storeRemainder("%tally_r1", "%tally_r2", 1, inCluster) +
         (inCluster ? "mov.u32 %tally_r0, %tally_r2;\n\t" + storeToBlock(2, true)
                    : std::string("st.shared.u32 [$tally_block+12], %tally_r2;\n\t"));
}

namespace {

/// %tally_r0, %tally_r3, %tally_r2 = x, y, z of the linear id, or only x.
std::string divideId(IdWords words) {
  std::string text = divide("%tally_r1", "%tally_id", TALLY_PARAMETER(by_grid_x)) +
                     remainder("%tally_r0", "%tally_id", "%tally_r1", 0);
  if (words == IdWords::X)
    return text;
  return text + divide("%tally_r2", "%tally_r1", TALLY_PARAMETER(by_grid_y), "%tally_r3") +
         remainder("%tally_r3", "%tally_r1", "%tally_r2", 1);
}

} // namespace

std::string publish(IdWords words, std::string_view at) {
  std::string text = "mov.u32 %tally_flag, 0;\n\t";
  if (words == IdWords::None)
    return text + fmt::format("st.shared.u32 [{}], %tally_flag;\n", at);
  text += divideId(words);
  if (words == IdWords::X)
    return text + fmt::format("st.shared.v2.u32 [{}], {{%tally_flag, %tally_r0}};\n", at);
  return text +
         fmt::format("st.shared.v4.u32 [{}], {{%tally_flag, %tally_r0, %tally_r3, %tally_r2}};\n",
                     at);
}

std::string loadPublished(IdWords words, std::string_view at) {
  switch (words) {
  case IdWords::None:
    return fmt::format("ld.shared.u32 %tally_flag, [{}];\n\t", at);
  case IdWords::X:
    return fmt::format("ld.shared.v2.u32 {{%tally_flag, %tally_ctaid_x}}, [{}];\n\t", at);
  case IdWords::All:
    break;
  }
  return fmt::format(
      "ld.shared.v4.u32 {{%tally_flag, %tally_ctaid_x, %tally_ctaid_y, %tally_ctaid_z}}, "
      "[{}];\n\t",
      at);
}

std::string firstSlot() { return "mov.u32 %tally_ids, $tally_block;\n\t"; }

std::string publishInSlot(IdWords words) {
  if (words != IdWords::All)
    return publish(words, slot);
  return divideId(words) + "shl.b32 %tally_r2, %tally_r2, 16;\n"
                           "\tor.b32 %tally_r3, %tally_r3, %tally_r2;\n"
                           "\tst.shared.v2.u32 [%tally_ids], {%tally_r0, %tally_r3};\n";
}

std::string publishLeaveInSlot() {
  return "\tmov.u32 %tally_r0, -1;\n\tst.shared.u32 [%tally_ids], %tally_r0;\n";
}

std::string loadFromSlot(IdWords words) {
  std::string swap = fmt::format("xor.b32 %tally_ids, %tally_ids, {};\n\t", slotBytes);
  constexpr std::string_view meetInWarp = "bar.warp.sync -1;\n\t";
  if (words != IdWords::All)
    return loadPublished(words, slot) + swap + leaveIfAgreed("ret") + std::string(meetInWarp);
  return "ld.shared.v2.u32 {%tally_ctaid_x, %tally_flag}, [%tally_ids];\n"
         "\tand.b32 %tally_ctaid_y, %tally_flag, 65535;\n"
         "\tshr.u32 %tally_ctaid_z, %tally_flag, 16;\n\t" +
         swap +
         fmt::format("setp.lt.s32 %tally_leave, %tally_ctaid_x, 0;\n\t@%tally_leave ret;\n\t{}",
                     meetInWarp);
}

std::string decode(unsigned dimension, const std::string &into) {
  std::string text = divide("%tally_r1", "%tally_id", TALLY_PARAMETER(by_grid_x));
  if (dimension == 0)
    return text + remainder(into, "%tally_id", "%tally_r1", 0);
  if (dimension == 2)
    return text + divide(into, "%tally_r1", TALLY_PARAMETER(by_grid_y));
  return text + divide("%tally_r2", "%tally_r1", TALLY_PARAMETER(by_grid_y)) +
         remainder(into, "%tally_r1", "%tally_r2", 1);
}

std::string opaqueZero(std::string_view into) {
  return fmt::format("ld.param.u32 {0}, [$tally_launch+{1}];\n\tand.b32 {0}, {0}, 255;\n\t", into,
                     offsetof(tally_launch_params, save_stride));
}

std::string loadAgreed() { return "ld.shared.u32 %tally_flag, [$tally_block];\n\t"; }

std::string leaveIfAgreed(std::string_view leave) {
  return fmt::format("setp.ne.u32 %tally_leave, %tally_flag, 0;\n\t@%tally_leave {};\n\t", leave);
}

std::string agreeOrLeave(std::string_view leave) {
  return "bar.sync 0;\n\t" + loadAgreed() + leaveIfAgreed(leave);
}

std::string guardOf(const Instruction &instruction) {
  if (!instruction.guard)
    return {};
  const Operand &predicate = instruction.guard->predicate;
  return fmt::format("@{}{} ", predicate.negated ? "!" : "", predicate.symbol);
}

std::string unalignedBarrier(const Statement &barrier) {
  const Instruction &instruction = barrier.instruction;
  std::string text(barrier.text);
  for (std::string_view modifier : instruction.modifiers)
    if (modifier == "aligned")
      text.erase(static_cast<std::size_t>(modifier.data() - barrier.text.data()) - 1,
                 modifier.size() + 1);
  if (instruction.opcode == "bar")
    text.insert(static_cast<std::size_t>(instruction.opcode.data() - barrier.text.data()) + 3,
                "rier");
  return text;
}

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

namespace {

/// Divides a number of blocks by the cluster's extent. The grid is a whole number of clusters in
/// each dimension, so both quotients are exact.
std::string inClusters(const GridUse &use, unsigned dimension, const std::string &into,
                       const std::string &blocks) {
  std::uint32_t extent = use.clusterExtents[dimension];
  return fmt::format("mov.u32 {0}, {2};\n\tdiv.u32 {0}, {1}, {0};\n\t", into, blocks,
                     extent != 0 ? std::to_string(extent)
                                 : fmt::format("%cluster_nctaid.{}", axis(dimension)));
}

/// Returns the register that holds a component of `use`; appends the instructions that set it to
/// `text`.
std::string virtualId(const GridUse &use, unsigned dimension, const GridSources &sources,
                      std::string &text) {
  if (dimension == 3) {
    text += "mov.u32 %tally_zero, 0;\n\t";
    return "%tally_zero";
  }
  auto name = [&](const char *counted) {
    return fmt::format("%tally_{}{}_{}", use.isExtent ? "n" : "", counted, axis(dimension));
  };
  std::string into = name("ctaid");
  text += (use.isExtent ? sources.extent : sources.index)(dimension, into);
  if (!use.isCluster)
    return into;
  text += inClusters(use, dimension, name("clusterid"), into);
  return name("clusterid");
}

/// Returns the low 16 bits of the register, for a user's instruction of 16 bits.
std::string lowHalf(const std::string &id, unsigned dimension, std::string &text) {
  std::string half = fmt::format("%tally_half{}", dimension);
  text += fmt::format("cvt.u16.u32 {}, {};\n\t", half, id);
  return half;
}

/// Returns, by use, the dimensions of %ctaid to read there, as bits: the first use of a straight
/// run reads all dimensions of the run, the other uses none.
std::vector<unsigned> readsOfRuns(const Function &function, const FunctionFacts &facts) {
  std::vector<unsigned> reads(facts.gridUses.size());
  std::size_t first = 0;
  for (std::size_t i = 0; i != facts.gridUses.size(); ++i) {
    const GridUse &use = facts.gridUses[i];
    for (std::uint32_t at = facts.gridUses[i == 0 ? 0 : i - 1].statement; at < use.statement; ++at)
      if (StatementKind kind = function.body[at].kind;
          (kind != StatementKind::Instruction && kind != StatementKind::Location) ||
          (kind == StatementKind::Instruction && isTerminator(function.body[at].instruction)))
        first = i;
    if (!use.isExtent)
      reads[first] |= use.isVector ? 7u : (1u << use.dimension) & 7u;
  }
  return reads;
}

} // namespace

void replaceGridUses(FunctionEditor &editor, const FunctionFacts &facts,
                     const GridSources &sources) {
  if (llvm::any_of(facts.gridUses, [](const GridUse &use) {
        return use.isHalf || use.isVector || use.dimension == 3;
      }))
    editor.insertAtBodyStart(".reg .b32 %tally_zero;\n\t.reg .b16 %tally_half<4>;\n\t");
  std::vector<unsigned> reads;
  if (sources.together)
    reads = readsOfRuns(*sources.together, facts);
  auto none = [](unsigned, const std::string &) { return std::string(); };
  for (std::size_t i = 0; i != facts.gridUses.size(); ++i) {
    const GridUse &use = facts.gridUses[i];
    std::string text, ids;
    for (unsigned dimension = 0; sources.together && dimension != 3; ++dimension)
      if (reads[i] >> dimension & 1)
        text += sources.index(dimension, fmt::format("%tally_ctaid_{}", axis(dimension)));
    for (unsigned dimension = use.isVector ? 0 : use.dimension,
                  last = use.isVector ? 3 : use.dimension;
         dimension <= last; ++dimension) {
      std::string id = virtualId(
          use, dimension, sources.together ? GridSources{none, sources.extent} : sources, text);
      ids += (ids.empty() ? "" : ", ") + (use.isHalf ? lowHalf(id, dimension, text) : id);
    }
    editor.insertBefore(use.statement, text);
    editor.replace(use.operand->text, use.isVector ? "{" + ids + "}" : ids);
  }
}

std::string loadExtentFromParameters(unsigned dimension, const std::string &into) {
  return fmt::format("ld.param.u32 {}, [$tally_launch+{}];\n\t", into,
                     TALLY_PARAMETER(grid) + 4 * dimension);
}

std::string loadIndexFromShared(unsigned dimension, const std::string &into) {
  return fmt::format("ld.shared.u32 {}, [$tally_block+{}];\n\t", into, 4 + 4 * dimension);
}

std::string loadExtentFromShared(unsigned dimension, const std::string &into) {
  return fmt::format("ld.shared.u32 {}, [$tally_block+{}];\n\t", into, 16 + 4 * dimension);
}

} // namespace tally::ptx::emit
