// Reading inputs and writing outputs of tally-ptxopt.
#ifndef TALLY_TOOLS_PTXOPT_FILES_H
#define TALLY_TOOLS_PTXOPT_FILES_H

#include "options.h"

#include <functional>
#include <string>
#include <string_view>

namespace tally::ptxopt {

/// The whole file, or standard input for "-".
Result<std::string> readInput(const std::string &path);

/// Writes a file whole or not at all (a temporary file beside it is renamed), or to standard output
/// for "-". A device or a pipe is written to as it is; of a symbolic link the file that it names is
/// replaced. The file may then be used as that of `like` may be (its permissions).
Result<void> writeOutput(const std::string &path, std::string_view bytes,
                         const std::string &like = {});

/// The same of what `produce` hands to its sink, piece by piece.
using Producer = std::function<void(const std::function<void(std::string_view)> &)>;
Result<void> writeOutput(const std::string &path, const Producer &produce,
                         const std::string &like = {});

/// Where the output of `input` goes. With one input, --output names a file (or an existing
/// directory); with several a directory, which is made when missing. Without it, the input's name
/// with .tally or .tally.ptx in place of its extension, in the current directory; standard input
/// goes to standard output, and so does what only describes the kernels. In a directory, `part` of
/// the input stands between name and extension.
Result<std::string> outputPath(const Options &options, const std::string &input,
                               const std::string &part = {});

/// Whether --output is a directory: it exists as one, ends in a slash, or is for several inputs.
bool writesToDirectory(const Options &options);

/// The same of a container: the input itself with --in-place; else --output, under the input's own
/// name in a directory. An Error if neither is given.
Result<std::string> containerOutputPath(const Options &options, const std::string &input);

} // namespace tally::ptxopt

#endif
