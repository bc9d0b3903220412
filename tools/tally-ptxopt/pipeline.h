// Processes all inputs of one run: reads, rewrites, assembles them together, writes.
#ifndef TALLY_TOOLS_PTXOPT_PIPELINE_H
#define TALLY_TOOLS_PTXOPT_PIPELINE_H

#include "container_file.h"
#include "job.h"
#include "options.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tally::ptxopt {

constexpr int exitInput = 1, exitStrict = 2, exitInternal = 3;

/// Prints an Error in the tool's form; returns exitInput.
int fail(const Error &error);

/// Prints a sentence about device code that is left as it is.
void note(std::string_view remark);

/// Rewrites options.inputs; returns the tool's exit status. All inputs are read and rewritten
/// before the first output is written.
int rewriteInputs(const Options &options);

/// Prints the contents of options.inputs.
int listInputs(const Options &options);

} // namespace tally::ptxopt

#endif
