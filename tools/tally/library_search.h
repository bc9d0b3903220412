// Finds libraries where the dynamic loader does (ld.so(8)), as far as files tell: the folders of
// the requesting file, LD_LIBRARY_PATH, the loader's cache, the default folders. A program's file
// does not tell which libraries the program opens itself (dlopen).
#ifndef TALLY_LAUNCHER_LIBRARY_SEARCH_H
#define TALLY_LAUNCHER_LIBRARY_SEARCH_H

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace tally::launcher {

/// Libraries of the loader's cache (ldconfig(8)): paths by name, in the cache's order.
using LoaderCache = std::multimap<std::string, std::string, std::less<>>;

/// Reads the contents of /etc/ld.so.cache in the format that glibc has written since 2.2; skips
/// entries of another format.
LoaderCache readLoaderCache(std::string_view bytes);

class LibrarySearch {
public:
  /// `libraryPath`: the folders in the form of LD_LIBRARY_PATH.
  LibrarySearch(std::string_view libraryPath, LoaderCache cache);
  /// Returns the search of this process.
  static LibrarySearch ofProcess();

  /// Returns all files of this machine that the name could mean, the loader's choice first; a file
  /// is listed once even if several links lead to it. `before` and `behind` are folders of the
  /// requesting file that the loader searches before and after LD_LIBRARY_PATH.
  std::vector<std::string> findAll(std::string_view name,
                                   const std::vector<std::string> &before = {},
                                   const std::vector<std::string> &behind = {}) const;

  /// Returns the program or library itself and all libraries that its file and their files name as
  /// needed, each once.
  std::vector<std::string> closureOf(const std::string &path) const;

private:
  std::vector<std::string> libraryPath;
  LoaderCache cache;
};

} // namespace tally::launcher

#endif
