#include "elf_rewrite.h"

#include "tally/bundle/bundle_reader.h"
#include "tally/bundle/bundle_writer.h"
#include "tally/bundle/elf.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ObjCopy/ConfigManager.h"
#include "llvm/ObjCopy/ObjCopy.h"
#include "llvm/Object/Binary.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <elf.h>

namespace tally::ptxopt {
namespace {

constexpr const char *wholeProgramSection = ".nv_fatbin", *relocatableSection = "__nv_relfatbin",
                     *bundleSection = ".tally", *clangSection = ".llvm.offloading";

bool hasVariants(const bundle::Bundle &bundle) {
  for (const bundle::Kernel &kernel : bundle.kernels)
    for (Kind kind : allKinds)
      if (kernel.emitted(kind))
        return true;
  return false;
}

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
      if (!hasVariants(each))
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

/// The file with other contents of sections, which stand at its end. LLVM's ObjCopy has this too
/// (UpdateSection), but when the contents grow it leaves the section's symbols with a pointer to
/// freed memory (seen in 22.1): at times they come out with an index that no linker takes.
Result<std::string> replaceContents(const ElfPlan &plan,
                                    const std::vector<SectionContents> &updated) {
  std::string file(plan.bytes);
  auto view = bundle::ElfView::open(plan.bytes);
  if (!view)
    return Error{plan.name + ": " + view.error().message};
  Elf64_Ehdr header;
  std::memcpy(&header, file.data(), sizeof(header));
  std::set<std::string_view> done; // the first of a name, as readers take it
  for (std::uint64_t i = 0; i < view->sectionCount(); ++i) {
    auto section = view->section(i);
    if (!section)
      return Error{plan.name + ": " + section.error().message};
    auto contents = llvm::find_if(
        updated, [&](const SectionContents &each) { return each.name == section->name; });
    if (contents == updated.end() || !done.insert(contents->name).second)
      continue;
    std::size_t at = header.e_shoff + i * header.e_shentsize;
    Elf64_Shdr entry;
    std::memcpy(&entry, file.data() + at, sizeof(entry));
    file.resize(llvm::alignTo(file.size(), std::max<std::uint64_t>(entry.sh_addralign, 1)));
    entry.sh_offset = file.size();
    entry.sh_size = contents->bytes.size();
    std::memcpy(file.data() + at, &entry, sizeof(entry));
    file += contents->bytes;
  }
  return file;
}

/// The file with `updated` sections in place of its own and with `added` ones.
Result<std::string> copyElf(const ElfPlan &plan, const std::vector<SectionContents> &updated,
                            const std::vector<SectionContents> &added) {
  auto file = replaceContents(plan, updated);
  if (!file)
    return file.error();
  auto binary = llvm::object::createBinary(llvm::MemoryBufferRef(*file, plan.name));
  if (!binary)
    return Error{plan.name + ": " + llvm::toString(binary.takeError())};
  llvm::objcopy::ConfigManager config;
  config.Common.InputFilename = config.Common.OutputFilename = plan.name;
  for (const SectionContents &each : added)
    config.Common.AddSection.emplace_back(
        each.name, llvm::MemoryBuffer::getMemBuffer(each.bytes, each.name, false));
  // Also where nothing is added: it closes the gap that the old contents leave.
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  if (llvm::Error error = llvm::objcopy::executeObjcopyOnBinary(config, **binary, stream))
    return Error{plan.name + ": " + llvm::toString(std::move(error))};
  return std::string(bytes.begin(), bytes.end());
}

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
  auto bytes = copyElf(plan, updated, added);
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
