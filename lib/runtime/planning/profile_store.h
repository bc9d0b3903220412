// What the profiler found, kept on disk: one file per device and driver, in
// $XDG_CACHE_HOME/tally (docs/design/kinds.md says what it holds, bundle/profile.h how).
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
  using Key = bundle::ProfileKey; ///< its shape: LoadedKernel::ShapeKey
  using Found = bundle::ProfileFound;

  /// The file of a device in the default folder; empty where there is none ($XDG_CACHE_HOME and
  /// $HOME are both unset) or the device has no driver, so that what it measures is of no use
  /// later.
  static std::string defaultPath(const DeviceInfo &device);

  /// Reads the file. Without one the store is empty; with one that is damaged, of another version
  /// or of another device it is empty too, and warning() says so.
  ProfileStore(std::string path, const DeviceInfo &device);
  const std::string &warning() const { return said; }

  std::optional<Found> find(const Key &key) const;
  void put(const Key &key, const Found &found);
  /// Writes what was put since to the file, whole or not at all, with what others have put there
  /// meanwhile. Does nothing where nothing was put.
  Result<void> save();

private:
  using Entries = bundle::ProfileEntries;
  /// What is wrong with the text, if anything is.
  Result<Entries> parse(const std::string &text) const;

  const std::string path;
  std::string device; ///< as the file names it
  std::string said;
  mutable std::mutex mutex;
  Entries entries, added;
};

} // namespace tally::runtime

#endif
