// A disk cache of assembled machine code, keyed by content.
#ifndef TALLY_TOOLS_PTXOPT_CACHE_H
#define TALLY_TOOLS_PTXOPT_CACHE_H

#include "assemble.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace tally::ptxopt {

/// A directory of results of ptxas. An entry's name is the hash of all inputs of the result: the
/// text, the options, and the ptxas (its path, size and time of change, so that a lookup runs no
/// program). An entry is written whole or not at all, and carries a hash of its own: the cache
/// reports and removes a damaged entry and treats it as missing. Only successes are kept.
/// Thread-safe, also between processes.
class AssemblyCache {
public:
  /// Creates a missing directory. `maxBytes`: see prune(); 0 is no limit.
  static Result<std::shared_ptr<AssemblyCache>> open(const std::string &directory,
                                                     std::uint64_t maxBytes);

  /// Returns the name of the entry for the result of `request` with `ptxas`.
  static std::string keyOf(const std::string &ptxas, const AssembleRequest &request);

  std::optional<Assembled> find(const std::string &key) const;
  /// Stores a result. A failed write only costs time later; the first failure prints a warning.
  void store(const std::string &key, const Assembled &assembled);
  /// Removes the least recently used entries until the directory holds at most `maxBytes`; does
  /// nothing unless an entry was stored.
  void prune() const;

private:
  AssemblyCache(std::string directory, std::uint64_t maxBytes)
      : directory(std::move(directory)), maxBytes(maxBytes) {}
  std::string pathOf(const std::string &key) const;

  std::string directory;
  std::uint64_t maxBytes;
  std::atomic<bool> stored = false, warned = false;
};

/// Returns $XDG_CACHE_HOME/tally, else ~/.cache/tally; empty without a home.
std::string defaultCacheDirectory();

} // namespace tally::ptxopt

#endif
