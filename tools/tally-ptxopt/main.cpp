// tally-ptxopt: rewrites the kernels of PTX modules into variants that can be interrupted.
#include "files.h"
#include "options.h"

#include "tally/ptx/syntax/parser.h"
#include "tally/ptx/transforms/rewriter.h"

#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/raw_ostream.h"

using namespace tally;

int main(int argc, char **argv) {
  auto parsed = ptxopt::parseCommandLine(argc, argv);
  if (!parsed) {
    llvm::errs() << "tally-ptxopt: error: " << parsed.error().message << '\n';
    return 1;
  }
  const auto &options = *parsed;
  for (auto &input : options.inputs) {
    auto text = ptxopt::readInput(input);
    if (!text) {
      llvm::errs() << text.error().message << '\n';
      return 1;
    }
    auto module = ptx::parse(*text);
    if (auto *d = std::get_if<ptx::Diagnostic>(&module)) {
      llvm::errs() << d->message << " at " << d->offset << '\n';
      return 1;
    }
    auto &m = std::get<ptx::Module>(module);
    auto kernels = ptx::rewrite(m, {options.kinds, options.selects});
    for (auto &k : kernels)
      for (auto &v : k.variants)
        llvm::errs() << k.description.name << ' ' << name(v.verdict.kind) << ' '
                     << name(v.verdict.status) << ' ' << v.verdict.reason << ' ' << v.verdict.line
                     << '\n';
    auto path = ptxopt::outputPath(options, input);
    (void)ptxopt::writeOutput(*path, ptx::textWithVariants(m, kernels));
  }
}
