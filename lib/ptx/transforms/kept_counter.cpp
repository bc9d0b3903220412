#include "kept_counter.h"

#include "codings.h"
#include "tally/ptx/analysis/kernel_analysis.h"

#include "llvm/Support/MathExtras.h"
#include <fmt/format.h>

#include <algorithm>

namespace tally::ptx {
namespace {

/// The size of $tally_block, so that variables behind both keep their address modulo 16.
constexpr std::uint32_t wordBytes = 16;

/// Beside dynamic shared memory or tensor operations, $tally_block is larger than the published
/// words.
bool isInBlock(const PassInput &input) { return input.analysis.tallySharedBytes >= 2 * wordBytes; }

unsigned bitsOfCounter(const SavePoint &point) { return point.strip.isWide ? 64 : 32; }

} // namespace

bool canKeepCounter(const SavePoint &point) {
  return point.strip.counter != noRegister &&
         std::ranges::binary_search(point.alike, point.strip.counter);
}

bool canKeepCounters(const PassInput &input) {
  const KernelAnalysis &analysis = input.analysis;
  if (!analysis.cloned.empty() || !std::ranges::any_of(analysis.checkpoint.points, canKeepCounter))
    return false;
  return isInBlock(input) ||
         llvm::alignTo(analysis.staticSharedBytes, 16) + analysis.tallySharedBytes + wordBytes <=
             staticSharedLimit;
}

std::string counterWord(const PassInput &input) {
  return isInBlock(input) ? fmt::format("$tally_block+{}", wordBytes) : "$tally_counter";
}

std::string declareCounterWord(const PassInput &input) {
  std::string text = ".reg .b32 %tally_kept;\n\t.reg .b64 %tally_kept_wide;\n\t";
  if (!isInBlock(input))
    text += fmt::format(".shared .align 16 .b64 $tally_counter[{}];\n\t", wordBytes / 8);
  return text;
}

std::string keepCounter(const PassInput &input, const SavePoint &point, std::string_view word) {
  bool relaxed = input.module.versionMajor() >= 6 && input.module.targetArch() >= 70;
  return fmt::format(
      "st.{}.shared.b{} [{}], {};\n\t", relaxed ? "relaxed.cta" : "volatile", bitsOfCounter(point),
      word, registerName(input.function.declarationOf(point.strip.counter), point.strip.counter));
}

std::string_view keptThrough(unsigned bits) {
  return bits == 64 ? "%tally_kept_wide" : "%tally_kept";
}

std::string countUp(std::string_view counter, unsigned bits, std::size_t number) {
  std::string text = fmt::format("mov.u{} {}, 0;\n\t", bits, counter);
  for (unsigned at = 0; at != bits; at += keptDigit) {
    text += bits == 64 ? fmt::format("shr.u64 %tally_d4, {}, {};\n"
                                     "\tcvt.u32.u64 %tally_r5, %tally_d4;\n\t",
                                     keptThrough(bits), at)
                       : fmt::format("shr.u32 %tally_r5, {}, {};\n\t", keptThrough(bits), at);
    text += fmt::format("and.b32 %tally_r5, %tally_r5, {0};\n"
                        "\tsetp.eq.u32 %tally_leave, %tally_r5, 0;\n"
                        "\t@%tally_leave bra $tally_counted_{1}_{2};\n"
                        "\n$tally_count_{1}_{2}:\n"
                        "\t.pragma \"nounroll\";\n"
                        "\tadd.s{3} {4}, {4}, {5};\n"
                        "\tsub.u32 %tally_r5, %tally_r5, 1;\n"
                        "\tsetp.ne.u32 %tally_leave, %tally_r5, 0;\n"
                        "\t@%tally_leave bra $tally_count_{1}_{2};\n"
                        "\n$tally_counted_{1}_{2}:\n\t",
                        (1u << keptDigit) - 1, number, at, bits, counter, std::uint64_t{1} << at);
  }
  return text;
}

} // namespace tally::ptx
