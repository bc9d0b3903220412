// The analyses as text for people, as `--print-analysis=NAME` and `--emit=cfg-dot` write them.
#ifndef TALLY_PTX_ANALYSIS_PRINT_H
#define TALLY_PTX_ANALYSIS_PRINT_H

#include "tally/ptx/analysis/kernel_analysis.h"

#include <string>
#include <string_view>
#include <vector>

namespace tally::ptx {

/// One row of analyses.def.
struct AnalysisPrinter {
  std::string_view name; ///< "uniformity"
  std::string_view help; ///< one line
  /// Prints the analysis of `entry`, an entry with a body, and of its callees where they matter.
  /// Each line begins with the line number of the input that it is about.
  std::string (*print)(ModuleFacts &modules, const Function &entry);
};

/// All rows of analyses.def, in order.
const std::vector<AnalysisPrinter> &allAnalyses();
/// Returns the analysis with this name, or null.
const AnalysisPrinter *analysisNamed(std::string_view name);

/// Returns the control-flow graph of `function`, which has a body, as a Graphviz `digraph`: one
/// node for each block with its instructions, and a node for the exit.
std::string cfgAsDot(const Function &function);

} // namespace tally::ptx

#endif
