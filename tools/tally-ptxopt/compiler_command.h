// A compiler's command line, as far as what it makes goes: nvcc's, and those of clang and gcc.
#ifndef TALLY_TOOLS_PTXOPT_COMPILER_COMMAND_H
#define TALLY_TOOLS_PTXOPT_COMPILER_COMMAND_H

#include "tally/support/result.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tally::ptxopt {

/// A word of a command, and what it is for as far as taking the command apart needs it.
struct CommandWord {
  enum class Role : std::uint8_t {
    Other,
    Source,
    Input,       ///< an object or a library
    Output,      ///< where results go: -o, -odir
    Language,    ///< -x
    Dependencies ///< what make is told: -MD, -MF
  };
  std::string text;
  Role role = Role::Other;
};

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
  /// The option by which device code alone is made, where the command makes nothing else: -fatbin.
  std::string deviceCodeOnly;
  /// Each value of nvcc's -gencode, and what -arch and -code say in that form.
  std::vector<std::string> codeOptions;
  std::string archGroup; ///< nvcc's -arch where it is "all", "all-major" or "native"
  /// nvcc compiles relocatable device code and links it, so that what it makes cannot be rewritten.
  bool linksDeviceCode = false;
  std::vector<CommandWord> words; ///< with what stands in files of options
};

/// A command that compiles and links, in steps between which objects can be rewritten.
struct CompilerSteps {
  std::vector<std::vector<std::string>> compilations; ///< one for each source
  std::vector<std::string> objects;                   ///< what they make
  std::vector<std::string> link;
};

/// Reads a command: the compiler, perhaps behind another launcher, and its arguments. Files of
/// options (@FILE, nvcc's -optf FILE) are read as well. Never fails: what is not known is taken for
/// an option without a value.
CompilerCommand readCommand(const std::vector<std::string> &command);

/// Options to add so that the fatbin holds PTX for all of its machine code: `-gencode` for nvcc,
/// `--cuda-include-ptx=all` for clang. Without PTX a kernel cannot be rewritten.
std::vector<std::string> optionsForPtx(const CompilerCommand &command);

/// The steps of a command with `linksDeviceCode`; the objects go to `directory`.
CompilerSteps stepsOf(const CompilerCommand &command, const std::string &directory);

/// For an -arch that is a group: the architectures that nvcc's dry run of the command names, in the
/// form of `codeOptions`.
std::vector<std::string> codeOptionsOfGroup(std::string_view dryRun);

} // namespace tally::ptxopt

#endif
