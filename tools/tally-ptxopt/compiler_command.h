// Reads the command lines of nvcc, clang and gcc to learn the output files of a command.
#ifndef TALLY_TOOLS_PTXOPT_COMPILER_COMMAND_H
#define TALLY_TOOLS_PTXOPT_COMPILER_COMMAND_H

#include "tally/support/result.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tally::ptxopt {

/// A word of a command, with its role as far as Tally needs it.
struct CommandWord {
  enum class Role : std::uint8_t {
    Other,
    Source,
    Input,       ///< an object or a library
    Output,      ///< destination of results: -o, -odir
    Language,    ///< -x
    Dependencies ///< dependency output for make: -MD, -MF
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
  std::vector<std::string> outputs; ///< files that the command makes
  bool hasSources = false;          ///< the command has more than objects and libraries
  bool isNvcc = false, isClang = false;
  bool compilesCuda = false; ///< a source is CUDA by its name or by -x
  bool includesPtx = false;  ///< clang's --cuda-include-ptx is given
  bool relocatable = false;  ///< clang's -fgpu-rdc
  /// The option that makes the command produce device code alone, such as -fatbin; else empty.
  std::string deviceCodeOnly;
  /// Each value of nvcc's -gencode; -arch and -code in the same form.
  std::vector<std::string> codeOptions;
  std::string archGroup; ///< nvcc's -arch where it is "all", "all-major" or "native"
  /// nvcc compiles relocatable device code and links it, so that the result cannot be rewritten.
  bool linksDeviceCode = false;
  std::vector<CommandWord> words; ///< with the words of option files
};

/// A command that compiles and links, split into steps so that objects can be rewritten in between.
struct CompilerSteps {
  std::vector<std::vector<std::string>> compilations; ///< one for each source
  std::vector<std::string> objects;                   ///< outputs of the compilations
  std::vector<std::string> link;
};

/// Reads a command: the compiler, perhaps behind another launcher, and its arguments. Option files
/// (@FILE, nvcc's -optf FILE) are read as well. Never fails: an unknown option counts as an option
/// without a value.
CompilerCommand readCommand(const std::vector<std::string> &command);

/// Returns the options that make the fatbin hold PTX for all of its machine code: `-gencode` for
/// nvcc, `--cuda-include-ptx=all` for clang. A kernel without PTX cannot be rewritten.
std::vector<std::string> optionsForPtx(const CompilerCommand &command);

/// Returns the steps of a command with `linksDeviceCode`; the objects go to `directory`.
CompilerSteps stepsOf(const CompilerCommand &command, const std::string &directory);

/// Returns the architectures in nvcc's dry run of a command whose -arch is a group, in the form of
/// `codeOptions`.
std::vector<std::string> codeOptionsOfGroup(std::string_view dryRun);

} // namespace tally::ptxopt

#endif
