#include "launcher.h"

#include "compiler_command.h"
#include "files.h"
#include "pipeline.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Allocator.h"
#include "llvm/Support/Chrono.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/StringSaver.h"
#include "llvm/Support/raw_ostream.h"

#include <chrono>
#include <optional>

namespace tally::ptxopt {
namespace {

using Makes = CompilerCommand::Makes;

/// Returns the words of an option file.
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

/// Returns the exit status as a shell reports it.
int runCommand(const std::vector<std::string> &words,
               std::optional<llvm::StringRef> standardError = std::nullopt) {
  auto program = llvm::sys::findProgramByName(words.front());
  if (!program) {
    fail({words.front() + ": " + program.getError().message()});
    return 127;
  }
  llvm::SmallVector<llvm::StringRef, 64> arguments(words.begin(), words.end());
  std::string why;
  std::vector<std::optional<llvm::StringRef>> redirects;
  if (standardError)
    redirects = {std::nullopt, std::nullopt, standardError};
  int status = llvm::sys::ExecuteAndWait(*program, arguments, std::nullopt, redirects, 0, 0, &why);
  if (status >= 0)
    return status;
  fail({words.front() + ": " + why});
  return exitInput;
}

/// Returns the ptxas beside the nvcc that is run, because its version made the machine code.
std::string ptxasBeside(const std::string &compiler) {
  auto program = llvm::sys::findProgramByName(compiler);
  llvm::SmallString<128> path;
  if (!program || llvm::sys::fs::real_path(*program, path))
    return {};
  llvm::sys::path::remove_filename(path);
  llvm::sys::path::append(path, "ptxas");
  return llvm::sys::fs::can_execute(path) ? std::string(path) : std::string();
}

/// Whether the compiler's output at `path` is a container, which may hold kernels. Sets `remark` on
/// another file with device code.
bool isContainer(const std::string &path, std::optional<std::string> &remark) {
  auto bytes = readInput(path);
  if (!bytes)
    return false;
  FileKind kind = fileKindOf(*bytes, path);
  if (kind == FileKind::Object || kind == FileKind::Linked || kind == FileKind::Archive)
    return true;
  remark = remarkOnOther(path, *bytes, kind);
  return false;
}

/// The oldest time of modification: make and ninja rebuild a file with this time.
const llvm::sys::TimePoint<> oldest = llvm::sys::toTimePoint(1);

void setModified(const std::string &path, llvm::sys::TimePoint<> time) {
  int file = 0;
  if (llvm::sys::fs::openFileForReadWrite(path, file, llvm::sys::fs::CD_OpenExisting,
                                          llvm::sys::fs::OF_None))
    return;
  (void)llvm::sys::fs::setLastAccessAndModificationTime(file, time);
  (void)llvm::sys::fs::closeFile(file);
}

/// Gives the compiler's output files an old time until they are rewritten: if a signal kills this
/// process before then, no build takes them for finished. Rewriting replaces the file.
class OldUntilRewritten {
public:
  explicit OldUntilRewritten(const std::vector<std::string> &files) : files(files) {
    for (const std::string &file : files)
      setModified(file, oldest);
  }
  ~OldUntilRewritten() {
    for (const std::string &file : files) {
      llvm::sys::fs::file_status status;
      if (!llvm::sys::fs::status(file, status) && status.getLastModificationTime() == oldest)
        setModified(file, std::chrono::system_clock::now());
    }
  }
  OldUntilRewritten(const OldUntilRewritten &) = delete;
  OldUntilRewritten &operator=(const OldUntilRewritten &) = delete;

private:
  const std::vector<std::string> &files;
};

int rewriteOutputs(Options options, const std::vector<std::string> &outputs) {
  options.compile = false;
  options.inPlace = true;
  options.output.clear();
  options.inputs.clear();
  int status = 0;
  for (const std::string &output : outputs) {
    std::optional<std::string> remark;
    if (isContainer(output, remark))
      options.inputs.push_back(output);
    if (!remark)
      continue;
    note(*remark);
    status = options.strict ? exitStrict : 0;
  }
  if (options.inputs.empty())
    return status;
  std::vector<std::string> unfinished = options.inputs;
  OldUntilRewritten old(unfinished);
  if (int rewriting = rewriteInputs(options); rewriting != 0)
    status = rewriting;
  if (status != 0 && status != exitStrict)
    for (const std::string &output : options.inputs)
      (void)llvm::sys::fs::remove(output);
  return status;
}

/// A temporary directory; the destructor removes it with its contents.
class TemporaryDirectory {
public:
  TemporaryDirectory() { failure = llvm::sys::fs::createUniqueDirectory("tally-ptxopt", path); }
  ~TemporaryDirectory() {
    if (!failure)
      (void)llvm::sys::fs::remove_directories(path);
  }
  TemporaryDirectory(const TemporaryDirectory &) = delete;
  TemporaryDirectory &operator=(const TemporaryDirectory &) = delete;

  std::error_code error() const { return failure; }
  std::string name() const { return std::string(path); }

private:
  llvm::SmallString<128> path;
  std::error_code failure;
};

/// Returns the architectures that an -arch group stands for; only nvcc knows them.
std::vector<std::string> codeOptionsOfDryRun(const CompilerCommand &command,
                                             const TemporaryDirectory &directory) {
  std::vector<std::string> words;
  for (const CommandWord &word : command.words)
    words.push_back(word.text);
  words.push_back("--dryrun");
  std::string file = directory.name() + "/dry-run";
  if (runCommand(words, file) != 0)
    return {}; // the command itself fails in the same way
  auto text = readInput(file);
  return text ? codeOptionsOfGroup(*text) : std::vector<std::string>();
}

/// Compiles each source, rewrites the objects, links them.
int compileInSteps(const Options &options, const CompilerCommand &command,
                   const std::vector<std::string> &forCompiling,
                   const std::vector<std::string> &forLinking,
                   const TemporaryDirectory &directory) {
  CompilerSteps steps = stepsOf(command, directory.name());
  for (std::vector<std::string> &words : steps.compilations) {
    llvm::append_range(words, forCompiling);
    if (int status = runCommand(words); status != 0)
      return status;
  }
  int rewritten = rewriteOutputs(options, steps.objects);
  if (rewritten != 0 && rewritten != exitStrict)
    return rewritten;
  llvm::append_range(steps.link, forLinking);
  int status = runCommand(steps.link);
  return status != 0 ? status : rewritten;
}

} // namespace

int compile(const Options &given) {
  Options options = given;
  CompilerCommand command = readCommand(options.inputs);
  std::vector<std::string> forLinking;
  if (command.makes == Makes::Program && !options.linkOptions.empty()) {
    auto added = wordsOf(options.linkOptions);
    if (!added)
      return fail(added.error());
    forLinking = std::move(*added);
  }
  std::vector<std::string> words = options.inputs;
  if (command.makes == Makes::Nothing || !command.hasSources) {
    llvm::append_range(words, forLinking);
    int status = runCommand(words);
    if (status != 0 || command.deviceCodeOnly.empty())
      return status;
    note(command.deviceCodeOnly + ": what is made is device code alone, which is not rewritten; "
                                  "give the file to tally-ptxopt");
    return options.strict ? exitStrict : 0;
  }
  TemporaryDirectory directory;
  if (directory.error())
    return fail({directory.name() + ": " + directory.error().message()});
  if (!command.archGroup.empty())
    llvm::append_range(command.codeOptions, codeOptionsOfDryRun(command, directory));
  std::vector<std::string> forCompiling = optionsForPtx(command);
  if (command.isNvcc && !options.ptxasIsChosen)
    for (const std::string &word : options.inputs)
      if (llvm::sys::path::filename(word).starts_with("nvcc")) {
        if (std::string beside = ptxasBeside(word); !beside.empty())
          options.ptxas = beside;
        break;
      }
  if (command.linksDeviceCode)
    return compileInSteps(options, command, forCompiling, forLinking, directory);
  llvm::append_range(words, forCompiling);
  llvm::append_range(words, forLinking);
  if (int status = runCommand(words); status != 0)
    return status;
  return rewriteOutputs(options, command.outputs);
}

} // namespace tally::ptxopt
