// Reads FILE of the command line: PTX or a bundle, told apart by its first bytes.
#ifndef TALLY_VERIFY_INPUT_H
#define TALLY_VERIFY_INPUT_H

#include "tally/bundle/bundle.h"
#include "tally/support/result.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace tally::verify {

/// Poll period of kinds that poll in loops, in the estimated cycles of ptx::PollRules: short, so
/// that a run has many polls.
inline constexpr std::uint64_t defaultPollPeriod = 128;

/// Reads a bundle unchanged, or rewrites PTX into a bundle that holds PTX only. Fails where the
/// file cannot be read, is damaged, does not parse, or is PTX and this build cannot rewrite.
/// `coding`: the coding of variants where PTX allows several, see tally-ptxopt's --coding; the
/// default coding when empty.
Result<bundle::Bundle> readInput(const std::string &path, const std::string &coding = {},
                                 std::uint64_t pollPeriod = defaultPollPeriod);

/// Rewrites PTX text, all kernels and kinds, and checks the structure of the result. `where` names
/// the text in errors. Without LLVM it always fails, with that reason.
Result<bundle::Bundle> rewriteToBundle(std::string text, std::string_view where,
                                       const std::string &coding = {},
                                       std::uint64_t pollPeriod = defaultPollPeriod);

} // namespace tally::verify

#endif
