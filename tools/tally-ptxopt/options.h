// The command line of tally-ptxopt.
#ifndef TALLY_TOOLS_PTXOPT_OPTIONS_H
#define TALLY_TOOLS_PTXOPT_OPTIONS_H

#include "tally/ptx/analysis/print.h"
#include "tally/support/result.h"

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tally::ptxopt {

class Profiles;

enum class Emit { Ptx, Bundle, CfgDot };
enum class ReportFormat { None, Text, Json };

struct Options {
  std::vector<std::string> inputs; ///< "-" is standard input; with `compile` the compiler's command
  std::string output;              ///< as given; empty when not given
  ptx::KindSet kinds = ptx::everyKind;
  bool slicesUnguarded = false;                         ///< no slice of kernels that have a guard
  std::shared_ptr<const Profiles> profiles;             ///< from --profile; null without
  std::function<bool(std::string_view)> selects;        ///< empty selects all kernels
  std::function<bool(std::string_view)> assumesInOrder; ///< empty: assumed of no kernel
  Emit emit = Emit::Bundle;
  bool emitsBundle = false;                 ///< --emit=bundle was given: also for a fatbin
  std::vector<std::uint32_t> architectures; ///< 90 for sm_90; empty: sm_90 or the target
  bool assemble = true;                     ///< for --arch or the bundle; only with a ptxas
  std::string coding;                       ///< forced; empty: ptxas decides where it runs
  ptx::PollRules polls;                     ///< for kinds that poll in loops
  std::string ptxas;                        ///< path; empty when there is none
  std::string cacheDirectory;               ///< cache of machine code; empty for none
  std::uint64_t cacheBytes = 0;             ///< its limit; 0 is none
  ReportFormat report = ReportFormat::None;
  std::string reportFile;                              ///< empty or "-": standard output
  const ptx::AnalysisPrinter *printAnalysis = nullptr; ///< print this analysis and write no variant
  bool strict = false, verifyEach = false, listPasses = false;
  bool inPlace = false, list = false, compile = false;
  bool ptxasIsChosen = false; ///< by --cuda-path
  std::string linkOptions;    ///< file of --link-with; empty when not given

  /// Whether the tool prints descriptions of kernels instead of writing variants.
  bool describes() const { return printAnalysis || emit == Emit::CfgDot; }
  /// Whether ptxas's report decides which coding of a variant is the cheapest.
  bool choosesCodings() const { return assemble && coding.empty(); }
};

/// Parses the command line. --help and --version print and end the program, as in llvm::cl; a wrong
/// command line is an Error.
Result<Options> parseCommandLine(int argc, const char *const *argv);

} // namespace tally::ptxopt

#endif
