#include "elf_rewrite.h"

#include "combine.h"

#include "tally/bundle/bundle_reader.h"
#include "tally/bundle/bundle_writer.h"
#include "tally/bundle/elf.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ObjCopy/ConfigManager.h"
#include "llvm/ObjCopy/ObjCopy.h"
#include "llvm/Object/Binary.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>

#include <elf.h>
#include <set>

namespace tally::ptxopt {
namespace {

constexpr const char *wholeProgramSection = ".nv_fatbin", *relocatableSection = "__nv_relfatbin",
                     *bundleSection = ".tally", *clangSection = ".llvm.offloading";

/// Hashes of the containers that the file's bundles are of.
Result<std::set<std::uint64_t>> bundledHashes(const ElfPlan &plan) {
  std::set<std::uint64_t> hashes;
  auto bundles = bundle::readBundles(plan.oldBundles);
  if (!bundles)
    return Error{plan.name + ": section " + bundleSection + ": " + bundles.error().message};
  for (const bundle::Bundle &each : *bundles)
    hashes.insert(each.moduleHash);
  return hashes;
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
    auto known = bundledHashes(plan);
    if (!known)
      return known.error();
    // What is only looked at may have been rewritten before.
    if (options.emit != Emit::Ptx && !options.describes())
      bundled = *known;
    else
      plan.hasOldBundles = false;
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
  Result<void> readLinkedParts(std::string_view bytes) {
    auto containers = bundle::readFatbins(bytes);
    if (!containers)
      return inSection(plan, relocatableSection, containers.error());
    auto rewritten = llvm::count_if(*containers, [&](const bundle::FatbinContainer &each) {
      return bundled.contains(bundle::hashOf(each.bytes));
    });
    if (rewritten == 0)
      plan.remarks.push_back(plan.name + ": its device code was linked (nvcc -rdc=true), so it is "
                                         "not rewritten; rewrite the objects before linking");
    return {};
  }

  Result<void> readSection(const char *name, std::string_view bytes) {
    auto containers = bundle::readFatbins(bytes);
    if (!containers)
      return inSection(plan, name, containers.error());
    SectionPlan section{name, bytes, {}};
    for (bundle::FatbinContainer &container : *containers) {
      if (bundled.contains(bundle::hashOf(container.bytes)))
        continue;
      if (plan.relocatable && plan.hasOldBundles)
        return Error{fmt::format("{}: its {} section is not of the fatbin in {} (stale): compile "
                                 "the file again",
                                 plan.name, bundleSection, name)};
      auto fatbin = planFatbin(options, plan.name, std::move(container), jobs);
      if (!fatbin)
        return inSection(plan, name, fatbin.error());
      section.fatbins.push_back(std::move(*fatbin));
    }
    if (plan.relocatable && containers->size() > 1 && !section.fatbins.empty()) {
      // Relocations point between them; they would have to be moved along.
      section.fatbins.clear();
      plan.remarks.push_back(plan.name + ": it was joined of several objects (ld -r), so it is not "
                                         "rewritten; rewrite the objects before that");
    }
    plan.sections.push_back(std::move(section));
    return {};
  }

  const Options &options;
  ElfPlan &plan;
  std::vector<std::unique_ptr<Job>> &jobs;
  std::set<std::uint64_t> bundled;
};

struct SectionContents {
  std::string name, bytes;
};

/// The file with `updated` sections in place of its own and with `added` ones.
Result<std::string> copyElf(const ElfPlan &plan, const std::vector<SectionContents> &updated,
                            const std::vector<SectionContents> &added) {
  auto binary = llvm::object::createBinary(llvm::MemoryBufferRef(plan.bytes, plan.name));
  if (!binary)
    return Error{plan.name + ": " + llvm::toString(binary.takeError())};
  llvm::objcopy::ConfigManager config;
  config.Common.InputFilename = config.Common.OutputFilename = plan.name;
  auto put = [](auto &list, const std::vector<SectionContents> &sections) {
    for (const SectionContents &each : sections)
      list.emplace_back(each.name, llvm::MemoryBuffer::getMemBuffer(each.bytes, each.name, false));
  };
  put(config.Common.UpdateSection, updated);
  put(config.Common.AddSection, added);
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
  std::string bundles(plan.oldBundles);
  for (const SectionPlan &section : plan.sections)
    for (const FatbinPlan &fatbin : section.fatbins) {
      auto merged = mergeFatbin(fatbin);
      if (!merged)
        return merged.error();
      bundle::Bundle description;
      if (!*merged) {
        // Nothing to run instead, but known: the hooks must not take it for code that was changed.
        description.kernels = combinedKernels({fatbin.jobs.begin(), fatbin.jobs.end()});
        if (!plan.relocatable && description.kernels.empty())
          continue;
        description.moduleHash = bundle::hashOf(fatbin.container.bytes);
        bundles += bundle::write(description);
        continue;
      }
      description.kernels = std::move((*merged)->kernels);
      if (plan.relocatable) {
        description.moduleHash = bundle::hashOf((*merged)->container);
        updated.push_back({section.section, std::move((*merged)->container)});
      } else {
        description.moduleHash = bundle::hashOf(fatbin.container.bytes);
        description.images.push_back(
            {bundle::ImageFormat::Fatbin, 0, std::move((*merged)->container)});
      }
      bundles += bundle::write(description);
    }
  if (bundles.size() == plan.oldBundles.size())
    return std::optional<std::string>();
  (plan.hasOldBundles ? updated : added).push_back({bundleSection, std::move(bundles)});
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
