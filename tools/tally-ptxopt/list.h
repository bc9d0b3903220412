// What is inside a container, for people.
#ifndef TALLY_TOOLS_PTXOPT_LIST_H
#define TALLY_TOOLS_PTXOPT_LIST_H

#include "container_file.h"

#include "tally/support/result.h"

#include <string>
#include <string_view>

namespace tally::ptxopt {

/// A line for each thing in the file, nested by indentation. Files of any kind; an Error for what
/// is damaged.
Result<std::string> listFile(const std::string &path, std::string_view bytes);

} // namespace tally::ptxopt

#endif
