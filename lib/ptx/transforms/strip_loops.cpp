#include "strip_loops.h"

#include "codings.h"

#include <fmt/format.h>

#include <cstdlib>

namespace tally::ptx {
namespace {

const Instruction &compareOf(const Function &function, const StripLoop &strip) {
  return function.body[strip.compare].instruction;
}

/// An operand of a strip's instructions, and the code that sets it right before them, if any.
struct Value {
  std::string name, made;
};

/// Returns the comparison's limit, loaded where each turn loads it.
Value limitOf(const Function &function, const StripLoop &strip, std::size_t number) {
  if (!strip.limitLoad)
    return {std::string(compareOf(function, strip).operands[2].text), {}};
  std::string name = fmt::format("%tally_limit_{}", number);
  return {name, fmt::format("\tld.param.b{} {}, {};\n", strip.isWide ? 64 : 32, name,
                            function.body[*strip.limitLoad].instruction.operands[1].text)};
}

bool hasStride(const StripLoop &strip) { return strip.stride != noRegister; }

/// Returns the sum of a strip's steps.
Value lengthOf(const Function &function, const StripLoop &strip, std::size_t number) {
  if (!hasStride(strip))
    return {std::to_string(static_cast<std::uint64_t>(std::llabs(strip.step)) * strip.turns), {}};
  std::string name = fmt::format("%tally_length_{}", number);
  return {name, fmt::format("\tmul.lo.s{} {}, {}, {};\n", strip.isWide ? 64 : 32, name,
                            registerName(function.declarationOf(strip.stride), strip.stride),
                            strip.turns)};
}

} // namespace

std::string stripDeclarations(const StripLoop &strip, std::size_t number) {
  return fmt::format(".reg .b{0} %tally_strip_{1}, %tally_ahead_{1}, %tally_limit_{1}{2};\n"
                     "\t.reg .pred %tally_cut_{1};\n\t",
                     strip.isWide ? 64 : 32, number,
                     hasStride(strip) ? fmt::format(", %tally_length_{}", number) : "");
}

/// The strip ends at the counter plus the strip's steps, if that comes before the limit: the
/// variant makes no turn that the user's comparison would not have made. This holds for any sum of
/// strides, taken as an unsigned number that may have wrapped: a strip that ends before the limit
/// only has another length.
std::string stripBegin(const Function &function, const StripLoop &strip, std::size_t number) {
  std::string counter = registerName(function.declarationOf(strip.counter), strip.counter);
  auto [limit, loaded] = limitOf(function, strip, number);
  auto [length, multiplied] = lengthOf(function, strip, number);
  bool upwards = hasStride(strip) || strip.step > 0;
  unsigned bits = strip.isWide ? 64 : 32;
  std::string text = fmt::format("\n$tally_strip_{0}:\n{5}{6}"
                                 "\tsub.s{1} %tally_ahead_{0}, {2}, {3};\n"
                                 "\tsetp.gt.u{1} %tally_cut_{0}, %tally_ahead_{0}, {4};\n",
                                 number, bits, upwards ? limit : counter, upwards ? counter : limit,
                                 length, loaded, multiplied);
  // The distance has no meaning for a counter past the limit.
  if (!strip.isExact)
    text += fmt::format("\tsetp.{0}.and.{1}{2} %tally_cut_{3}, {4}, {5}, %tally_cut_{3};\n",
                        upwards ? "lt" : "gt", strip.isSigned ? 's' : 'u', bits, number, counter,
                        limit);
  return text + fmt::format("\t{5}.s{1} %tally_ahead_{0}, {2}, {3};\n"
                            "\tselp.b{1} %tally_strip_{0}, %tally_ahead_{0}, {4}, %tally_cut_{0};\n"
                            "\n$tally_go_{0}:\n\t",
                            number, bits, counter, length, limit, upwards ? "add" : "sub");
}

std::string stripToTheEnd(const Function &function, const StripLoop &strip, std::size_t number) {
  auto [limit, loaded] = limitOf(function, strip, number);
  return fmt::format("{}\tmov.b{} %tally_strip_{}, {};\n\t", loaded, strip.isWide ? 64 : 32, number,
                     limit);
}

std::string stripTurn(const Function &function, const StripLoop &strip, std::size_t number) {
  const Instruction &compare = compareOf(function, strip);
  bool negated = function.body[strip.branch].instruction.guard->predicate.negated;
  return fmt::format("setp.{0}.{1} %tally_cut_{3}, {2}, %tally_strip_{3};\n"
                     "\t@{4}%tally_cut_{3} bra $tally_go_{3};\n\t",
                     compare.modifiers[0], compare.modifiers[1], compare.operands[1].text, number,
                     negated ? "!" : "");
}

} // namespace tally::ptx
