// The analyses as text, for people: what `--print-analysis=NAME` and `--emit=cfg-dot` write.
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
  /// What the analysis says of `entry`, an entry with a body, and where it matters of what that
  /// calls: lines that begin with the line of the input they speak of.
  std::string (*print)(ModuleFacts &modules, const Function &entry);
};

/// All of them, in the order of analyses.def.
const std::vector<AnalysisPrinter> &allAnalyses();
/// The one of this name, or null.
const AnalysisPrinter *analysisNamed(std::string_view name);

/// The control-flow graph of `function`, which has a body, as a Graphviz `digraph`: one node for
/// each block with its instructions, the exit as a node of its own.
std::string cfgAsDot(const Function &function);

} // namespace tally::ptx

#endif
