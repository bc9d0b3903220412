// Chooses the cheapest coding of each variant by ptxas's report.
#ifndef TALLY_TOOLS_PTXOPT_CHOOSE_H
#define TALLY_TOOLS_PTXOPT_CHOOSE_H

#include "assembly.h"

namespace tally::ptxopt {

/// An entry before capAhead().
struct Uncapped {
  std::string name; ///< of the entry
  ptx::EditedText text;
  std::string coding;
};

/// Caps the registers of entries (`.maxnreg`) that would lose blocks on an SM with a few registers
/// more than the user's kernel, if the compiler's machine code tells the user's number. Most
/// entries work with that number, and the module need not be assembled a second time.
std::vector<Uncapped> capAhead(Job &job, const Architecture &arch);

/// Puts the best coding of each entry into the job's variants, by ptxas's figures on the
/// assembler's architecture. The criteria in order: as many blocks on an SM as of the user's
/// kernel; registers above the user's; spills; the pass's order, which is by time. Only entries
/// that lose blocks or spill are tried in other codings. Where no coding keeps the blocks, the
/// entry is also tried with a cap on its registers, unless the kernel has its own cap. A capped
/// entry is kept if it spills no more than a few words above that. Pause variants are tried with a
/// cap that leaves registers for a request's block. A coding that ptxas rejects is no candidate.
/// `assembled` holds the module with the current entries. `capped` are the entries of capAhead();
/// an entry that spills under its cap loses the cap. Returns whether any entry has changed.
bool chooseCodings(const ModuleAssembler &assembler, Job &job, const Assembled &assembled,
                   std::vector<Uncapped> capped);

} // namespace tally::ptxopt

#endif
