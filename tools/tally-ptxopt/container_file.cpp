#include "container_file.h"

#include "unread_code.h"

#include "tally/bundle/bundle_reader.h"
#include "tally/bundle/bundle_writer.h"
#include "tally/bundle/elf.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/BinaryFormat/Magic.h"

#include <fmt/format.h>

#include <elf.h>
#include <set>

namespace tally::ptxopt {
namespace {

constexpr std::uint16_t emCuda = 190;

FileKind elfKindOf(std::string_view bytes) {
  auto view = bundle::ElfView::open(bytes);
  if (!view)
    return FileKind::Object; // the reader of objects reports the error
  if (view->machine() == emCuda)
    return FileKind::Cubin;
  return view->type() == ET_REL ? FileKind::Object : FileKind::Linked;
}

Result<FatbinFilePlan> planFatbinFile(const Options &options, const std::string &name,
                                      std::string_view bytes,
                                      std::vector<std::unique_ptr<Job>> &jobs) {
  auto containers = bundle::readFatbins(bytes);
  if (!containers)
    return Error{name + ": " + containers.error().message};
  FatbinFilePlan plan;
  for (bundle::FatbinContainer &container : *containers) {
    auto fatbin = planFatbin(options, name, std::move(container), jobs);
    if (!fatbin)
      return fatbin.error();
    plan.fatbins.push_back(std::move(*fatbin));
  }
  return plan;
}

Result<ArchivePlan> planArchive(const Options &options, const std::string &name,
                                std::string_view bytes, std::vector<std::unique_ptr<Job>> &jobs) {
  auto members = readArchive(bytes);
  if (!members)
    return Error{name + ": " + members.error().message};
  ArchivePlan plan;
  plan.members = std::move(*members);
  plan.objects.resize(plan.members.size());
  for (std::size_t i = 0; i < plan.members.size(); ++i) {
    const ArchiveMember &member = plan.members[i];
    if (member.isTable)
      continue;
    std::string path = fmt::format("{}({})", name, member.name);
    FileKind kind = fileKindOf(member.bytes, member.name);
    if (kind != FileKind::Object) {
      if (auto remark = remarkOnOther(path, member.bytes, kind))
        plan.remarks.push_back(std::move(*remark));
      continue;
    }
    auto elf = planElf(options, path, member.bytes, jobs);
    if (!elf)
      return elf.error();
    plan.objects[i] = std::move(*elf);
  }
  return plan;
}

Result<std::optional<std::string>> rewriteFatbinFile(const Options &options,
                                                     const ContainerFile &file) {
  std::string containers, bundles;
  bool changed = false;
  for (const FatbinPlan &fatbin : std::get<FatbinFilePlan>(file.plan).fatbins) {
    auto merged = mergeFatbin(fatbin);
    if (!merged)
      return merged.error();
    changed |= merged->changed || options.emitsBundle;
    containers += merged->container;
    bundle::Bundle description;
    description.moduleHash = bundle::hashOf(fatbin.container.bytes);
    description.kernels = std::move(merged->kernels);
    description.images.push_back({bundle::ImageFormat::Fatbin, 0, std::move(merged->container)});
    bundles += bundle::write(description);
  }
  if (!changed)
    return std::optional<std::string>();
  return std::optional(options.emitsBundle ? bundles : containers);
}

Result<std::optional<std::string>> rewriteArchive(const ContainerFile &file) {
  const ArchivePlan &plan = std::get<ArchivePlan>(file.plan);
  std::vector<std::optional<std::string>> contents(plan.members.size());
  bool changed = false;
  for (std::size_t i = 0; i < plan.members.size(); ++i) {
    if (!plan.objects[i])
      continue;
    auto bytes = rewriteElf(*plan.objects[i]);
    if (!bytes)
      return bytes.error();
    contents[i] = std::move(*bytes);
    changed |= contents[i].has_value();
  }
  if (!changed)
    return std::optional<std::string>();
  auto archive = replaceMembers(file.bytes, plan.members, contents);
  if (!archive)
    return Error{file.input + ": " + archive.error().message};
  return std::optional(std::move(*archive));
}

} // namespace

FileKind fileKindOf(std::string_view bytes, std::string_view path) {
  llvm::StringRef text(bytes);
  if (text.starts_with(bundle::magic))
    return FileKind::Bundle;
  if (text.starts_with("\x50\xed\x55\xba"))
    return FileKind::Fatbin;
  if (text.starts_with("!<thin>\n"))
    return FileKind::ThinArchive;
  switch (llvm::identify_magic(text)) {
  case llvm::file_magic::archive:
    return FileKind::Archive;
  case llvm::file_magic::bitcode:
    return FileKind::Bitcode;
  case llvm::file_magic::elf:
  case llvm::file_magic::elf_relocatable:
  case llvm::file_magic::elf_executable:
  case llvm::file_magic::elf_shared_object:
  case llvm::file_magic::elf_core:
    return elfKindOf(bytes);
  case llvm::file_magic::unknown:
    break;
  default:
    return FileKind::Other;
  }
  return llvm::StringRef(path).ends_with(".ll") ? FileKind::LlvmText : FileKind::Ptx;
}

std::string_view describe(FileKind kind) {
  constexpr std::string_view words[] = {"PTX",
                                        "a fatbin",
                                        "a relocatable object",
                                        "a linked file",
                                        "an archive",
                                        "a thin archive",
                                        "a cubin",
                                        "LLVM bitcode",
                                        "LLVM assembly",
                                        "a bundle",
                                        "a file of another kind"};
  return words[static_cast<std::size_t>(kind)];
}

std::optional<std::string> remarkOnOther(const std::string &name, std::string_view bytes,
                                         FileKind kind) {
  if (kind == FileKind::Bitcode)
    return remarkOnBitcode(name, bytes);
  if (auto found = deviceCodeIn(bytes))
    return fmt::format("{}: {}, whose device code ({}) is not rewritten here; rewrite it as a file "
                       "of its own",
                       name, describe(kind), *found);
  return std::nullopt;
}

Result<std::unique_ptr<ContainerFile>> planContainerFile(const Options &options,
                                                         const std::string &input,
                                                         std::string bytes, FileKind kind,
                                                         std::vector<std::unique_ptr<Job>> &jobs) {
  auto file = std::make_unique<ContainerFile>();
  file->input = input;
  file->kind = kind;
  file->bytes = std::move(bytes);
  auto put = [&](auto plan) -> Result<std::unique_ptr<ContainerFile>> {
    if (!plan)
      return plan.error();
    file->plan = std::move(*plan);
    return std::move(file);
  };
  if (kind == FileKind::Fatbin)
    return put(planFatbinFile(options, input, file->bytes, jobs));
  if (kind == FileKind::Archive)
    return put(planArchive(options, input, file->bytes, jobs));
  return put(planElf(options, input, file->bytes, jobs));
}

Result<std::optional<std::string>> rewriteContainerFile(const Options &options,
                                                        const ContainerFile &file) {
  if (file.kind == FileKind::Fatbin)
    return rewriteFatbinFile(options, file);
  if (file.kind == FileKind::Archive)
    return rewriteArchive(file);
  return rewriteElf(std::get<ElfPlan>(file.plan));
}

std::vector<std::string> remarksOn(const ContainerFile &file) {
  std::vector<std::string> remarks;
  if (const auto *elf = std::get_if<ElfPlan>(&file.plan))
    remarks = remarksOn(*elf);
  if (const auto *archive = std::get_if<ArchivePlan>(&file.plan)) {
    remarks = archive->remarks;
    for (const std::optional<ElfPlan> &object : archive->objects)
      if (object)
        llvm::append_range(remarks, remarksOn(*object));
  }
  if (const auto *fatbins = std::get_if<FatbinFilePlan>(&file.plan))
    for (const FatbinPlan &fatbin : fatbins->fatbins)
      llvm::append_range(remarks, remarksOn(fatbin));
  std::set<std::string> seen;
  std::erase_if(remarks, [&](const std::string &each) { return !seen.insert(each).second; });
  return remarks;
}

} // namespace tally::ptxopt
