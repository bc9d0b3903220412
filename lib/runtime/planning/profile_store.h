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
  /// What this process's policy learnt in an earlier run of the same command line; empty: nothing.
  std::string policyMemory() const;
  /// Keeps what the policy has learnt; not the empty text.
  void putPolicyMemory(const std::string &text);
  /// Writes the entries put since the last save() to the file, together with entries that other
  /// processes have written meanwhile; writes all or nothing. Does nothing without new entries.
  Result<void> save();

private:
  /// Reads a file's text; the error names the fault in the text.
  Result<bundle::Profile> parse(const std::string &text) const;

  const std::string path;
  const std::string device;    ///< the device's name in the file
  const std::uint64_t program; ///< the hash of this process's command line
  std::string said;
  mutable std::mutex mutex;
  bundle::Profile known, added; ///< of `added` all is in `known` as well
};

} // namespace tally::runtime

#endif
