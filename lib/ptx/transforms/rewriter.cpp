#include "tally/ptx/transforms/rewriter.h"

#include "clones.h"
#include "tally/ptx/analysis/kernel_analysis.h"
#include "tally/ptx/syntax/entry_reader.h"
#include "tally/ptx/syntax/parser.h"
#include "tally/ptx/syntax/printer.h"
#include "tally/ptx/transforms/pass.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

#include <cassert>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

namespace tally::ptx {
namespace {

Verdict refused(Kind kind, const Finding &finding, const Module &module) {
  const ReasonFacts &facts = factsOf(finding.reason);
  std::string message(facts.sentence);
  if (!finding.detail.empty())
    message += fmt::format(": {}", finding.detail);
  return {kind, Status::Refused, std::string(facts.code), std::move(message),
          module.lineOf(finding.place)};
}

/// Returns a finding if the module already holds an entry with the variant's name.
const Finding *clash(const Module &module, std::string_view kernel, Kind kind, Finding &storage) {
  for (bool resume : {false, true})
    if (const Function *taken = module.function(bundle::entryName(kernel, kind, resume))) {
      storage = {Reason::ReservedName, taken->name, std::string(taken->name)};
      return &storage;
    }
  return nullptr;
}

bundle::Kernel layoutOf(const Function &function, const KernelAnalysis &analysis) {
  bundle::Kernel kernel;
  kernel.name = function.name;
  for (const Variable &parameter : function.parameters)
    kernel.parameters.push_back(
        {parameter.paramOffset, static_cast<std::uint32_t>(parameter.sizeInBytes)});
  kernel.parameterBytes = function.parameterBytes();
  kernel.staticSharedBytes = analysis.staticSharedBytes;
  // Slice also runs kernels with unknown opcodes: these may be cluster opcodes.
  kernel.usesClusters =
      analysis.usesClusters || llvm::any_of(analysis.findings, [](const Finding &each) {
        return each.reason == Reason::UnknownOpcode;
      });
  if (auto [x, y, z] = requiredCluster(function); x != 0 && y != 0 && z != 0)
    kernel.requiredCluster = {x, y, z};
  kernel.bitwiseStable = analysis.bitwiseStable;
  kernel.readsSharedSize = analysis.readsSharedSize;
  kernel.changesVariables = analysis.changesVariables;
  kernel.spending = analysis.loop.spends               ? bundle::Spending::Possible
                    : analysis.loop.needsWholeWarpRows ? bundle::Spending::InPartialRows
                                                       : bundle::Spending::Never;
  kernel.waits = analysis.waits;
  kernel.gridRank = analysis.gridRank;
  kernel.waitsAreAssumed = analysis.waitsAreAssumed;
  return kernel;
}

/// Writes the entries in the requested coding, and the alternatives.
void write(Variant &variant, const Pass &pass, PassInput input, const RewriteOptions &options) {
  std::vector<Coding> codings;
  if (options.withAlternatives || !options.coding.empty())
    codings = pass.codings(input);
  std::size_t first = 0;
  for (std::size_t i = 0; i != codings.size(); ++i)
    if (codings[i].name == options.coding)
      first = i;
  if (!codings.empty())
    input.coding = codings[first].name;
  variant.entries = pass.run(input);
  variant.codings.assign(variant.entries.size(), std::string(input.coding));
  if (options.withAlternatives)
    for (std::size_t i = 0; i != codings.size(); ++i)
      if (i != first) {
        input.coding = codings[i].name;
        variant.alternatives.push_back({codings[i], pass.run(input)});
      }
}

/// The module's clones; each is made once.
class Clones {
public:
  std::vector<std::shared_ptr<const Clone>> of(const KernelAnalysis &analysis) {
    std::vector<std::shared_ptr<const Clone>> result;
    for (const Function *callee : analysis.cloned) {
      auto &clone = made[callee];
      if (!clone)
        clone = std::make_shared<const Clone>(cloneOf(*callee, *analysis.calls));
      result.push_back(clone);
    }
    return result;
  }

private:
  std::unordered_map<const Function *, std::shared_ptr<const Clone>> made;
};

/// Rewrites a module's entries one by one.
class Rewriter {
public:
  Rewriter(const Module &module, const RewriteOptions &options)
      : module(module), options(options), facts(module) {}

  RewrittenKernel rewrite(const Function &entry);
  bool calls(const Function &entry) { return !facts.of(entry).calls.empty(); }
  /// Called before the entry's body is released.
  void forget(const Function &entry) { facts.forget(entry); }

private:
  const Module &module;
  const RewriteOptions &options;
  ModuleFacts facts;
  Clones clones;
};

RewrittenKernel Rewriter::rewrite(const Function &function) {
  bool selected = !options.selects || options.selects(function.name);
  KindSet kinds = selected ? options.kinds : KindSet{0};
  bool assumed = options.assumesInOrder && options.assumesInOrder(function.name);
  KernelAnalysis analysis = analyzeKernel(facts, function, kinds, assumed, options.polls);
  RewrittenKernel result;
  result.function = &function;
  result.selected = selected;
  result.layout = layoutOf(function, analysis);
  for (const PassFacts &pass : allPasses()) {
    if (!(kinds & setOf(pass.kind)))
      continue;
    Variant variant;
    Finding storage;
    const Finding *finding = clash(module, function.name, pass.kind, storage);
    if (!finding)
      finding = analysis.refusal(pass.kind);
    if (finding) {
      variant.verdict = refused(pass.kind, *finding, module);
    } else {
      variant.verdict = {pass.kind, Status::Emitted, {}, {}, 0};
      PassInput input{module, function, analysis, {}, options.polls};
      std::unique_ptr<Pass> writer = pass.create();
      SaveSizes saved = writer->saveSizes(input);
      variant.verdict.recordBytes = saved.recordBytes;
      variant.verdict.savedSharedBytes = saved.sharedBytes;
      write(variant, *writer, input, options);
      variant.clones = clones.of(analysis);
    }
    result.variants.push_back(std::move(variant));
  }
  return result;
}

} // namespace

std::vector<RewrittenKernel> rewrite(const Module &module, const RewriteOptions &options) {
  std::vector<RewrittenKernel> kernels;
  Rewriter rewriter(module, options);
  for (const Item &item : module.items())
    if (item.isKernel())
      kernels.push_back(rewriter.rewrite(*item.function));
  return kernels;
}

namespace {

/// Returns nothing where the reader meets an error.
std::optional<std::vector<RewrittenKernel>> rewriteEach(EntryReader &reader,
                                                        const RewriteOptions &options) {
  if (!reader.isGood())
    return std::nullopt;
  std::vector<RewrittenKernel> kernels;
  Rewriter rewriter(reader.module(), options);
  const std::vector<Item> &items = reader.module().items();
  for (std::size_t i = 0; i != items.size(); ++i) {
    if (!items[i].isKernel())
      continue;
    const Function &entry = *items[i].function;
    if (!reader.read(i))
      return std::nullopt;
    if (rewriter.calls(entry) && !reader.keepsAll()) {
      rewriter.forget(entry);
      if (!reader.readAll())
        return std::nullopt;
    }
    kernels.push_back(rewriter.rewrite(entry));
    if (!reader.keepsAll())
      rewriter.forget(entry);
  }
  return kernels;
}

} // namespace

std::variant<RewrittenModule, Diagnostic> rewriteText(std::string source,
                                                      const RewriteOptions &options) {
  EntryReader reader(std::move(source));
  if (auto kernels = rewriteEach(reader, options))
    return RewrittenModule{reader.takeModule(), std::move(*kernels)};
  auto parsed = parse(reader.takeSource());
  if (auto *diagnostic = std::get_if<Diagnostic>(&parsed))
    return std::move(*diagnostic);
  RewrittenModule result{std::move(std::get<Module>(parsed)), {}};
  result.kernels = rewrite(result.module, options);
  return result;
}

bundle::Kernel describe(const RewrittenKernel &kernel) {
  bundle::Kernel result = kernel.layout;
  for (Kind kind : allKinds)
    result.verdicts.push_back(
        {kind, Status::Refused, "not-requested", "this kind was not asked for", 0});
  for (const Variant &variant : kernel.variants)
    *llvm::find_if(result.verdicts, [&](const Verdict &each) {
      return each.kind == variant.verdict.kind;
    }) = variant.verdict;
  return result;
}

void writeWith(const Module &module, const std::vector<const Variant *> &variants,
               const std::function<void(std::string_view)> &sink, bool usersKernels) {
  std::size_t left = module.text().size(); // trailing text of the module stays behind the variants
  if (usersKernels)
    print(module, [&](std::string_view piece) {
      piece = piece.substr(0, left);
      left -= piece.size();
      sink(piece);
    });
  else
    for (const Item &item : module.items())
      if (!item.isKernel()) {
        sink(item.leading);
        sink(item.text);
      }
  bool endsLine = usersKernels && module.text().ends_with('\n');
  auto append = [&](const EditedText &part) {
    sink(endsLine ? "\n" : "\n\n");
    part.forEachPiece(sink);
    sink("\n");
    endsLine = true;
  };
  std::set<std::string_view> names;
  std::vector<const Clone *> clones;
  for (const Variant *variant : variants)
    for (const auto &clone : variant->clones)
      if (names.insert(clone->name).second)
        clones.push_back(clone.get());
  if (!clones.empty())
    append(std::string(blockVariable));
  for (const Clone *clone : clones)
    append(clone->declaration);
  for (const Clone *clone : clones)
    append(clone->definition);
  for (const Variant *variant : variants)
    for (const EditedText &entry : variant->entries)
      append(entry);
  if (usersKernels)
    sink(module.source().substr(module.text().size()));
}

namespace {

std::vector<const Variant *> emittedOf(const std::vector<RewrittenKernel> &kernels) {
  std::vector<const Variant *> variants;
  for (const RewrittenKernel &kernel : kernels)
    for (const Variant &variant : kernel.variants)
      if (!variant.entries.empty())
        variants.push_back(&variant);
  return variants;
}

} // namespace

void writeWithVariants(const Module &module, const std::vector<RewrittenKernel> &kernels,
                       const std::function<void(std::string_view)> &sink) {
  writeWith(module, emittedOf(kernels), sink);
}

std::string textWith(const Module &module, const std::vector<const Variant *> &variants,
                     bool usersKernels) {
  std::size_t size = 0;
  writeWith(module, variants, [&](std::string_view piece) { size += piece.size(); }, usersKernels);
  std::string text;
  text.reserve(size);
  writeWith(module, variants, [&](std::string_view piece) { text += piece; }, usersKernels);
  return text;
}

std::string textWithVariants(const Module &module, const std::vector<RewrittenKernel> &kernels) {
  return textWith(module, emittedOf(kernels));
}

std::string withRegisterCap(const Module &module, const std::string &entry,
                            std::uint32_t registers) {
  std::string prelude;
  for (const Item &item : module.items())
    if (item.kind == ItemKind::Version || item.kind == ItemKind::Target ||
        item.kind == ItemKind::AddressSize)
      prelude.append(item.text).append("\n");
  // The text has only the header: the body may name declarations that only the module has.
  EntryReader reader(prelude + entry);
  assert(reader.isGood() && "the header of an entry that tally wrote parses");
  const Module &read = reader.module();
  std::string_view header = read.items().back().function->header;
  std::size_t end = static_cast<std::size_t>(header.data() - read.source().data()) + header.size() -
                    prelude.size();
  return std::string(entry).insert(end, fmt::format("\n.maxnreg {}\n", registers));
}

} // namespace tally::ptx
