// Makes variants of PTX that programs have compiled while they ran, and files them under the image
// that they load (tally/bundle/variant_store.h).
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
  std::filesystem::path store;  ///< its folder
  std::filesystem::path ptxopt; ///< tally-ptxopt
  /// Tried in turn, the first that assembles the text; behind them tally-ptxopt's own choice.
  std::vector<std::filesystem::path> assemblers;
  std::uint64_t mostBytes = std::uint64_t{1} << 30; ///< of all bundles; the oldest go first
};

/// The bundle of the image with that key, unless it is there: tally-ptxopt is run on `source`, PTX
/// or a container with such, and waited for. No more than a quarter of the machine's processors
/// make variants at a time, for all processes of the store. Returns whether a bundle is there now;
/// tally-ptxopt's own messages say why not.
Result<bool> makeVariants(const Making &making, std::string_view key, std::string_view source);

/// The same of each `NAME.cubin` below `folder` that has a `NAME.ptx` beside it.
void makeVariantsOfCache(const Making &making, const std::filesystem::path &folder);

/// The whole file; nothing where it cannot be read.
std::optional<std::string> readFile(const std::filesystem::path &path);

/// The folder of the store and the programs beside this one, from TALLY_VARIANTS, the place of this
/// program's file and PATH. An error where there is no store or no tally-ptxopt.
Result<Making> findPlaces();

} // namespace tally::variants

#endif
