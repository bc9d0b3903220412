#include "elf_rewrite.h"

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

namespace tally::ptxopt {
namespace {

constexpr const char *wholeProgramSection = ".nv_fatbin", *relocatableSection = "__nv_relfatbin",
                     *bundleSection = ".tally", *clangSection = ".llvm.offloading";

/// Offsets inside the section, as the reader gives them, said to be such.
Error inSection(const ElfPlan &plan, const char *section, const Error &error) {
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
    std::optional<std::string_view> whole, parts;
    bool offloading = false;
    for (std::uint64_t i = 1; i < view->sectionCount(); ++i) {
      auto section = view->section(i);
      if (!section)
        return Error{plan.name + ": " + section.error().message};
      auto take = [&](const char *name, std::optional<std::string_view> &place) {
        if (section->name == name && !place)
          place = section->bytes;
      };
      std::optional<std::string_view> bundles;
      take(wholeProgramSection, whole);
      take(relocatableSection, parts);
      take(bundleSection, bundles);
      if (bundles && !plan.hasOldBundles) {
        plan.oldBundles = *bundles;
        plan.hasOldBundles = true;
      }
      offloading |= section->name == clangSection;
    }
    if (offloading)
      plan.remarks.push_back(plan.name + ": clang's -fgpu-rdc keeps device code in " +
                             clangSection +
                             ", which is not rewritten; compile without it, or with nvcc");
    if (auto done = readBundles(); !done)
      return done;
    // The code of a linked file of parts (nvcc -rdc) is machine code that was linked.
    if (parts && !plan.relocatable)
      return readLinkedParts(*parts);
    for (auto [name, bytes] : {std::pair(wholeProgramSection, whole), {relocatableSection, parts}})
      if (bytes)
        if (auto done = readSection(name, *bytes); !done)
          return done;
    return {};
  }

private:
  /// What is only looked at may have been rewritten before.
  Result<void> readBundles() {
    if (options.emit == Emit::Ptx || options.describes()) {
      plan.hasOldBundles = false;
      return {};
    }
    auto bundles = bundle::readBundles(plan.oldBundles);
    if (!bundles)
      return inSection(plan, bundleSection, bundles.error());
    for (const bundle::Bundle &each : *bundles) {
      described.insert(each.moduleHash);
      plan.bundles.insert(bundle::write(each));
      // A container without variants may get some now, say with other options.
      if (llvm::none_of(each.kernels, std::mem_fn(&bundle::Kernel::hasVariants)))
        continue;
      rewritten.insert(each.moduleHash);
      plan.keptBundles.insert(bundle::write(each));
    }
    return {};
  }

  Result<void> readLinkedParts(std::string_view bytes) {
    auto containers = bundle::readFatbins(bytes);
    if (!containers)
      return inSection(plan, relocatableSection, containers.error());
    auto known = llvm::count_if(*containers, [&](const bundle::FatbinContainer &each) {
      return described.contains(bundle::hashOf(each.bytes));
    });
    plan.keptBundles = plan.bundles;
    if (known == 0)
      plan.remarks.push_back(plan.name + ": its device code was linked (nvcc -rdc=true), so it is "
                                         "not rewritten; rewrite the objects before linking");
    return {};
  }

  Result<void> readSection(const char *name, std::string_view bytes) {
    auto containers = bundle::readFatbins(bytes);
    if (!containers)
      return inSection(plan, name, containers.error());
    bool several = containers->size() > 1;
    std::erase_if(*containers, [&](const bundle::FatbinContainer &each) {
      return rewritten.contains(bundle::hashOf(each.bytes));
    });
    if (plan.relocatable && several && !containers->empty()) {
      // Relocations point between them; they would have to be moved along.
      plan.keptBundles = plan.bundles;
      plan.remarks.push_back(plan.name + ": it was joined of several objects (ld -r), so it is not "
                                         "rewritten; rewrite the objects before that");
      return {};
    }
    SectionPlan section{name, bytes, {}};
    for (bundle::FatbinContainer &container : *containers) {
      if (plan.relocatable && plan.hasOldBundles &&
          !described.contains(bundle::hashOf(container.bytes)))
        return Error{fmt::format("{}: its {} section is not of the fatbin in {} (stale): compile "
                                 "the file again",
                                 plan.name, bundleSection, name)};
      auto fatbin = planFatbin(options, plan.name, std::move(container), jobs);
      if (!fatbin)
        return inSection(plan, name, fatbin.error());
      section.fatbins.push_back(std::move(*fatbin));
    }
    plan.sections.push_back(std::move(section));
    return {};
  }

  const Options &options;
  ElfPlan &plan;
  std::vector<std::unique_ptr<Job>> &jobs;
  std::set<std::uint64_t> described, rewritten; ///< hashes of containers, by the file's bundles
};

struct SectionContents {
  std::string name, bytes;
};

/// Gives an ELF file other contents of sections, and more sections. What is there stays where it
/// is: new contents, names and section table stand at the end. LLVM's ObjCopy has this too, but
/// loses the symbols of a section that grows (22.1: a pointer to freed memory), and lays out by
/// whatever alignments a file claims.
class ElfEditor {
public:
  explicit ElfEditor(const ElfPlan &plan) : plan(plan), file(plan.bytes) {}

  Result<std::string> run(const std::vector<SectionContents> &updated,
                          const std::vector<SectionContents> &added) {
    if (auto done = readTable(added.size()); !done)
      return done.error();
    for (const SectionContents &each : updated)
      if (auto done = replace(each); !done)
        return done.error();
    for (const SectionContents &each : added) {
      Elf64_Shdr section{};
      section.sh_name = static_cast<Elf64_Word>(names.size());
      section.sh_type = SHT_PROGBITS;
      section.sh_addralign = 1;
      place(section, each.bytes, 1);
      table.push_back(section);
      names += each.name + '\0';
    }
    place(table[namesIndex], names, 1);
    file.resize(llvm::alignTo(file.size(), alignof(Elf64_Shdr)));
    header.e_shoff = file.size();
    header.e_shnum = static_cast<Elf64_Half>(table.size());
    file.append(reinterpret_cast<const char *>(table.data()), table.size() * sizeof(Elf64_Shdr));
    std::memcpy(file.data(), &header, sizeof(header));
    return std::move(file);
  }

private:
  Error wrong(std::string_view what) const { return {fmt::format("{}: {}", plan.name, what)}; }

  /// The sections were found by their names, so ElfView has seen all of what is read here.
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

  Result<void> replace(const SectionContents &contents) {
    for (std::size_t i = 1; i < table.size(); ++i) {
      Elf64_Shdr &section = table[i];
      if (names.c_str() + section.sh_name != contents.name)
        continue;
      if (section.sh_addralign > maxAlignment)
        return wrong(fmt::format("damaged ELF file: at byte {}: a section is aligned to {} bytes",
                                 header.e_shoff + i * sizeof(Elf64_Shdr) +
                                     offsetof(Elf64_Shdr, sh_addralign),
                                 section.sh_addralign));
      if (!plan.relocatable && section.sh_flags & SHF_ALLOC)
        return wrong(fmt::format("the section {} of a linked file cannot be moved", contents.name));
      place(section, contents.bytes, std::max<std::uint64_t>(section.sh_addralign, 1));
      return {};
    }
    return wrong(fmt::format("there is no section {}", contents.name));
  }

  void place(Elf64_Shdr &section, const std::string &bytes, std::uint64_t alignment) {
    file.resize(llvm::alignTo(file.size(), alignment));
    section.sh_offset = file.size();
    section.sh_size = bytes.size();
    file += bytes;
  }

  /// Of a section whose contents are replaced; fatbins need 8.
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
  std::vector<SectionContents> updated, added;
  std::multiset<std::string> bundles = plan.keptBundles;
  for (const SectionPlan &section : plan.sections)
    for (const FatbinPlan &fatbin : section.fatbins) {
      auto merged = mergeFatbin(fatbin);
      if (!merged)
        return merged.error();
      bundle::Bundle description;
      description.kernels = std::move(merged->kernels);
      description.moduleHash =
          bundle::hashOf(plan.relocatable ? merged->container : fatbin.container.bytes);
      if (merged->changed && plan.relocatable)
        updated.push_back({section.section, std::move(merged->container)});
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
  (plan.hasOldBundles ? updated : added).push_back({bundleSection, std::move(contents)});
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
