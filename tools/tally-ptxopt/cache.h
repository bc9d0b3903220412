// Machine code that was assembled before, kept on disk by content.
#ifndef TALLY_TOOLS_PTXOPT_CACHE_H
#define TALLY_TOOLS_PTXOPT_CACHE_H

#include "assemble.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace tally::ptxopt {

/// A directory of results of ptxas. An entry's name is the hash of all that decides on it: the
/// text, the options, and which ptxas (its path, size and time of change, so that looking one up
/// runs nothing). An entry is written whole or not at all, and carries a hash of its own: a damaged
/// one is said, removed and taken for none. Only successes are kept. Thread-safe, also between
/// processes.
class AssemblyCache {
public:
  /// Makes the directory when it is missing. `maxBytes`: see prune(); 0 is no limit.
  static Result<std::shared_ptr<AssemblyCache>> open(const std::string &directory,
                                                     std::uint64_t maxBytes);

  /// Name of what `request` to `ptxas` gives.
  static std::string keyOf(const std::string &ptxas, const AssembleRequest &request);

  std::optional<Assembled> find(const std::string &key) const;
  /// Failing to write costs time later, nothing else: it is said once, as a warning.
  void store(const std::string &key, const Assembled &assembled);
  /// Removes what was used least recently until the directory holds at most `maxBytes`; nothing
  /// unless something was stored.
  void prune() const;

private:
  AssemblyCache(std::string directory, std::uint64_t maxBytes)
      : directory(std::move(directory)), maxBytes(maxBytes) {}
  std::string pathOf(const std::string &key) const;

  std::string directory;
  std::uint64_t maxBytes;
  std::atomic<bool> stored = false, warned = false;
};

/// $XDG_CACHE_HOME/tally, else ~/.cache/tally; empty when there is no home.
std::string defaultCacheDirectory();

} // namespace tally::ptxopt

#endif
