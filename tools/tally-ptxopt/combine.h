// One description of kernels that a fatbin holds several times: for several architectures, of which
// the driver chooses one.
#ifndef TALLY_TOOLS_PTXOPT_COMBINE_H
#define TALLY_TOOLS_PTXOPT_COMBINE_H

#include "job.h"

#include <vector>

namespace tally::ptxopt {

/// Takes the variant out; `verdict` says why.
void withdraw(ptx::Variant &variant, Verdict verdict);

/// Makes the jobs siblings. A variant that one of them has not, or that would have to be launched
/// in another way there, is taken out of all. To be called before they are assembled.
void makeSiblings(const std::vector<Job *> &jobs);

/// The kernels of all jobs, each once, in the order of the first job that has it.
std::vector<bundle::Kernel> combinedKernels(const std::vector<const Job *> &jobs);

} // namespace tally::ptxopt

#endif
