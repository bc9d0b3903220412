// The whole pipeline: a module in, variants and verdicts out.
#ifndef TALLY_PTX_TRANSFORMS_REWRITER_H
#define TALLY_PTX_TRANSFORMS_REWRITER_H

#include "tally/bundle/bundle.h"
#include "tally/ptx/analysis/poll_sites.h"
#include "tally/ptx/analysis/refusal_reasons.h"
#include "tally/ptx/ir/module.h"
#include "tally/ptx/syntax/diagnostic.h"
#include "tally/ptx/transforms/pass.h"

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace tally::ptx {

/// A copy of a callee that variants call (lib/ptx/transforms/clones.h).
struct Clone {
  std::string name, declaration, definition;
};

/// A variant's entries in another coding; they may reach the same clones.
struct Alternative {
  Coding coding;
  std::vector<EditedText> entries;
};

/// The variant of one kind for one kernel.
struct Variant {
  Verdict verdict;
  std::vector<EditedText> entries;                  ///< whole `.entry` texts; empty unless emitted
  std::vector<std::shared_ptr<const Clone>> clones; ///< the clones that the entries may reach
  std::vector<std::string> codings; ///< coding of each entry; empty where the options ask for none
  std::vector<Alternative> alternatives; ///< see RewriteOptions::withAlternatives
};

/// The result for one kernel.
struct RewrittenKernel {
  const Function *function = nullptr;
  bool selected = true;          ///< by RewriteOptions::selects
  bundle::Kernel layout;         ///< without verdicts: see describe()
  std::vector<Variant> variants; ///< variants of the requested kinds, in the order of allKinds
};

struct RewriteOptions {
  KindSet kinds = everyKind;
  /// Selects kernels; selects all when empty. The other kernels get no variants.
  std::function<bool(std::string_view)> selects;
  /// Selects kernels whose blocks, by the user's assertion, wait only for blocks of lower linear
  /// id; none when empty.
  std::function<bool(std::string_view)> assumesInOrder;
  /// Also writes the variants in their other codings, for a caller that can compare their cost.
  bool withAlternatives = false;
  PollRules polls; ///< for kinds that poll in loops
  /// The coding to write where a kernel's variant has it; otherwise the default.
  std::string coding;
};

/// Analyses and rewrites the module's entries that have bodies, in source order. `module` must
/// outlive the result. Thread-safe for distinct modules.
std::vector<RewrittenKernel> rewrite(const Module &module, const RewriteOptions &options);

/// A module and the results for its kernels.
struct RewrittenModule {
  Module module; ///< may lack the bodies of its kernels (syntax/entry_reader.h)
  std::vector<RewrittenKernel> kernels;
};

/// parse() and rewrite() for a text of any size: parses the kernels one by one and drops their
/// statements, which take more than ten times the memory of the text. Once a kernel calls a
/// function, all kernels are parsed and kept, as each may take the address of the called function.
std::variant<RewrittenModule, Diagnostic> rewriteText(std::string source,
                                                      const RewriteOptions &options);

/// Returns the kernel as a bundle holds it: a verdict for every kind, "not-requested" for kinds
/// that were not requested.
bundle::Kernel describe(const RewrittenKernel &kernel);

/// Returns the module's own text, byte for byte, followed by `variants`: their clones, once each,
/// and their entries. Without `usersKernels` the module's text lacks entries with bodies; the rest
/// declares all names of the variants.
std::string textWith(const Module &module, const std::vector<const Variant *> &variants,
                     bool usersKernels = true);

/// textWith() for all emitted variants.
std::string textWithVariants(const Module &module, const std::vector<RewrittenKernel> &kernels);

/// Returns `entry` with `.maxnreg registers`. `entry` is the text of an `.entry` of `module`
/// without such a directive.
std::string withRegisterCap(const Module &module, const std::string &entry,
                            std::uint32_t registers);

/// Like textWith() and textWithVariants(), in pieces to `sink`: nothing holds the whole text.
void writeWith(const Module &module, const std::vector<const Variant *> &variants,
               const std::function<void(std::string_view)> &sink, bool usersKernels = true);
void writeWithVariants(const Module &module, const std::vector<RewrittenKernel> &kernels,
                       const std::function<void(std::string_view)> &sink);

} // namespace tally::ptx

#endif
