// tally-ptxopt: rewrites the kernels of PTX modules, and of files that hold PTX, into variants that
// can be interrupted.
#include "launcher.h"
#include "options.h"
#include "pipeline.h"

#include "tally/ptx/transforms/pass.h"

#include "llvm/Support/raw_ostream.h"

#include <csignal>
#include <unistd.h>

using namespace tally;

namespace {

/// A failed assertion is a bug of the tool: exit 3, as --help says.
extern "C" void onAbort(int) {
  constexpr char message[] = "tally-ptxopt: internal error\n";
  if (write(STDERR_FILENO, message, sizeof(message) - 1) < 0)
    _exit(ptxopt::exitInternal);
  _exit(ptxopt::exitInternal);
}

} // namespace

int main(int argc, char **argv) {
  std::signal(SIGABRT, onAbort);
  auto options = ptxopt::parseCommandLine(argc, argv);
  if (!options)
    return ptxopt::fail(options.error());
  if (options->listPasses) {
    for (const ptx::PassFacts &pass : ptx::allPasses())
      llvm::outs() << name(pass.kind) << ": " << pass.help << '\n';
    return 0;
  }
  if (options->list)
    return ptxopt::listInputs(*options);
  return options->compile ? ptxopt::compile(*options) : ptxopt::rewriteInputs(*options);
}
