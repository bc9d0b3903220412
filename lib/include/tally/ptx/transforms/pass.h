// The interface of a pass: it reads one entry and writes the entry's variant.
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

/// The input of a pass for one kernel. Borrows everything.
struct PassInput {
  const Module &module;
  const Function &function;       ///< an entry with a body
  const KernelAnalysis &analysis; ///< without a finding against the pass's kind
  std::string_view coding = {};   ///< one of Pass::codings(); empty for the default
  PollRules polls = {};           ///< for the kinds that poll in loops
};

/// Memory that a saved block takes; see Verdict.
struct SaveSizes {
  std::uint32_t recordBytes = 0, sharedBytes = 0;
};

/// One of several sound ways to write a variant. Only ptxas can tell which is cheapest.
struct Coding {
  std::string_view name; ///< "zeroed": in reports and --coding
  /// The coding costs time, so it is used only where the earlier codings allow fewer blocks on an
  /// SM than the user's kernel.
  bool onlyForOccupancy = false;
};

/// Writes the variant of one kind. Passes have no state: one object serves all kernels and threads.
class Pass {
public:
  virtual ~Pass() = default;
  virtual Kind kind() const = 0;
  /// Returns the variant's entries: one, or two where the kind has a resume entry. Each is a whole
  /// `.entry` text, to be appended to the module, and shares the user's text. The analyses must
  /// have allowed the kind for the kernel, so the pass cannot refuse: an unsound kernel has a
  /// finding (analysis/refusal_reasons.def).
  virtual std::vector<EditedText> run(const PassInput &input) const = 0;
  /// Returns the ways to write this kernel's variant, the default first; empty if there is only
  /// one. All have the same entries.
  virtual std::vector<Coding> codings(const PassInput &) const { return {}; }
  /// Returns the sizes that a block of this variant saves; zeros if it saves nothing.
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
