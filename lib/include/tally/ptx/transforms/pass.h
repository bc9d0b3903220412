// What a pass is: it looks at one entry and describes its variant.
#ifndef TALLY_PTX_TRANSFORMS_PASS_H
#define TALLY_PTX_TRANSFORMS_PASS_H

#include "tally/bundle/verdict.h"
#include "tally/ptx/analysis/poll_sites.h"
#include "tally/ptx/ir/module.h"
#include "tally/ptx/transforms/edited_text.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tally::ptx {

struct KernelAnalysis;

/// What a pass sees of one kernel. Borrows all of it.
struct PassInput {
  const Module &module;
  const Function &function;       ///< an entry with a body
  const KernelAnalysis &analysis; ///< that found nothing against the pass's kind
  std::string_view coding = {};   ///< one of Pass::codings(); empty for the default one
  PollRules polls = {};           ///< of the kinds that poll in loops
};

/// What a saved block takes in memory; see Verdict.
struct SaveSizes {
  std::uint32_t recordBytes = 0, sharedBytes = 0;
};

/// One of several ways to write a variant, all sound: which is the cheapest only ptxas knows.
struct Coding {
  std::string_view name; ///< "zeroed": in reports and --coding
  /// It costs time, so it is taken only where those before it leave room for fewer blocks on an SM
  /// than the user's kernel.
  bool onlyForOccupancy = false;
};

/// Writes the variant of one kind. Passes have no state: one object serves all kernels and threads.
class Pass {
public:
  virtual ~Pass() = default;
  virtual Kind kind() const = 0;
  /// The variant's entries, one, or two where the kind has a resume entry: whole `.entry` texts, to
  /// be appended to the module, of which they share what is the user's. Called only for a kernel
  /// that the analyses let this kind have, so it cannot refuse: what is unsound is a finding
  /// (analysis/refusal_reasons.def).
  virtual std::vector<EditedText> run(const PassInput &input) const = 0;
  /// The ways to write this kernel's variant, the default one first; empty where there is but one.
  /// All have the same entries.
  virtual std::vector<Coding> codings(const PassInput &) const { return {}; }
  /// What a block of this variant saves, where it saves any.
  virtual SaveSizes saveSizes(const PassInput &) const { return {}; }
};

/// One row of passes.def.
struct PassFacts {
  Kind kind;
  std::string_view help; ///< one line
  std::unique_ptr<Pass> (*create)();
};

/// All passes, in the order of allKinds.
const std::vector<PassFacts> &allPasses();

} // namespace tally::ptx

#endif
