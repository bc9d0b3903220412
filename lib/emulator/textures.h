// The textures and surfaces of a machine, by handle.
#ifndef TALLY_LIB_EMULATOR_TEXTURES_H
#define TALLY_LIB_EMULATOR_TEXTURES_H

#include "tally/emulator/texture.h"

#include <cstdint>
#include <memory>
#include <shared_mutex>
#include <unordered_map>

namespace tally::emulator {

/// Thread-safe.
class TextureTable {
public:
  std::uint64_t add(const Texture &texture) {
    std::unique_lock lock(mutex);
    textures.emplace(++last, std::make_shared<const Texture>(texture));
    return last;
  }
  bool remove(std::uint64_t handle) {
    std::unique_lock lock(mutex);
    return textures.erase(handle) != 0;
  }
  /// Returns null where there is no such handle.
  std::shared_ptr<const Texture> find(std::uint64_t handle) const {
    std::shared_lock lock(mutex);
    auto found = textures.find(handle);
    return found == textures.end() ? nullptr : found->second;
  }

private:
  mutable std::shared_mutex mutex;
  std::unordered_map<std::uint64_t, std::shared_ptr<const Texture>> textures;
  std::uint64_t last = 0;
};

} // namespace tally::emulator

#endif
