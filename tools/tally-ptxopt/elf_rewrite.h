// Rewrites the fatbins in relocatable objects, executables and shared libraries.
#ifndef TALLY_TOOLS_PTXOPT_ELF_REWRITE_H
#define TALLY_TOOLS_PTXOPT_ELF_REWRITE_H

#include "fatbin_merge.h"

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace tally::ptxopt {

/// The containers of one section.
struct SectionPlan {
  std::uint64_t index = 0; ///< index of the section
  /// Whether the merged container replaces the existing one; otherwise bundles carry it.
  bool inPlace = false;
  std::vector<FatbinPlan> fatbins;
};

/// The plan for one ELF file. Views point into the bytes that it was read from.
struct ElfPlan {
  std::string name; ///< for messages
  std::string_view bytes;
  bool relocatable = false;
  std::vector<SectionPlan> sections;
  /// The file's `.tally` sections: one, or several where `ld -r --unique` joined objects.
  std::vector<std::uint64_t> bundleSections;
  /// The file's bundles, and the bundles whose containers are left as they are.
  std::multiset<std::string> bundles, keptBundles;
  std::vector<std::string> remarks;
};

/// Reads and plans (planFatbin) a file's fatbins, except fatbins that have a bundle in the file's
/// `.tally` section. A file without fatbins is fine. An Error for damaged data, and for a `.tally`
/// section of an object that does not belong to its fatbin.
Result<ElfPlan> planElf(const Options &options, const std::string &name, std::string_view bytes,
                        std::vector<std::unique_ptr<Job>> &jobs);

/// Returns the file with the assembled code, and a bundle for each container even if no kernel has
/// a variant. In an object the fatbins are replaced, and bundles without images describe them. In
/// two cases the fatbins stay and bundles carry the merged ones: in a linked file, in which nothing
/// can be moved, and in an object that `ld -r` made of several, whose relocations point between the
/// fatbins. Nullopt when nothing changes.
Result<std::optional<std::string>> rewriteElf(const ElfPlan &plan);

/// Returns sentences about device code in the planned file that is left as it is.
std::vector<std::string> remarksOn(const ElfPlan &plan);

} // namespace tally::ptxopt

#endif
