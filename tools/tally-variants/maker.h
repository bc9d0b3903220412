// Makes variants of PTX that programs have compiled while they ran, and files them under the image
// that the programs load (tally/bundle/variant_store.h).
#ifndef TALLY_TOOLS_TALLY_VARIANTS_MAKER_H
#define TALLY_TOOLS_TALLY_VARIANTS_MAKER_H

#include "tally/support/result.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tally::variants {

struct Making {
  std::filesystem::path store;  ///< folder of the store
  std::filesystem::path ptxopt; ///< tally-ptxopt
  /// Assemblers tried in turn until one assembles the text; after them tally-ptxopt's own choice.
  std::vector<std::filesystem::path> assemblers;
  /// Limit on the bytes of all bundles; the oldest ones are removed first.
  std::uint64_t mostBytes = std::uint64_t{1} << 30;
};

/// Makes the bundle of the image with that key, unless the store has it: runs tally-ptxopt on
/// `source`, PTX or a container with PTX, and waits. All processes of the store together use at
/// most a quarter of the machine's processors at a time. Returns whether the store has the bundle
/// now; tally-ptxopt's own messages give the reason if not.
Result<bool> makeVariants(const Making &making, std::string_view key, std::string_view source);

/// Makes the bundle of each `NAME.cubin` below `folder` that has a `NAME.ptx` beside it.
void makeVariantsOfCache(const Making &making, const std::filesystem::path &folder);

/// Returns the whole file; nullopt where it cannot be read.
std::optional<std::string> readFile(const std::filesystem::path &path);

/// Finds the folder of the store and the programs beside this one, from TALLY_VARIANTS, the place
/// of this program's file and PATH. An error where there is no store or no tally-ptxopt.
Result<Making> findPlaces();

} // namespace tally::variants

#endif
