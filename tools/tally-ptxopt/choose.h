// Which of a variant's codings is the cheapest, as ptxas sees it.
#ifndef TALLY_TOOLS_PTXOPT_CHOOSE_H
#define TALLY_TOOLS_PTXOPT_CHOOSE_H

#include "assembly.h"

namespace tally::ptxopt {

/// Puts the best coding of each entry into the job's variants, by what they take on the assembler's
/// architecture: room for as many blocks on an SM as the user's kernel has counts first, then
/// registers above the user's, then spills, then the pass's order, which is by
/// time. Where none has that room, an entry is also tried with a cap on its registers (`.maxnreg`),
/// unless the kernel has a cap of its own; it is kept if it spills no more than a few words above
/// that. What naps in place is tried with one that leaves registers for a request's block. A coding
/// that ptxas rejects is no candidate. `assembled` holds the module with the entries as they are
/// now. Returns whether any entry has changed.
bool chooseCodings(const ModuleAssembler &assembler, Job &job, const Assembled &assembled);

} // namespace tally::ptxopt

#endif
