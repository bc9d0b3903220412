// The profiler's results, kept on disk: one file per device and driver in $XDG_CACHE_HOME/tally.
// docs/design/kinds.md describes the contents, bundle/profile.h the format.
#ifndef TALLY_LIB_RUNTIME_PLANNING_PROFILE_STORE_H
#define TALLY_LIB_RUNTIME_PLANNING_PROFILE_STORE_H

#include "tally/bundle/profile.h"
#include "tally/runtime/control_word.h"
#include "tally/runtime/device.h"

#include <mutex>
#include <optional>
#include <string>

namespace tally::runtime {

/// Thread-safe.
class ProfileStore {
public:
  using Key = bundle::ProfileKey; ///< its shape is a LoadedKernel::ShapeKey
  using Found = bundle::ProfileFound;

  /// The file of a device in the default folder. Empty where there is no folder ($XDG_CACHE_HOME
  /// and $HOME are both unset), or where the device has no driver, so that its measurements are of
  /// no use later.
  static std::string defaultPath(const DeviceInfo &device);

  /// Reads the file. The store is empty if there is no file; it is also empty if the file is
  /// damaged, of another version or of another device, and then warning() has a text.
  ProfileStore(std::string path, const DeviceInfo &device);
  const std::string &warning() const { return said; }

  std::optional<Found> find(const Key &key) const;
  void put(const Key &key, const Found &found);
  /// Writes the entries put since the last save() to the file, together with entries that other
  /// processes have written meanwhile; writes all or nothing. Does nothing without new entries.
  Result<void> save();

private:
  using Entries = bundle::ProfileEntries;
  /// Reads the entries of a file's text; the error names the fault in the text.
  Result<Entries> parse(const std::string &text) const;

  const std::string path;
  std::string device; ///< the device's name in the file
  std::string said;
  mutable std::mutex mutex;
  Entries entries, added;
};

} // namespace tally::runtime

#endif
