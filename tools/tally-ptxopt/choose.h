// Which of a variant's codings is the cheapest, as ptxas sees it.
#ifndef TALLY_TOOLS_PTXOPT_CHOOSE_H
#define TALLY_TOOLS_PTXOPT_CHOOSE_H

#include "assembly.h"

namespace tally::ptxopt {

/// An entry as it was before capAhead().
struct Uncapped {
  std::string name; ///< of the entry
  ptx::EditedText text;
  std::string coding;
};

/// Caps the registers of entries (`.maxnreg`) that a few more than the user's kernel takes would
/// cost blocks on an SM, where the compiler's machine code says how many that takes. In most cases
/// they do with as many, and the module need not be assembled a second time.
std::vector<Uncapped> capAhead(Job &job, const Architecture &arch);

/// Puts the best coding of each entry into the job's variants, by what they take on the assembler's
/// architecture: room for as many blocks on an SM as the user's kernel has counts first, then
/// registers above the user's, then spills, then the pass's order, which is by time. Only entries
/// that lose blocks or spill, as they are, are tried in other codings. Where none has that room, an
/// entry is also tried with a cap on its registers, unless the kernel has a cap of its own; it is
/// kept if it spills no more than a few words above that. What naps in place is tried with one that
/// leaves registers for a request's block. A coding that ptxas rejects is no candidate. `assembled`
/// holds the module with the entries as they are now; `capped` are those of capAhead(), whose cap
/// goes where they spill under it. Returns whether any entry has changed.
bool chooseCodings(const ModuleAssembler &assembler, Job &job, const Assembled &assembled,
                   std::vector<Uncapped> capped);

} // namespace tally::ptxopt

#endif
