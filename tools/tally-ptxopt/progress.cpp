#include "progress.h"

#include "llvm/Support/raw_ostream.h"

#include <unistd.h>

namespace tally::ptxopt {

Progress::Progress(std::size_t kernels) : all(kernels), shows(isatty(STDERR_FILENO)) {}

Progress::~Progress() {
  if (shown)
    llvm::errs() << "\r\x1b[K";
}

void Progress::done(std::size_t kernels) {
  std::scoped_lock lock(mutex);
  finished += kernels;
  if (!shows || std::chrono::steady_clock::now() - start < std::chrono::seconds(1))
    return;
  shown = true;
  llvm::errs() << "\r\x1b[Ktally-ptxopt: assembled " << finished << " of " << all << " kernels";
}

} // namespace tally::ptxopt
