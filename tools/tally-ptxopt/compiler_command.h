// A compiler's command line, as far as what it makes goes: nvcc's, and those of clang and gcc.
#ifndef TALLY_TOOLS_PTXOPT_COMPILER_COMMAND_H
#define TALLY_TOOLS_PTXOPT_COMPILER_COMMAND_H

#include "tally/support/result.h"

#include <string>
#include <vector>

namespace tally::ptxopt {

struct CompilerCommand {
  enum class Makes {
    Nothing, ///< no file that could hold a host program's kernels: -E, -M, -ptx, --version, -dlink
    Objects,
    Program ///< an executable, a shared library or an archive
  };
  Makes makes = Makes::Nothing;
  std::vector<std::string> outputs; ///< files that it makes
  bool hasSources = false;          ///< not only objects and libraries
  bool isNvcc = false, isClang = false;
  bool compilesCuda = false; ///< a source that is CUDA by its name or by -x
  bool includesPtx = false;  ///< clang's --cuda-include-ptx is given
  bool relocatable = false;  ///< clang's -fgpu-rdc
  /// Each value of nvcc's -gencode, and what -arch and -code say in that form.
  std::vector<std::string> codeOptions;
};

/// Reads a command: the compiler, perhaps behind another launcher, and its arguments. Files of
/// options (@FILE, nvcc's -optf FILE) are read as well. Never fails: what is not known is taken for
/// an option without a value.
CompilerCommand readCommand(const std::vector<std::string> &command);

/// Options to add so that the fatbin holds PTX for all of its machine code: `-gencode` for nvcc,
/// `--cuda-include-ptx=all` for clang. Without PTX a kernel cannot be rewritten.
std::vector<std::string> optionsForPtx(const CompilerCommand &command);

} // namespace tally::ptxopt

#endif
