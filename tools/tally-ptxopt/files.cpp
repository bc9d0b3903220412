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

Result<void> writeOutput(const std::string &path, std::string_view bytes) {
  if (path == "-") {
    llvm::outs() << llvm::StringRef(bytes);
    llvm::outs().flush();
    if (llvm::outs().has_error()) {
      Error error{"standard output: " + llvm::outs().error().message()};
      llvm::outs().clear_error();
      return error;
    }
    return {};
  }
  auto fail = [&](const std::string &why) { return Error{path + ": " + why}; };
  auto temporary = llvm::sys::fs::TempFile::create(path + ".%%%%%%.tmp");
  if (!temporary)
    return fail(llvm::toString(temporary.takeError()));
  llvm::raw_fd_ostream stream(temporary->FD, /*shouldClose=*/false);
  stream << llvm::StringRef(bytes);
  stream.flush();
  if (stream.has_error()) {
    std::string why = stream.error().message();
    stream.clear_error();
    if (llvm::Error discarded = temporary->discard())
      why += "; " + llvm::toString(std::move(discarded));
    return fail(why);
  }
  if (llvm::Error error = temporary->keep(path))
    return fail(llvm::toString(std::move(error)));
  return {};
}

Result<std::string> outputPath(const Options &options, const std::string &input) {
  bool severalInputs = options.inputs.size() > 1;
  llvm::SmallString<128> name(input == "-" ? llvm::StringRef("stdin")
                                           : llvm::sys::path::filename(input));
  llvm::sys::path::replace_extension(name, options.emit == Emit::Ptx ? "tally.ptx" : "tally");
  if (options.output.empty())
    return input == "-" ? std::string("-") : std::string(name);
  bool directory = llvm::sys::fs::is_directory(options.output);
  if (!severalInputs && !directory)
    return options.output;
  if (!directory)
    if (std::error_code error = llvm::sys::fs::create_directories(options.output))
      return Error{options.output + ": " + error.message()};
  llvm::SmallString<128> path(options.output);
  llvm::sys::path::append(path, name);
  return std::string(path);
}

} // namespace tally::ptxopt
