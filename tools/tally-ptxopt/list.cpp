#include "list.h"

#include "machine_code.h"
#include "unread_code.h"

#include "tally/bundle/bundle_reader.h"
#include "tally/bundle/elf.h"
#include "tally/bundle/fatbin.h"

#include "llvm/ADT/StringRef.h"

#include <fmt/format.h>

namespace tally::ptxopt {
namespace {

/// Collects the lines of one file.
class Lister {
public:
  std::string text;

  Result<void> file(const std::string &name, std::string_view bytes, unsigned depth) {
    FileKind kind = fileKindOf(bytes, name);
    line(depth, fmt::format("{}: {}, {} bytes", name, describe(kind), bytes.size()));
    switch (kind) {
    case FileKind::Fatbin:
      return fatbins(bytes, depth + 1);
    case FileKind::Object:
    case FileKind::Linked:
      return elf(bytes, depth + 1);
    case FileKind::Archive:
      return archive(bytes, depth + 1);
    case FileKind::Bundle:
      return bundles(bytes, depth + 1);
    case FileKind::Cubin:
      return cubin(bytes, depth + 1);
    default:
      if (depth > 0)
        if (auto remark = remarkOnOther("not read", bytes, kind))
          line(depth + 1, *remark);
      return {};
    }
  }

private:
  void line(unsigned depth, std::string_view words) {
    text += std::string(2 * depth, ' ') + std::string(words) + '\n';
  }

  Result<void> cubin(std::string_view bytes, unsigned depth) {
    auto code = readMachineCode(bytes);
    if (!code)
      return code.error();
    line(depth, fmt::format("made from compute_{}; there is no PTX in here", code->virtualArch));
    return {};
  }

  Result<void> elf(std::string_view bytes, unsigned depth) {
    auto view = bundle::ElfView::open(bytes);
    if (!view)
      return view.error();
    auto unread = remarksOnUnreadCode("not read", bytes, *view);
    if (!unread)
      return unread.error();
    for (std::uint64_t i = 1; i < view->sectionCount(); ++i) {
      auto section = view->section(i);
      if (!section)
        return section.error();
      bool isFatbin = section->name == wholeProgramSection || section->name == relocatableSection;
      if (!isFatbin && section->name != bundleSection)
        continue;
      line(depth, fmt::format("section {}, {} bytes", section->name, section->bytes.size()));
      auto done =
          isFatbin ? fatbins(section->bytes, depth + 1) : bundles(section->bytes, depth + 1);
      if (!done)
        return Error{fmt::format("section {}: {}", section->name, done.error().message)};
    }
    for (const std::string &remark : *unread)
      line(depth, remark);
    return {};
  }

  Result<void> archive(std::string_view bytes, unsigned depth) {
    auto members = readArchive(bytes);
    if (!members)
      return members.error();
    for (const ArchiveMember &member : *members)
      if (!member.isTable)
        if (auto done = file(member.name, member.bytes, depth); !done)
          return done;
    return {};
  }

  Result<void> fatbins(std::string_view bytes, unsigned depth) {
    auto containers = bundle::readFatbins(bytes);
    if (!containers)
      return containers.error();
    for (const bundle::FatbinContainer &container : *containers) {
      line(depth, fmt::format("container at byte {}, {} bytes, hash {:016x}", container.offset,
                              container.bytes.size(), bundle::hashOf(container.bytes)));
      for (const bundle::FatbinEntry &each : container.entries)
        if (auto done = entry(each, depth + 1); !done)
          return done;
    }
    return {};
  }

  Result<void> entry(const bundle::FatbinEntry &entry, unsigned depth) {
    std::string what;
    std::string facts;
    switch (entry.kind) {
    case bundle::FatbinKind::Ptx: {
      what = fmt::format("PTX {}.{} for compute_{}", entry.major, entry.minor, entry.archName());
      auto ptx = bundle::decompress(entry);
      if (!ptx)
        return ptx.error();
      facts = fmt::format(", {} bytes", ptx->size());
      break;
    }
    case bundle::FatbinKind::Elf: {
      auto cubin = bundle::decompress(entry);
      if (!cubin)
        return cubin.error();
      auto code = readMachineCode(*cubin);
      if (!code)
        return Error{fmt::format("the entry at byte {}: {}", entry.offset, code.error().message)};
      what =
          fmt::format("code for sm_{}, made from compute_{}", entry.archName(), code->virtualArch);
      facts = fmt::format(", {} bytes", cubin->size());
      break;
    }
    case bundle::FatbinKind::Nvvm:
      what = fmt::format("code for link-time optimisation for sm_{} (kept as it is)",
                         entry.archName());
      break;
    default:
      what = fmt::format("an entry of the unknown kind {} (kept as it is)",
                         static_cast<unsigned>(entry.kind));
    }
    what += facts;
    if (entry.compression() != bundle::Compression::None)
      what += fmt::format(", {} in {}", name(entry.compression()), entry.compressedBytes);
    if (entry.flags & bundle::fatbinDebug)
      what += ", debug";
    if (!entry.ident.empty())
      what += fmt::format(", of {}", llvm::StringRef(entry.ident).split('\0').first);
    if (llvm::StringRef options = llvm::StringRef(entry.options).trim(llvm::StringRef(" \0", 2));
        !options.empty() && entry.kind != bundle::FatbinKind::Elf)
      what += fmt::format(", options {}", std::string_view(options));
    line(depth, what);
    return {};
  }

  Result<void> bundles(std::string_view bytes, unsigned depth) {
    auto bundles = bundle::readBundles(bytes);
    if (!bundles)
      return bundles.error();
    for (const bundle::Bundle &bundle : *bundles) {
      line(depth,
           fmt::format("bundle of {:016x}, {} kernels", bundle.moduleHash, bundle.kernels.size()));
      for (const bundle::Kernel &kernel : bundle.kernels) {
        std::string verdicts;
        for (const Verdict &verdict : kernel.verdicts)
          verdicts +=
              fmt::format("{}{} {}{}{}", verdicts.empty() ? "" : ", ", name(verdict.kind),
                          name(verdict.status), verdict.reason.empty() ? "" : " ", verdict.reason);
        line(depth + 1, kernel.name + ": " + verdicts);
      }
      for (const bundle::Image &image : bundle.images) {
        constexpr std::string_view formats[] = {"PTX", "a cubin", "a fatbin"};
        line(depth + 1,
             fmt::format("{}{}, {} bytes", formats[static_cast<std::size_t>(image.format)],
                         image.arch ? fmt::format(" for sm_{}", image.arch) : "",
                         image.bytes.size()));
        if (image.format == bundle::ImageFormat::Fatbin)
          if (auto done = fatbins(image.bytes, depth + 2); !done)
            return done;
      }
    }
    return {};
  }
};

} // namespace

Result<std::string> listFile(const std::string &path, std::string_view bytes) {
  Lister lister;
  if (auto done = lister.file(path, bytes, 0); !done)
    return Error{path + ": " + done.error().message};
  return std::move(lister.text);
}

} // namespace tally::ptxopt
