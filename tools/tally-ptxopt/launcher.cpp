#include "launcher.h"

#include "compiler_command.h"
#include "files.h"
#include "pipeline.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Allocator.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/StringSaver.h"
#include "llvm/Support/raw_ostream.h"

namespace tally::ptxopt {
namespace {

using Makes = CompilerCommand::Makes;

/// The words of a file of options.
Result<std::vector<std::string>> wordsOf(const std::string &path) {
  auto text = readInput(path);
  if (!text)
    return text.error();
  llvm::BumpPtrAllocator allocator;
  llvm::StringSaver saver(allocator);
  llvm::SmallVector<const char *, 64> words;
  llvm::cl::TokenizeGNUCommandLine(*text, saver, words);
  return std::vector<std::string>(words.begin(), words.end());
}

/// Exit status as a shell gives it.
int runCommand(const std::vector<std::string> &words) {
  auto program = llvm::sys::findProgramByName(words.front());
  if (!program) {
    fail({words.front() + ": " + program.getError().message()});
    return 127;
  }
  llvm::SmallVector<llvm::StringRef, 64> arguments(words.begin(), words.end());
  std::string why;
  int status = llvm::sys::ExecuteAndWait(*program, arguments, std::nullopt, {}, 0, 0, &why);
  if (status >= 0)
    return status;
  fail({words.front() + ": " + why});
  return exitInput;
}

/// The assembler beside the nvcc that is run, since that one's version made the machine code.
std::string ptxasBeside(const std::string &compiler) {
  auto program = llvm::sys::findProgramByName(compiler);
  llvm::SmallString<128> path;
  if (!program || llvm::sys::fs::real_path(*program, path))
    return {};
  llvm::sys::path::remove_filename(path);
  llvm::sys::path::append(path, "ptxas");
  return llvm::sys::fs::can_execute(path) ? std::string(path) : std::string();
}

/// Whether a file that the compiler has made may hold kernels.
bool isContainer(const std::string &path) {
  auto bytes = readInput(path);
  if (!bytes)
    return false;
  FileKind kind = fileKindOf(*bytes, path);
  return kind == FileKind::Object || kind == FileKind::Linked || kind == FileKind::Archive;
}

int rewriteOutputs(Options options, const CompilerCommand &command) {
  options.compile = false;
  options.inPlace = true;
  options.output.clear();
  options.inputs.clear();
  for (const std::string &output : command.outputs)
    if (isContainer(output))
      options.inputs.push_back(output);
  if (options.inputs.empty())
    return 0;
  int status = rewriteInputs(options);
  if (status != 0 && status != exitStrict)
    for (const std::string &output : options.inputs)
      llvm::sys::fs::remove(output);
  return status;
}

} // namespace

int compile(const Options &given) {
  Options options = given;
  CompilerCommand command = readCommand(options.inputs);
  std::vector<std::string> words = options.inputs;
  if (command.makes != Makes::Nothing && command.hasSources)
    for (std::string &each : optionsForPtx(command))
      words.push_back(std::move(each));
  if (command.makes == Makes::Program && !options.linkOptions.empty()) {
    auto added = wordsOf(options.linkOptions);
    if (!added)
      return fail(added.error());
    words.insert(words.end(), added->begin(), added->end());
  }
  if (int status = runCommand(words); status != 0)
    return status;
  if (command.makes == Makes::Nothing || !command.hasSources)
    return 0;
  if (command.isNvcc && !options.ptxasIsChosen)
    for (const std::string &word : options.inputs)
      if (llvm::sys::path::filename(word).starts_with("nvcc")) {
        if (std::string beside = ptxasBeside(word); !beside.empty())
          options.ptxas = beside;
        break;
      }
  return rewriteOutputs(options, command);
}

} // namespace tally::ptxopt
