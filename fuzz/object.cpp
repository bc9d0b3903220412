// tally-ptxopt rewrites any bytes, leaves them as they are, or reports an error. It can read its
// own output, describe it, and does not rewrite it a second time.
#include "fuzzer.h"

#include "container_file.h"

#include <string>

using namespace tally;

namespace {

ptxopt::Options optionsOfTest() {
  ptxopt::Options options;
  options.assemble = false; // this target does not test ptxas
  options.kinds = ptx::setOf(Kind::Guard);
  options.inPlace = true;
  return options;
}

bool isRead(ptxopt::FileKind kind) {
  using ptxopt::FileKind;
  return kind == FileKind::Fatbin || kind == FileKind::Object || kind == FileKind::Linked ||
         kind == FileKind::Archive;
}

/// The rewritten file; empty when the input is wrong or nothing changes.
std::string rewrite(std::string bytes) {
  static const ptxopt::Options options = optionsOfTest();
  ptxopt::FileKind kind = ptxopt::fileKindOf(bytes, "input");
  if (!isRead(kind))
    return {};
  std::vector<std::unique_ptr<ptxopt::Job>> jobs;
  auto file = ptxopt::planContainerFile(options, "input", std::move(bytes), kind, jobs);
  if (!file) {
    fuzz::require(!file.error().message.empty(), "an error says nothing");
    return {};
  }
  auto rewritten = ptxopt::rewriteContainerFile(options, **file);
  if (!rewritten) {
    fuzz::require(!rewritten.error().message.empty(), "an error says nothing");
    return {};
  }
  return rewritten->value_or(std::string());
}

} // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
  std::string once = rewrite(std::string(fuzz::textOf(data, size)));
  if (once.empty())
    return 0;
  ptxopt::FileKind kind = ptxopt::fileKindOf(once, "input");
  fuzz::require(kind == ptxopt::fileKindOf(fuzz::textOf(data, size), "input"),
                "a rewritten file is of another kind");
  // A fatbin on its own has no place for a description.
  if (kind != ptxopt::FileKind::Fatbin)
    fuzz::require(rewrite(std::move(once)).empty(), "a rewritten file is rewritten again");
  return 0;
}
