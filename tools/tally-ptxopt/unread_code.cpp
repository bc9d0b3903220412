#include "unread_code.h"

#include "tally/bundle/fatbin.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/MemoryBufferRef.h"
#include "llvm/TargetParser/Triple.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <elf.h>
#include <utility>

namespace tally::ptxopt {
namespace {

constexpr std::uint16_t emCuda = 190;
/// PTX ISA 5: .version comes first and .target second; comments may stand between them.
constexpr std::size_t directivesApart = 512;

/// Returns the first position of `pattern` from `from` on. Uses memmem: std::string_view::find
/// stops at each occurrence of the first letter, and these letters are frequent in machine code.
std::size_t find(std::string_view bytes, std::string_view pattern, std::size_t from = 0) {
  if (from >= bytes.size())
    return std::string_view::npos;
  const void *place =
      memmem(bytes.data() + from, bytes.size() - from, pattern.data(), pattern.size());
  return place ? static_cast<std::size_t>(static_cast<const char *>(place) - bytes.data())
               : std::string_view::npos;
}

/// Returns the first position of `pattern` that `isOne` accepts.
template <class Check>
std::optional<std::size_t> findIf(std::string_view bytes, std::string_view pattern, Check isOne) {
  for (std::size_t at = find(bytes, pattern); at != std::string_view::npos;
       at = find(bytes, pattern, at + 1))
    if (isOne(at))
      return at;
  return std::nullopt;
}

std::optional<std::size_t> fatbinIn(std::string_view bytes) {
  return findIf(bytes, std::string_view("\x50\xed\x55\xba\x01\x00\x10\x00", 8),
                [&](std::size_t at) {
                  auto container = bundle::readFatbin(bytes, at);
                  return container && !container->entries.empty();
                });
}

std::optional<std::size_t> cubinIn(std::string_view bytes) {
  constexpr std::size_t machineAt = offsetof(Elf64_Ehdr, e_machine);
  return findIf(bytes,
                std::string_view("\x7f"
                                 "ELF\x02\x01",
                                 6),
                [&](std::size_t at) {
                  return bytes.size() - at >= sizeof(Elf64_Ehdr) &&
                         llvm::support::endian::read16le(bytes.data() + at + machineAt) == emCuda;
                });
}

/// Finds ".version 8.0" and, shortly behind it, ".target sm_90".
std::optional<std::size_t> ptxIn(std::string_view bytes) {
  return findIf(bytes, ".version", [&](std::size_t at) {
    llvm::StringRef text = llvm::StringRef(bytes).substr(at + 8, directivesApart);
    llvm::StringRef number = text.ltrim(" \t");
    if (number.empty() || number.size() == text.size() || !llvm::isDigit(number.front()))
      return false;
    std::size_t target = number.find(".target");
    return target != llvm::StringRef::npos &&
           number.drop_front(target + 7).ltrim(" \t").starts_with("sm_");
  });
}

} // namespace

std::optional<std::string> deviceCodeIn(std::string_view bytes) {
  if (auto at = fatbinIn(bytes))
    return fmt::format("a fatbin at byte {}", *at);
  if (auto at = cubinIn(bytes))
    return fmt::format("a cubin at byte {}", *at);
  if (auto at = ptxIn(bytes))
    return fmt::format("PTX at byte {}", *at);
  return std::nullopt;
}

bool registersDeviceCode(std::string_view bytes) {
  // The last name belongs to the data from which clang makes .llvm.offloading.
  for (std::string_view name :
       {"__cudaRegisterFatBinary", "__cudaRegisterLinkedBinary", "llvm.embedded.object"})
    if (find(bytes, name) != std::string_view::npos)
      return true;
  return false;
}

std::optional<std::string> remarkOnBitcode(const std::string &name, std::string_view bytes) {
  if (registersDeviceCode(bytes))
    return name + ": LLVM bitcode (-flto) with device code in it, which is not rewritten; compile "
                  "it with -fno-lto, or rewrite what it is linked into";
  auto triple = llvm::getBitcodeTargetTriple(llvm::MemoryBufferRef(bytes, name));
  if (!triple) {
    llvm::consumeError(triple.takeError());
    return name + ": LLVM bitcode that this build cannot read, so nothing in it is rewritten";
  }
  if (llvm::Triple(*triple).isNVPTX())
    return name + ": LLVM bitcode for " + *triple +
           ", which is not rewritten here; rewrite it as a file of its own";
  return std::nullopt;
}

namespace {

/// Collects the remarks on one file.
class Finder {
public:
  explicit Finder(const std::string &name) : name(name) {}

  std::vector<std::string> remarks;

  /// Handles a file without a section table: its device code may be anywhere, and there is no
  /// section table to add a section to.
  void takeFile(std::string_view file) {
    if (auto found = deviceCodeIn(file))
      say(fmt::format("it has no sections, so its device code ({}) is not rewritten; rewrite it "
                      "before its section table is taken away",
                      *found));
  }

  void take(const bundle::ElfSection &section) {
    llvm::StringRef kind = section.name;
    if (kind == wholeProgramSection || kind == relocatableSection || kind == bundleSection ||
        kind.starts_with(".debug") || kind.starts_with(".zdebug"))
      return;
    if (kind == clangSection)
      return say(fmt::format("clang's -fgpu-rdc keeps device code in {}, which is not rewritten; "
                             "compile without it, or with nvcc",
                             section.name));
    if (kind.starts_with(".gnu.offload_lto_"))
      return sayOnce(offload, "GCC's offloading keeps device code in .gnu.offload_lto_*, which is "
                              "not rewritten; compile it with nvcc or clang");
    if (kind.starts_with("__CLANG_OFFLOAD_BUNDLE__") &&
        (kind.contains("cuda-") || kind.contains("nvptx")))
      return say(fmt::format("clang's offloading keeps device code in {}, which is not rewritten; "
                             "compile it by itself, or with nvcc",
                             section.name));
    if (kind.starts_with(".gnu.lto_") || kind == ".llvm.lto") {
      if (!registersDeviceCode(section.bytes))
        return;
      return sayOnce(
          linkTime, fmt::format("it was compiled with -flto, and the device code that it keeps for "
                                "that in {} is not rewritten; compile it with -fno-lto, or rewrite "
                                "what it is linked into",
                                kind == ".llvm.lto" ? ".llvm.lto" : ".gnu.lto_*"));
    }
    if (auto found = deviceCodeIn(section.bytes))
      say(fmt::format("section {}: {}, which is data of the program's, is not rewritten, so its "
                      "kernels run whole; compile them into the program instead",
                      section.name, *found));
  }

private:
  void say(const std::string &sentence) { remarks.push_back(name + ": " + sentence); }
  void sayOnce(bool &said, const std::string &sentence) {
    if (!std::exchange(said, true))
      say(sentence);
  }

  const std::string &name;
  bool offload = false, linkTime = false;
};

} // namespace

Result<std::vector<std::string>> remarksOnUnreadCode(const std::string &name, std::string_view file,
                                                     const bundle::ElfView &view) {
  Finder finder(name);
  if (view.sectionCount() == 0)
    finder.takeFile(file);
  for (std::uint64_t i = 1; i < view.sectionCount(); ++i) {
    auto section = view.section(i);
    if (!section)
      return Error{name + ": " + section.error().message};
    finder.take(*section);
  }
  return std::move(finder.remarks);
}

} // namespace tally::ptxopt
