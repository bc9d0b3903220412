// What a pass is: it looks at one entry and either describes its variant or says why there is none.
#ifndef TALLY_PTX_TRANSFORMS_PASS_H
#define TALLY_PTX_TRANSFORMS_PASS_H

#include "tally/bundle/verdict.h"
#include "tally/ptx/ir/module.h"

#include <string>
#include <string_view>
#include <vector>

namespace tally::ptx {

/// The entries of one variant as PTX text (one, or two where the kind has a resume entry), or the
/// refusal. A refusal is a value, never an error.
struct PassResult {
  Verdict verdict;
  std::vector<std::string> entries; ///< whole `.entry` texts, to be appended to the module
};

} // namespace tally::ptx

#endif
