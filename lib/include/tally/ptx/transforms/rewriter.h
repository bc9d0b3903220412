// Module in, variants and verdicts out: the whole pipeline.
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

/// A variant's entries in another coding; it may reach the same clones.
struct Alternative {
  Coding coding;
  std::vector<EditedText> entries;
};

/// One kind of one kernel.
struct Variant {
  Verdict verdict;
  std::vector<EditedText> entries;                  ///< whole `.entry` texts; empty unless emitted
  std::vector<std::shared_ptr<const Clone>> clones; ///< that the entries may reach
  std::vector<std::string> codings;                 ///< of each entry; empty where not asked for
  std::vector<Alternative> alternatives;            ///< see RewriteOptions::withAlternatives
};

/// What became of one kernel.
struct RewrittenKernel {
  const Function *function = nullptr;
  bool selected = true;          ///< by RewriteOptions::selects
  bundle::Kernel layout;         ///< without verdicts: see describe()
  std::vector<Variant> variants; ///< of the kinds asked for, in the order of allKinds
};

struct RewriteOptions {
  KindSet kinds = everyKind;
  /// Which kernels; all when empty. The others get no variants.
  std::function<bool(std::string_view)> selects;
  /// Kernels whose blocks, as the user says, wait only for blocks of lower linear id; none when
  /// empty.
  std::function<bool(std::string_view)> assumesInOrder;
  /// Also writes the variants in their other codings, for somebody who can tell which is cheaper.
  bool withAlternatives = false;
  PollRules polls; ///< for kinds that poll in loops
  /// The coding to write where a kernel's variant has it; the default one where it has not.
  std::string coding;
};

/// Analyses and rewrites the module's entries that have bodies, in source order. `module` must
/// outlive the result. Thread-safe for distinct modules.
std::vector<RewrittenKernel> rewrite(const Module &module, const RewriteOptions &options);

/// A module and what became of its kernels.
struct RewrittenModule {
  Module module; ///< perhaps without the bodies of its kernels (syntax/entry_reader.h)
  std::vector<RewrittenKernel> kernels;
};

/// parse() and rewrite() of a text of any size: kernels are parsed one after the other, and their
/// statements, which take more than ten times the memory of the text, are not kept. Once a kernel
/// calls a function all are parsed and kept, as each may take the address of what is called.
std::variant<RewrittenModule, Diagnostic> rewriteText(std::string source,
                                                      const RewriteOptions &options);

/// The kernel as a bundle holds it: a verdict of every kind, "not-requested" for those not asked
/// for.
bundle::Kernel describe(const RewrittenKernel &kernel);

/// The module's own text, byte for byte, and after it `variants`: the clones that they call, once
/// each, and their entries. Without `usersKernels`, entries with bodies are left out of the former:
/// what is left declares all that the variants name.
std::string textWith(const Module &module, const std::vector<const Variant *> &variants,
                     bool usersKernels = true);

/// The same with all emitted variants.
std::string textWithVariants(const Module &module, const std::vector<RewrittenKernel> &kernels);

/// `entry`, the text of an `.entry` of `module` without such a directive, with `.maxnreg
/// registers`.
std::string withRegisterCap(const Module &module, const std::string &entry,
                            std::uint32_t registers);

/// textWith() and textWithVariants(), handed to `sink` in pieces: nothing holds the whole text.
void writeWith(const Module &module, const std::vector<const Variant *> &variants,
               const std::function<void(std::string_view)> &sink, bool usersKernels = true);
void writeWithVariants(const Module &module, const std::vector<RewrittenKernel> &kernels,
                       const std::function<void(std::string_view)> &sink);

} // namespace tally::ptx

#endif
