// Reading inputs and writing outputs of tally-ptxopt.
#ifndef TALLY_TOOLS_PTXOPT_FILES_H
#define TALLY_TOOLS_PTXOPT_FILES_H

#include "options.h"

#include <functional>
#include <string>
#include <string_view>

namespace tally::ptxopt {

/// Returns the whole file, or standard input for "-".
Result<std::string> readInput(const std::string &path);

/// Writes a file atomically (a temporary file beside it is renamed), or to standard output for "-".
/// Writes to a device or a pipe directly; replaces the target of a symbolic link. The file gets the
/// permissions of the file `like`.
Result<void> writeOutput(const std::string &path, std::string_view bytes,
                         const std::string &like = {});

/// Writes the pieces that `produce` passes to its sink in the same way.
using Producer = std::function<void(const std::function<void(std::string_view)> &)>;
Result<void> writeOutput(const std::string &path, const Producer &produce,
                         const std::string &like = {});

/// Returns the output path of `input`. With one input, --output names a file (or an existing
/// directory); with several, a directory, which is created when missing. Without --output the path
/// is the input's name with .tally or .tally.ptx in place of its extension, in the current
/// directory. Standard input goes to standard output, and so do descriptions of kernels. In a
/// directory, `part` of the input stands between name and extension.
Result<std::string> outputPath(const Options &options, const std::string &input,
                               const std::string &part = {});

/// Whether --output is a directory: it exists as one, ends in a slash, or is for several inputs.
bool writesToDirectory(const Options &options);

/// Returns the output path of a container: the input itself with --in-place; else --output, under
/// the input's own name if that is a directory. An Error if neither is given.
Result<std::string> containerOutputPath(const Options &options, const std::string &input);

} // namespace tally::ptxopt

#endif
