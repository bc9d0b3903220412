// The `.tally` sections of the process's files: read once per file, looked up by the hash of a
// fatbin container.
#ifndef TALLY_LIB_HOOKS_STATE_BUNDLE_FILES_H
#define TALLY_LIB_HOOKS_STATE_BUNDLE_FILES_H

#include "tally/bundle/bundle.h"

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace tally::hooks {

/// Thread-safe. The bundles that it returns live as long as the process.
class BundleFiles {
public:
  enum class Outcome : std::uint8_t {
    Found,
    NoSection, ///< the file was not rewritten
    NoMatch,   ///< the file has bundles, but none for this container
    Damaged    ///< the file has a section that cannot be read
  };
  struct Lookup {
    Outcome outcome = Outcome::NoSection;
    const bundle::Bundle *bundle = nullptr; ///< set for Found
    std::string detail;                     ///< the file; for Damaged also the error
  };

  /// The bundle of a container in memory. `address` lies in the file that owns the container.
  Lookup find(const void *address, const void *container);

private:
  struct File {
    bool hasSection = false;
    std::string path, error;
    std::vector<bundle::Bundle> bundles;
  };
  const File &fileOf(const void *address);

  std::mutex mutex;
  std::unordered_map<std::string, std::unique_ptr<File>> files;
};

} // namespace tally::hooks

#endif
