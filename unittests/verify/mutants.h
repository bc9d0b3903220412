// The mutants: each plants a known defect of a rewriter, or breaks one rule of the ABI, and names
// the test that must see it. mutation_test.cpp runs them.
#ifndef TALLY_UNITTESTS_VERIFY_MUTANTS_H
#define TALLY_UNITTESTS_VERIFY_MUTANTS_H

#include "saboteur.h"

#include "tally/bundle/bundle.h"
#include "tally/bundle/verdict.h"

#include <functional>
#include <string>
#include <vector>

namespace tally::verify {

/// Changes every match of the regular expression `from` in the emitted entries of `kind`.
struct TextMutant {
  const char *rule, *name;
  Kind kind;
  /// A kernel of test/execution/launches.txt, possibly with more options; a whole line in the form
  /// of that file; or "generated".
  const char *subject;
  const char *from, *to;
};

/// The rewriter does not see the statements that match `hidden` (a regular expression over the
/// subject's module): they are comments while the rewriter works, and statements again when the
/// variants run.
struct BlindMutant {
  const char *rule, *name;
  Kind kind;
  const char *subject;
  const char *hidden;
};

/// The host launches the variants against the ABI.
struct HostMutant {
  const char *rule, *name;
  Kind kind;
  const char *subject;
  std::function<Sabotage()> sabotage;
};

/// The bundle tells another verdict than the rewriter's; the table of verdicts must show it.
struct VerdictMutant {
  const char *rule, *name;
  const char *subject;
  std::function<void(bundle::Bundle &bundle)> change;
};

const std::vector<TextMutant> &textMutants();
const std::vector<BlindMutant> &blindMutants();
const std::vector<HostMutant> &hostMutants();
const std::vector<VerdictMutant> &verdictMutants();

} // namespace tally::verify

#endif
