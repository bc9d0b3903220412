// Lists the contents of a container for people.
#ifndef TALLY_TOOLS_PTXOPT_LIST_H
#define TALLY_TOOLS_PTXOPT_LIST_H

#include "container_file.h"

#include "tally/support/result.h"

#include <string>
#include <string_view>

namespace tally::ptxopt {

/// Returns a line for each thing in the file, nested by indentation. Takes files of any kind; an
/// Error for damaged files.
Result<std::string> listFile(const std::string &path, std::string_view bytes);

} // namespace tally::ptxopt

#endif
