// Where the dynamic loader finds libraries (ld.so(8)), as far as files can tell: the folders of the
// file that asks, LD_LIBRARY_PATH, the loader's cache, the default folders. What a program opens
// itself (dlopen) nobody can tell from its file.
#ifndef TALLY_LAUNCHER_LIBRARY_SEARCH_H
#define TALLY_LAUNCHER_LIBRARY_SEARCH_H

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace tally::launcher {

/// Libraries of the loader's cache (ldconfig(8)): paths by name, in the cache's order.
using LoaderCache = std::multimap<std::string, std::string, std::less<>>;

/// The contents of /etc/ld.so.cache, of the format that glibc writes since 2.2; without those of
/// another format.
LoaderCache readLoaderCache(std::string_view bytes);

class LibrarySearch {
public:
  /// The folders of LD_LIBRARY_PATH as it is written there.
  LibrarySearch(std::string_view libraryPath, LoaderCache cache);
  /// This process's.
  static LibrarySearch ofProcess();

  /// All files of this machine that the name could mean, the one first that the loader takes; a
  /// file has one place though several links lead to it. `folders` are those of the file that asks:
  /// `before` the folders of LD_LIBRARY_PATH, and behind them.
  std::vector<std::string> findAll(std::string_view name,
                                   const std::vector<std::string> &before = {},
                                   const std::vector<std::string> &behind = {}) const;

  /// The program or library itself and all that its file and those of its libraries name as needed,
  /// each once.
  std::vector<std::string> closureOf(const std::string &path) const;

private:
  std::vector<std::string> libraryPath;
  LoaderCache cache;
};

} // namespace tally::launcher

#endif
