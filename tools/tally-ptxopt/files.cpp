#include "files.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

namespace tally::ptxopt {

Result<std::string> readInput(const std::string &path) {
  auto buffer = llvm::MemoryBuffer::getFileOrSTDIN(path, /*IsText=*/false,
                                                   /*RequiresNullTerminator=*/false);
  if (!buffer)
    return Error{path + ": " + buffer.getError().message()};
  return (*buffer)->getBuffer().str();
}

namespace {

constexpr std::size_t bufferBytes = 1 << 20;

Result<void> writeTo(llvm::raw_fd_ostream &stream, const std::string &path,
                     const Producer &produce) {
  stream.SetBufferSize(bufferBytes);
  produce([&](std::string_view bytes) { stream << llvm::StringRef(bytes); });
  stream.flush();
  if (!stream.has_error())
    return {};
  Error error{path + ": " + stream.error().message()};
  stream.clear_error();
  return error;
}

/// Whether `path` names a device, a pipe or another special file. Such a file must be written to,
/// never replaced.
bool isSpecial(const std::string &path) {
  llvm::sys::fs::file_status status;
  return !llvm::sys::fs::status(path, status) && !llvm::sys::fs::is_regular_file(status);
}

} // namespace

Result<void> writeOutput(const std::string &path, std::string_view bytes, const std::string &like) {
  return writeOutput(path, Producer([&](const auto &sink) { sink(bytes); }), like);
}

Result<void> writeOutput(const std::string &path, const Producer &produce,
                         const std::string &like) {
  if (path == "-")
    return writeTo(llvm::outs(), "standard output", produce);
  if (isSpecial(path)) {
    std::error_code error;
    llvm::raw_fd_ostream stream(path, error, llvm::sys::fs::CD_OpenExisting);
    return error ? Result<void>(Error{path + ": " + error.message()})
                 : writeTo(stream, path, produce);
  }
  llvm::SmallString<128> real;
  if (llvm::sys::fs::real_path(path, real))
    real = path; // a new file
  auto temporary = llvm::sys::fs::TempFile::create(real + ".%%%%%%.tmp");
  if (!temporary)
    return Error{path + ": " + llvm::toString(temporary.takeError())};
  llvm::raw_fd_ostream stream(temporary->FD, /*shouldClose=*/false);
  Result<void> written = writeTo(stream, path, produce);
  if (auto permissions = llvm::sys::fs::getPermissions(like);
      written && !like.empty() && permissions)
    if (std::error_code error = llvm::sys::fs::setPermissions(temporary->FD, *permissions))
      written = Error{path + ": " + error.message()};
  if (!written) {
    Error error = written.error();
    if (llvm::Error discarded = temporary->discard())
      error.message += "; " + llvm::toString(std::move(discarded));
    return error;
  }
  if (llvm::Error error = temporary->keep(real))
    return Error{path + ": " + llvm::toString(std::move(error))};
  return {};
}

namespace {

const char *extensionOf(const Options &options) {
  if (options.printAnalysis)
    return "txt";
  switch (options.emit) {
  case Emit::Ptx:
    return "tally.ptx";
  case Emit::CfgDot:
    return "dot";
  case Emit::Bundle:
    break;
  }
  return "tally";
}

} // namespace

bool writesToDirectory(const Options &options) {
  return !options.output.empty() &&
         (options.inputs.size() > 1 || llvm::StringRef(options.output).ends_with("/") ||
          llvm::sys::fs::is_directory(options.output));
}

namespace {

/// Returns the path of `name` in the directory that --output names; creates a missing directory.
Result<std::string> inOutputDirectory(const Options &options, llvm::StringRef name) {
  if (std::error_code error = llvm::sys::fs::create_directories(options.output))
    return Error{options.output + ": " + error.message()};
  llvm::SmallString<128> path(options.output);
  llvm::sys::path::append(path, name);
  return std::string(path);
}

} // namespace

Result<std::string> outputPath(const Options &options, const std::string &input,
                               const std::string &part) {
  llvm::SmallString<128> name(input == "-" ? llvm::StringRef("stdin")
                                           : llvm::sys::path::filename(input));
  bool directory = writesToDirectory(options);
  std::string extension = extensionOf(options);
  llvm::sys::path::replace_extension(name, directory && !part.empty() ? part + "." + extension
                                                                      : extension);
  if (directory)
    return inOutputDirectory(options, name);
  if (options.output.empty())
    return input == "-" || options.describes() ? std::string("-") : std::string(name);
  return options.output;
}

Result<std::string> containerOutputPath(const Options &options, const std::string &input) {
  if (options.inPlace)
    return input;
  if (options.output.empty())
    return Error{input + ": say --in-place or -o: the output is a file of the same kind"};
  if (writesToDirectory(options))
    return inOutputDirectory(options, llvm::sys::path::filename(input));
  return options.output;
}

} // namespace tally::ptxopt
