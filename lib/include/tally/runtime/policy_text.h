// Reads a policy as users write it in a setting: NAME, or NAME:KEY=VALUE,KEY=VALUE
// (docs/reference/policies.md).
#ifndef TALLY_RUNTIME_POLICY_TEXT_H
#define TALLY_RUNTIME_POLICY_TEXT_H

#include "tally/runtime/any_policy.h"
#include "tally/support/result.h"

#include <string_view>

namespace tally::runtime {

/// Reads a text such as "slo:target-us=2000"; "" is priority. The error names the allowed values.
Result<AnyPolicy> policyFromText(std::string_view text);

} // namespace tally::runtime

#endif
