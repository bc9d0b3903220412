// Relocatable objects, executables and shared libraries: the fatbins in them, rewritten.
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
  std::uint64_t index = 0; ///< of the section
  /// Whether the merged container takes the place of the one that is there. Else bundles carry it.
  bool inPlace = false;
  std::vector<FatbinPlan> fatbins;
};

/// What becomes of one ELF file. Views point into the bytes that it was read from.
struct ElfPlan {
  std::string name; ///< for messages
  std::string_view bytes;
  bool relocatable = false;
  std::vector<SectionPlan> sections;
  /// Its `.tally` sections: one, or several where `ld -r --unique` joined objects.
  std::vector<std::uint64_t> bundleSections;
  /// Its bundles, and those of them whose containers are left as they are.
  std::multiset<std::string> bundles, keptBundles;
  std::vector<std::string> remarks;
};

/// Reads a file's fatbins, but for those that a bundle in its `.tally` section is of, and plans
/// them (planFatbin). A file without fatbins is fine. An Error for what is damaged, and for a
/// `.tally` section of an object that does not belong to its fatbin.
Result<ElfPlan> planElf(const Options &options, const std::string &name, std::string_view bytes,
                        std::vector<std::unique_ptr<Job>> &jobs);

/// The file with what was assembled, and a bundle for each container, also where no kernel has a
/// variant. In an object the fatbins are replaced, and bundles without images describe them. A
/// linked file's are left as they are, since nothing in it can be moved, and so are those of an
/// object that `ld -r` made of several, whose relocations point between them: bundles carry the
/// merged ones. Nullopt when nothing changes.
Result<std::optional<std::string>> rewriteElf(const ElfPlan &plan);

/// Of all that was planned: sentences about device code that is left as it is.
std::vector<std::string> remarksOn(const ElfPlan &plan);

} // namespace tally::ptxopt

#endif
