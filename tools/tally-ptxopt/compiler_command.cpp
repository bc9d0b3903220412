#include "compiler_command.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Allocator.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/StringSaver.h"

#include <optional>

namespace tally::ptxopt {
namespace {

/// Options whose value is the next word, which must not be taken for a source: options of all
/// compilers, and of nvcc.
const llvm::StringSet<> commonWithValue = {"-o",
                                           "-x",
                                           "-I",
                                           "-D",
                                           "-U",
                                           "-L",
                                           "-l",
                                           "-isystem",
                                           "-iquote",
                                           "-idirafter",
                                           "-isysroot",
                                           "-include",
                                           "-imacros",
                                           "-MF",
                                           "-MT",
                                           "-MQ",
                                           "-Xlinker",
                                           "-Xclang",
                                           "-Xassembler",
                                           "-Xpreprocessor",
                                           "-Xopenmp-target",
                                           "-Xcuda-ptxas",
                                           "-Xcuda-fatbinary",
                                           "-mllvm",
                                           "-target",
                                           "-aux-triple",
                                           "-u",
                                           "-T",
                                           "-z"};
const llvm::StringSet<> nvccWithValue = {"--output-file",
                                         "--x",
                                         "--include-path",
                                         "--define-macro",
                                         "--undefine-macro",
                                         "--library-path",
                                         "--library",
                                         "--system-include",
                                         "--pre-include",
                                         "-std",
                                         "--std",
                                         "-arch",
                                         "--gpu-architecture",
                                         "-code",
                                         "--gpu-code",
                                         "-rdc",
                                         "--relocatable-device-code",
                                         "-gencode",
                                         "--generate-code",
                                         "-ccbin",
                                         "--compiler-bindir",
                                         "-odir",
                                         "--output-directory",
                                         "--dependency-output",
                                         "--dependency-target-name",
                                         "-Xcompiler",
                                         "--compiler-options",
                                         "--linker-options",
                                         "-Xptxas",
                                         "--ptxas-options",
                                         "-Xnvlink",
                                         "--nvlink-options",
                                         "-Xarchive",
                                         "--archive-options",
                                         "-Xcudafe",
                                         "-Xfatbin",
                                         "-m",
                                         "--machine",
                                         "-t",
                                         "--threads",
                                         "-split-compile",
                                         "--split-compile",
                                         "-maxrregcount",
                                         "--maxrregcount",
                                         "-cudart",
                                         "--cudart",
                                         "-cudadevrt",
                                         "--cudadevrt",
                                         "-default-stream",
                                         "--default-stream",
                                         "-compress-mode",
                                         "--compress-mode",
                                         "-fmad",
                                         "--fmad",
                                         "-ftz",
                                         "--ftz",
                                         "-prec-div",
                                         "--prec-div",
                                         "-prec-sqrt",
                                         "--prec-sqrt",
                                         "-optf",
                                         "--options-file",
                                         "-diag-suppress",
                                         "--diag-suppress",
                                         "-diag-error",
                                         "--diag-error",
                                         "-diag-warn",
                                         "--diag-warn",
                                         "-Werror",
                                         "--Werror",
                                         "-keep-dir",
                                         "--keep-dir",
                                         "-ldir",
                                         "--library-dir",
                                         "-host-linker-script",
                                         "--host-linker-script"};

/// Whether the option ends the compilation at a phase whose output Tally does not rewrite.
bool endsBefore(llvm::StringRef word) {
  return llvm::is_contained({"-E",
                             "--preprocess",
                             "-M",
                             "-MM",
                             "--generate-dependencies",
                             "--generate-nonsystem-dependencies",
                             "-S",
                             "-ptx",
                             "--ptx",
                             "-cubin",
                             "--cubin",
                             "-fatbin",
                             "--fatbin",
                             "-cuda",
                             "--cuda",
                             "-dlink",
                             "--device-link",
                             "--version",
                             "-V",
                             "--help",
                             "-h",
                             "-fsyntax-only",
                             "-dryrun",
                             "--dryrun",
                             "-###",
                             "-optix-ir",
                             "--optix-ir",
                             "-ltoir",
                             "--ltoir",
                             "--list-gpu-code",
                             "--list-gpu-arch",
                             "-code-ls",
                             "-arch-ls",
                             "-dumpversion",
                             "-dumpmachine"},
                            word);
}

/// Whether an option of endsBefore() still makes device code, in a file of its own.
bool makesDeviceCode(llvm::StringRef word) {
  return llvm::is_contained({"-ptx", "--ptx", "-cubin", "--cubin", "-fatbin", "--fatbin",
                             "-optix-ir", "--optix-ir", "-ltoir", "--ltoir"},
                            word);
}

/// Limits the nesting of option files, since a file may name itself.
constexpr unsigned maxFileDepth = 16;

CommandWord::Role roleOf(llvm::StringRef name) {
  if (llvm::is_contained({"-o", "--output-file", "-odir", "--output-directory"}, name))
    return CommandWord::Role::Output;
  if (name == "-x" || name == "--x")
    return CommandWord::Role::Language;
  if (llvm::is_contained(
          {"-MD", "-MMD", "-MP", "-MF", "-MT", "-MQ", "--generate-dependencies-with-compile",
           "--generate-nonsystem-dependencies-with-compile", "--generate-dependency-targets",
           "--dependency-output", "--dependency-target-name"},
          name))
    return CommandWord::Role::Dependencies;
  return CommandWord::Role::Other;
}

bool isSource(llvm::StringRef word) {
  return llvm::is_contained({".cu", ".c", ".cc", ".cpp", ".cxx", ".c++", ".C", ".CPP", ".cup",
                             ".ptx", ".ii", ".i", ".gpu"},
                            llvm::sys::path::extension(word));
}

class Reader {
public:
  explicit Reader(const std::vector<std::string> &given) { expand(given, 0); }

  CompilerCommand run() {
    std::size_t first = compilerAt();
    for (std::size_t i = first + 1; i < words.size(); ++i)
      i += take(i);
    finish();
    command.words = std::move(words);
    return std::move(command);
  }

private:
  /// Replaces each option file by its words. The compiler itself reports a file that cannot be
  /// read.
  void expand(const std::vector<std::string> &given, unsigned depth) {
    for (std::size_t i = 0; i < given.size(); ++i) {
      llvm::StringRef word = given[i];
      auto [name, file] = word.split('=');
      bool isNamed = name == "-optf" || name == "--options-file";
      bool isSeparate = isNamed && file.empty() && i + 1 < given.size();
      if (isSeparate)
        file = given[i + 1];
      else if (!isNamed)
        file = word.starts_with("@") ? word.drop_front() : llvm::StringRef();
      auto inner = file.empty() || depth == maxFileDepth ? std::nullopt : wordsOfFile(file);
      if (inner) {
        expand(*inner, depth + 1);
        i += isSeparate;
      } else {
        words.push_back({given[i]});
      }
    }
  }

  static std::optional<std::vector<std::string>> wordsOfFile(llvm::StringRef path) {
    auto buffer = llvm::MemoryBuffer::getFile(path);
    if (!buffer)
      return std::nullopt;
    llvm::BumpPtrAllocator allocator;
    llvm::StringSaver saver(allocator);
    llvm::SmallVector<const char *, 64> parts;
    llvm::cl::TokenizeGNUCommandLine((*buffer)->getBuffer(), saver, parts);
    return std::vector<std::string>(parts.begin(), parts.end());
  }

  /// Returns the compiler's index: behind ccache and similar launchers it is not the first word.
  std::size_t compilerAt() {
    for (std::size_t i = 0; i < words.size() && !llvm::StringRef(words[i].text).starts_with("-");
         ++i) {
      llvm::StringRef name = llvm::sys::path::filename(words[i].text);
      command.isNvcc = name.starts_with("nvcc");
      command.isClang = name.contains("clang");
      if (command.isNvcc || command.isClang)
        return i;
    }
    return 0;
  }

  /// Takes the word at `i`; returns how many of the following words belong to it.
  std::size_t take(std::size_t i) {
    llvm::StringRef word = words[i].text;
    auto [name, inlineValue] = word.split('=');
    if (!word.starts_with("-") || word == "-") {
      words[i].role = takeInput(word);
      return 0;
    }
    command.includesPtx |= name == "--cuda-include-ptx" || name == "--no-cuda-include-ptx";
    command.relocatable |= word == "-fgpu-rdc";
    bool known = commonWithValue.contains(name) || (command.isNvcc && nvccWithValue.contains(name));
    bool separate = known && word.find('=') == llvm::StringRef::npos;
    if (separate && i + 1 >= words.size())
      return 0;
    llvm::StringRef value = separate ? llvm::StringRef(words[i + 1].text) : inlineValue;
    takeOption(known ? name : word, value);
    words[i].role = roleOf(name);
    if (separate)
      words[i + 1].role = words[i].role;
    return separate ? 1 : 0;
  }

  void takeOption(llvm::StringRef name, llvm::StringRef value) {
    if (name == "-o" || name == "--output-file")
      output = value.str();
    else if (name.starts_with("-o") && !name.starts_with("-odir") && !name.starts_with("-opt") &&
             !command.isNvcc)
      output = name.drop_front(2).str();
    else if (name == "-odir" || name == "--output-directory")
      directory = value.str();
    else if (name == "-x" || name == "--x")
      language = value.str();
    else if (name == "-gencode" || name == "--generate-code")
      command.codeOptions.push_back(value.str());
    else if (name == "-arch" || name == "--gpu-architecture")
      arch = value.str();
    else if (name == "-code" || name == "--gpu-code")
      codes.append(codes.empty() ? 0 : 1, ',').append(value.begin(), value.end());
    else if (name == "-rdc" || name == "--relocatable-device-code")
      relocatable = value == "true";
    else if (llvm::is_contained({"-c", "--compile", "-dc", "--device-c", "-dw", "--device-w"},
                                name))
      compiles = true;
    else if (name == "-lib" || name == "--lib")
      makesLibrary = true;
    else if (endsBefore(name))
      takeEnd(name);
    else if (name == "--cuda-device-only")
      deviceOnly = name;
  }

  void takeEnd(llvm::StringRef name) {
    ends = true;
    (makesDeviceCode(name) ? deviceOnly : endsOtherwise) = name;
  }

  CommandWord::Role takeInput(llvm::StringRef word) {
    if (!isSource(word) && language.empty())
      return CommandWord::Role::Input;
    command.hasSources = true;
    command.compilesCuda |= language.empty() ? llvm::sys::path::extension(word) == ".cu"
                                             : llvm::is_contained({"cu", "cuda"}, language);
    objects.push_back((llvm::sys::path::stem(word) + ".o").str());
    return CommandWord::Role::Source;
  }

  void finish() {
    // Beside -code "-arch=sm_80" means compute_80; without -code it also adds PTX.
    if (llvm::StringRef number = arch;
        !codes.empty() && (number.consume_front("sm_") || number.consume_front("compute_")))
      command.codeOptions.push_back(("arch=compute_" + number + ",code=" + codes).str());
    if (command.isNvcc && llvm::is_contained({"all", "all-major", "native"}, arch))
      command.archGroup = arch;
    // clang's -S writes device code only with --cuda-device-only.
    if (ends && (endsOtherwise.empty() || endsOtherwise == "-S") && command.hasSources)
      command.deviceCodeOnly = deviceOnly;
    if (ends)
      return;
    if (compiles) {
      command.makes = CompilerCommand::Makes::Objects;
      if (output.empty())
        for (const std::string &object : objects)
          command.outputs.push_back(inDirectory(object));
      else
        command.outputs = {output};
      return;
    }
    if (words.size() < 2)
      return;
    command.makes = CompilerCommand::Makes::Program;
    command.linksDeviceCode = command.isNvcc && relocatable && command.hasSources && !makesLibrary;
    command.outputs = {output.empty() ? inDirectory(makesLibrary ? "a.a" : "a.out") : output};
  }

  std::string inDirectory(const std::string &name) const {
    llvm::SmallString<128> path(directory);
    llvm::sys::path::append(path, name);
    return std::string(path);
  }

  std::vector<CommandWord> words;
  CompilerCommand command;
  std::string output, directory, language, arch, codes;
  std::string deviceOnly, endsOtherwise; ///< options that end the compilation early
  std::vector<std::string> objects;
  bool compiles = false, makesLibrary = false, ends = false, relocatable = false;
};

/// Returns "compute_80" and the codes of "arch=compute_80,code=[sm_80,compute_80]".
std::pair<llvm::StringRef, llvm::SmallVector<llvm::StringRef, 4>> partsOf(llvm::StringRef value) {
  value = value.trim("\"'");
  value.consume_front("arch=");
  auto [arch, codes] = value.split(",code=");
  llvm::SmallVector<llvm::StringRef, 4> parts;
  codes.trim("\"'[]").split(parts, ',', -1, false);
  return {arch, parts};
}

} // namespace

CompilerCommand readCommand(const std::vector<std::string> &command) {
  return Reader(command).run();
}

std::vector<std::string> optionsForPtx(const CompilerCommand &command) {
  std::vector<std::string> options;
  if (command.isClang && command.compilesCuda && !command.includesPtx && !command.relocatable)
    options.push_back("--cuda-include-ptx=all");
  if (!command.isNvcc)
    return options;
  llvm::StringSet<> wanted, there;
  for (llvm::StringRef value : command.codeOptions) {
    auto [arch, codes] = partsOf(value);
    for (llvm::StringRef code : codes)
      (code.starts_with("sm_") ? wanted : there).insert(code.starts_with("sm_") ? arch : code);
  }
  for (llvm::StringRef value : command.codeOptions) {
    llvm::StringRef arch = partsOf(value).first;
    if (wanted.contains(arch) && there.insert(arch).second)
      options.push_back(("-gencode=arch=" + arch + ",code=" + arch).str());
  }
  return options;
}

CompilerSteps stepsOf(const CompilerCommand &command, const std::string &directory) {
  using Role = CommandWord::Role;
  CompilerSteps steps;
  std::vector<std::string> common;
  for (const CommandWord &word : command.words)
    if (word.role != Role::Source && word.role != Role::Input && word.role != Role::Output)
      common.push_back(word.text);
  for (const CommandWord &word : command.words) {
    if (word.role != Role::Source) {
      if (word.role != Role::Language && word.role != Role::Dependencies)
        steps.link.push_back(word.text);
      continue;
    }
    llvm::SmallString<128> object(directory);
    llvm::sys::path::append(object, std::to_string(steps.objects.size()) + "-" +
                                        llvm::sys::path::stem(word.text) + ".o");
    steps.objects.emplace_back(object);
    steps.link.emplace_back(object);
    std::vector<std::string> &step = steps.compilations.emplace_back(common);
    step.insert(step.end(), {"-c", word.text, "-o", std::string(object)});
  }
  return steps;
}

std::vector<std::string> codeOptionsOfGroup(std::string_view dryRun) {
  llvm::StringRef text(dryRun.data(), dryRun.size()), key = "-D__CUDA_ARCH_LIST__=";
  std::vector<std::string> options;
  std::size_t at = text.find(key);
  if (at == llvm::StringRef::npos)
    return options;
  text = text.drop_front(at + key.size());
  unsigned arch = 0; // 900 for compute_90
  while (!text.consumeInteger(10, arch)) {
    std::string number = std::to_string(arch / 10);
    options.push_back("arch=compute_" + number + ",code=sm_" + number);
    if (!text.consume_front(","))
      break;
  }
  return options;
}

} // namespace tally::ptxopt
