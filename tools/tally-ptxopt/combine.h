// Merges the descriptions of a kernel that a fatbin holds for several architectures, of which the
// driver chooses one.
#ifndef TALLY_TOOLS_PTXOPT_COMBINE_H
#define TALLY_TOOLS_PTXOPT_COMBINE_H

#include "job.h"

#include <vector>

namespace tally::ptxopt {

/// Takes the variant out; `verdict` gives the reason.
void withdraw(ptx::Variant &variant, Verdict verdict);

/// Makes the jobs siblings. A variant that one job lacks, or would launch differently, is taken out
/// of all jobs. Must be called before the jobs are assembled.
void makeSiblings(const std::vector<Job *> &jobs);

/// Returns the kernels of all jobs, each once, in the order of the first job that has it.
std::vector<bundle::Kernel> combinedKernels(const std::vector<const Job *> &jobs);

} // namespace tally::ptxopt

#endif
