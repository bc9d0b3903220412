#include "elf_rewrite.h"

#include "unread_code.h"

#include "tally/bundle/bundle_reader.h"
#include "tally/bundle/bundle_writer.h"
#include "tally/bundle/elf.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <elf.h>
#include <functional>
#include <map>
#include <utility>

namespace tally::ptxopt {
namespace {

/// Returns the error with the section's name, since the reader's offsets count from the section's
/// start.
Error inSection(const ElfPlan &plan, std::string_view section, const Error &error) {
  return {fmt::format("{}: section {}: {}", plan.name, section, error.message)};
}

class Reader {
public:
  Reader(const Options &options, ElfPlan &plan, std::vector<std::unique_ptr<Job>> &jobs)
      : options(options), plan(plan), jobs(jobs) {}

  Result<void> run() {
    auto view = bundle::ElfView::open(plan.bytes);
    if (!view)
      return Error{plan.name + ": " + view.error().message};
    plan.relocatable = view->type() == ET_REL;
    auto unread = remarksOnUnreadCode(plan.name, plan.bytes, *view);
    if (!unread)
      return unread.error();
    plan.remarks = std::move(*unread);
    std::vector<Containers> whole, parts;
    std::string oldBundles;
    for (std::uint64_t i = 1; i < view->sectionCount(); ++i) {
      auto section = view->section(i);
      if (!section)
        return Error{plan.name + ": " + section.error().message};
      Result<void> done;
      if (section->name == wholeProgramSection) {
        done = readContainers(whole, i, *section);
      } else if (section->name == relocatableSection) {
        done = readContainers(parts, i, *section);
      } else if (section->name == bundleSection && looksForBundles()) {
        oldBundles += section->bytes;
        plan.bundleSections.push_back(i);
      }
      if (!done)
        return done;
    }
    if (auto done = readBundles(oldBundles); !done)
      return done;
    // A linked file with parts (nvcc -rdc) holds linked machine code.
    if (!parts.empty() && !plan.relocatable) {
      readLinkedParts(parts);
      return {};
    }
    bool joined = containersIn(whole) > 1;
    for (Containers &each : whole)
      if (auto done = planSection(each, plan.relocatable && !joined); !done)
        return done;
    return planParts(parts);
  }

private:
  /// A section of fatbins.
  struct Containers {
    std::uint64_t index;
    std::string_view name;
    std::vector<bundle::FatbinContainer> containers;
  };

  /// False where the file is only read: such a file may have been rewritten before.
  bool looksForBundles() const { return options.emit != Emit::Ptx && !options.describes(); }

  Result<void> readContainers(std::vector<Containers> &sections, std::uint64_t index,
                              const bundle::ElfSection &section) {
    auto containers = bundle::readFatbins(section.bytes);
    if (!containers)
      return inSection(plan, section.name, containers.error());
    sections.push_back({index, section.name, std::move(*containers)});
    return {};
  }

  static std::size_t containersIn(const std::vector<Containers> &sections) {
    std::size_t count = 0;
    for (const Containers &each : sections)
      count += each.containers.size();
    return count;
  }

  Result<void> readBundles(std::string_view oldBundles) {
    auto bundles = bundle::readBundles(oldBundles);
    if (!bundles)
      return inSection(plan, bundleSection, bundles.error());
    for (const bundle::Bundle &each : *bundles) {
      described.insert(each.moduleHash);
      plan.bundles.insert(bundle::write(each));
      // A container without variants may get some now, for instance with other options.
      if (llvm::none_of(each.kernels, std::mem_fn(&bundle::Kernel::hasVariants))) {
        withoutVariants.emplace(each.moduleHash, bundle::write(each));
        continue;
      }
      rewritten.insert(each.moduleHash);
      plan.keptBundles.insert(bundle::write(each));
    }
    return {};
  }

  void readLinkedParts(const std::vector<Containers> &sections) {
    plan.keptBundles = plan.bundles;
    for (const Containers &section : sections)
      for (const bundle::FatbinContainer &each : section.containers)
        if (described.contains(bundle::hashOf(each.bytes)))
          return;
    plan.remarks.push_back(plan.name + ": its device code was linked (nvcc -rdc=true), so it is "
                                       "not rewritten; rewrite the objects before linking");
  }

  /// Plans objects that ld -r joined: relocations point between the containers of one section, and
  /// nvlink reads only the first section. nvlink ignores bundles, so bundles cannot give it other
  /// containers.
  Result<void> planParts(std::vector<Containers> &sections) {
    if (containersIn(sections) <= 1) {
      for (Containers &each : sections)
        if (auto done = planSection(each, /*inPlace=*/true); !done)
          return done;
      return {};
    }
    bool isRewritten = true;
    for (const Containers &section : sections)
      for (const bundle::FatbinContainer &each : section.containers) {
        std::uint64_t hash = bundle::hashOf(each.bytes);
        isRewritten &= rewritten.contains(hash);
        if (auto bundle = withoutVariants.find(hash); bundle != withoutVariants.end())
          plan.keptBundles.insert(bundle->second);
      }
    if (!isRewritten)
      plan.remarks.push_back(plan.name +
                             ": it was joined of several objects (ld -r) of relocatable device "
                             "code, so that is not rewritten; rewrite the objects before that");
    return {};
  }

  Result<void> planSection(Containers &section, bool inPlace) {
    SectionPlan planned{section.index, inPlace, {}};
    for (bundle::FatbinContainer &container : section.containers) {
      std::uint64_t hash = bundle::hashOf(container.bytes);
      if (rewritten.contains(hash))
        continue;
      if (inPlace && !plan.bundleSections.empty() && !described.contains(hash))
        return Error{fmt::format("{}: its {} section is not of the fatbin in {} (stale): compile "
                                 "the file again",
                                 plan.name, bundleSection, section.name)};
      auto fatbin = planFatbin(options, plan.name, std::move(container), jobs);
      if (!fatbin)
        return inSection(plan, section.name, fatbin.error());
      planned.fatbins.push_back(std::move(*fatbin));
    }
    plan.sections.push_back(std::move(planned));
    return {};
  }

  const Options &options;
  ElfPlan &plan;
  std::vector<std::unique_ptr<Job>> &jobs;
  std::set<std::uint64_t> described, rewritten; ///< hashes of containers in the file's bundles
  std::map<std::uint64_t, std::string> withoutVariants; ///< bundles of containers without variants
};

struct NewContents {
  std::uint64_t section; ///< its index
  std::string bytes;
};
struct NewSection {
  std::string name, bytes;
};

/// Gives an ELF file new contents of sections, and more sections. Existing bytes stay in place: new
/// contents, names and the section table go to the end. LLVM's ObjCopy can do this too, but loses
/// the symbols of a section that grows (22.1: a pointer to freed memory), and lays sections out by
/// any alignment that a file claims.
class ElfEditor {
public:
  explicit ElfEditor(const ElfPlan &plan) : plan(plan), file(plan.bytes) {}

  Result<std::string> run(const std::vector<NewContents> &updated,
                          const std::vector<NewSection> &added) {
    if (auto done = readTable(added.size()); !done)
      return done.error();
    for (const NewContents &each : updated)
      if (auto done = replace(each); !done)
        return done.error();
    for (const NewSection &each : added) {
      Elf64_Shdr section{};
      section.sh_name = static_cast<Elf64_Word>(names.size());
      section.sh_type = SHT_PROGBITS;
      section.sh_addralign = 1;
      place(section, each.bytes, 1);
      table.push_back(section);
      names += each.name + '\0';
    }
    place(table[namesIndex], names, 1);
    if (plan.relocatable)
      closeGaps();
    file.resize(llvm::alignTo(file.size(), alignof(Elf64_Shdr)));
    header.e_shoff = file.size();
    header.e_shnum = static_cast<Elf64_Half>(table.size());
    file.append(reinterpret_cast<const char *>(table.data()), table.size() * sizeof(Elf64_Shdr));
    std::memcpy(file.data(), &header, sizeof(header));
    return std::move(file);
  }

private:
  Error wrong(std::string_view what) const { return {fmt::format("{}: {}", plan.name, what)}; }

  /// Sections were found by name, so ElfView has checked all that this function reads.
  Result<void> readTable(std::size_t added) {
    std::memcpy(&header, file.data(), sizeof(header));
    if (header.e_shnum == 0 || header.e_shnum + added >= SHN_LORESERVE ||
        header.e_shstrndx >= header.e_shnum)
      return wrong("an ELF file with more than 65,279 sections is not rewritten");
    table.resize(header.e_shnum);
    std::memcpy(table.data(), file.data() + header.e_shoff, table.size() * sizeof(Elf64_Shdr));
    namesIndex = header.e_shstrndx;
    if (table[namesIndex].sh_flags & SHF_ALLOC)
      return wrong("an ELF file that loads the names of its sections is not rewritten");
    names = file.substr(table[namesIndex].sh_offset, table[namesIndex].sh_size);
    return {};
  }

  Result<void> replace(const NewContents &contents) {
    Elf64_Shdr &section = table[contents.section];
    if (section.sh_addralign > maxAlignment)
      return wrong(fmt::format("damaged ELF file: at byte {}: a section is aligned to {} bytes",
                               header.e_shoff + contents.section * sizeof(Elf64_Shdr) +
                                   offsetof(Elf64_Shdr, sh_addralign),
                               section.sh_addralign));
    if (!plan.relocatable && section.sh_flags & SHF_ALLOC)
      return wrong(fmt::format("the section {} of a linked file cannot be moved",
                               names.c_str() + section.sh_name));
    place(section, contents.bytes, std::max<std::uint64_t>(section.sh_addralign, 1));
    return {};
  }

  void place(Elf64_Shdr &section, const std::string &bytes, std::uint64_t alignment) {
    file.resize(llvm::alignTo(file.size(), alignment));
    section.sh_offset = file.size();
    section.sh_size = bytes.size();
    file += bytes;
  }

  /// Removes bytes that no section holds any more. In an object only the section table gives the
  /// places of sections. An object whose sections overlap or lie outside of it stays as it is (the
  /// first section, which is none, is exempt).
  void closeGaps() {
    auto bytesOf = [](const Elf64_Shdr &section) {
      return section.sh_type == SHT_NULL || section.sh_type == SHT_NOBITS ? 0 : section.sh_size;
    };
    std::vector<Elf64_Shdr *> sections;
    for (Elf64_Shdr &section : table)
      if (section.sh_type != SHT_NULL)
        sections.push_back(&section);
    llvm::stable_sort(sections, [](const Elf64_Shdr *a, const Elf64_Shdr *b) {
      return a->sh_offset < b->sh_offset;
    });
    std::uint64_t end = sizeof(header);
    for (const Elf64_Shdr *section : sections) {
      if (bytesOf(*section) == 0)
        continue;
      if (section->sh_offset < end || section->sh_addralign > maxAlignment ||
          section->sh_offset > file.size() || section->sh_size > file.size() - section->sh_offset)
        return;
      end = section->sh_offset + section->sh_size;
    }
    if (header.e_phnum != 0)
      return;
    std::string closed = file.substr(0, sizeof(header));
    for (Elf64_Shdr *section : sections) {
      std::uint64_t bytes = bytesOf(*section), from = section->sh_offset;
      if (bytes != 0)
        closed.resize(
            llvm::alignTo(closed.size(), std::max<std::uint64_t>(section->sh_addralign, 1)));
      section->sh_offset = closed.size();
      if (bytes != 0)
        closed.append(file, from, bytes);
    }
    file = std::move(closed);
  }

  /// Largest alignment of a section with replaced contents; fatbins need 8.
  static constexpr std::uint64_t maxAlignment = 4096;

  const ElfPlan &plan;
  std::string file, names;
  Elf64_Ehdr header{};
  std::vector<Elf64_Shdr> table;
  std::size_t namesIndex = 0;
};

} // namespace

Result<ElfPlan> planElf(const Options &options, const std::string &name, std::string_view bytes,
                        std::vector<std::unique_ptr<Job>> &jobs) {
  ElfPlan plan;
  plan.name = name;
  plan.bytes = bytes;
  if (auto done = Reader(options, plan, jobs).run(); !done)
    return done.error();
  return plan;
}

Result<std::optional<std::string>> rewriteElf(const ElfPlan &plan) {
  std::vector<NewContents> updated;
  std::multiset<std::string> bundles = plan.keptBundles;
  for (const SectionPlan &section : plan.sections)
    for (const FatbinPlan &fatbin : section.fatbins) {
      auto merged = mergeFatbin(fatbin);
      if (!merged)
        return merged.error();
      bundle::Bundle description;
      description.kernels = std::move(merged->kernels);
      description.moduleHash =
          bundle::hashOf(section.inPlace ? merged->container : fatbin.container.bytes);
      if (merged->changed && section.inPlace)
        updated.push_back({section.index, std::move(merged->container)});
      else if (merged->changed)
        description.images.push_back(
            {bundle::ImageFormat::Fatbin, 0, std::move(merged->container)});
      bundles.insert(bundle::write(description));
    }
  if (updated.empty() && bundles == plan.bundles)
    return std::optional<std::string>();
  std::string contents;
  for (const std::string &each : bundles)
    contents += each;
  std::vector<NewSection> added;
  if (plan.bundleSections.empty())
    added.push_back({bundleSection, std::move(contents)});
  for (std::uint64_t section : plan.bundleSections)
    updated.push_back({section, std::exchange(contents, {})});
  auto bytes = ElfEditor(plan).run(updated, added);
  if (!bytes)
    return bytes.error();
  return std::optional(std::move(*bytes));
}

std::vector<std::string> remarksOn(const ElfPlan &plan) {
  std::vector<std::string> remarks = plan.remarks;
  for (const SectionPlan &section : plan.sections)
    for (const FatbinPlan &fatbin : section.fatbins)
      llvm::append_range(remarks, remarksOn(fatbin));
  return remarks;
}

} // namespace tally::ptxopt
