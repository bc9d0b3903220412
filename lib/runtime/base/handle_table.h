// A table of objects that programs know by handles. Finding an entry takes no lock. The handle of a
// removed entry stays invalid although its place is used again.
#ifndef TALLY_LIB_RUNTIME_BASE_HANDLE_TABLE_H
#define TALLY_LIB_RUNTIME_BASE_HANDLE_TABLE_H

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tally::runtime {

/// A handle holds the number of a place, from 1, in its lower 32 bits, and in its upper 32 bits how
/// many entries had the place before. 0 is no handle.
///
/// An entry ends in two steps, so that the caller can wait between them: close() ends the handle,
/// erase() takes the entry out of entries() and frees the place. Thread-safe, except that no thread
/// may use a handle while another thread closes it.
template <class T> class HandleTable {
public:
  HandleTable() = default;
  HandleTable(const HandleTable &) = delete;
  HandleTable &operator=(const HandleTable &) = delete;
  ~HandleTable() {
    for (auto &chunk : chunks)
      delete[] chunk.load();
  }

  /// Adds an entry and returns its handle; nothing when the table is full (1 Mi entries at a time).
  std::optional<std::uint64_t> add(std::shared_ptr<T> entry) {
    std::unique_lock lock(mutex);
    std::optional<std::size_t> place = takePlace();
    if (!place)
      return std::nullopt;
    Slot &slot = at(*place);
    slot.entry = std::move(entry);
    std::uint64_t handle = std::uint64_t{slot.generation} << 32 | (*place + 1);
    slot.handle.store(handle, std::memory_order_release);
    return handle;
  }

  T *find(std::uint64_t handle) const {
    const Slot *slot = slotOf(handle);
    return slot && slot->handle.load(std::memory_order_acquire) == handle ? slot->entry.get()
                                                                          : nullptr;
  }

  /// Ends the handle and returns its entry; nullptr where the handle is invalid. Only one of
  /// several threads gets the entry.
  std::shared_ptr<T> close(std::uint64_t handle) {
    std::unique_lock lock(mutex);
    if (!find(handle))
      return nullptr;
    Slot &slot = at(placeOf(handle));
    slot.handle.store(0, std::memory_order_release);
    return slot.entry;
  }

  /// Removes the entry of a handle after close() returned it. Other owners may keep the entry
  /// alive.
  void erase(std::uint64_t handle) {
    std::shared_ptr<T> gone; // its destructor may take long
    std::unique_lock lock(mutex);
    Slot &slot = at(placeOf(handle));
    gone = std::move(slot.entry);
    // A place whose handles are used up is not used again.
    if (++slot.generation == 0)
      return;
    slot.nextFree = firstFree;
    firstFree = placeOf(handle) + 1;
    lock.unlock();
  }

  /// All entries that were not erased, in the order of their places.
  std::vector<std::shared_ptr<T>> entries() const {
    std::unique_lock lock(mutex);
    std::vector<std::shared_ptr<T>> found;
    for (std::size_t place = 0; place < count.load(); ++place)
      if (const std::shared_ptr<T> &entry = at(place).entry)
        found.push_back(entry);
    return found;
  }

  /// Text of a handle for errors; tells whether the handle's entry was destroyed.
  std::string describe(std::uint64_t handle) const {
    std::unique_lock lock(mutex);
    const Slot *slot = slotOf(handle);
    if (!slot || handle >> 32 > slot->generation)
      return std::to_string(handle);
    std::string number = std::to_string(placeOf(handle) + 1);
    return slot->handle.load() == handle ? number : number + ", which was destroyed";
  }

private:
  struct Slot {
    std::atomic<std::uint64_t> handle{0}; ///< handle of the entry; 0: find() finds no entry
    std::shared_ptr<T> entry;             ///< changes only while `handle` is 0, under the mutex
    std::uint32_t generation = 0;         ///< guarded by the mutex
    std::size_t nextFree = 0;             ///< guarded by the mutex: next free place + 1; 0: none
  };
  static constexpr std::size_t chunkSize = 256, capacity = std::size_t{1} << 20;

  static std::size_t placeOf(std::uint64_t handle) { return (handle & 0xffffffff) - 1; }
  Slot &at(std::size_t place) const { return chunks[place / chunkSize].load()[place % chunkSize]; }
  const Slot *slotOf(std::uint64_t handle) const {
    // The number 0 wraps to the largest place and is out of range too.
    std::size_t place = placeOf(handle);
    bool isUsed = place < capacity && place < count.load(std::memory_order_acquire);
    return isUsed ? &at(place) : nullptr;
  }
  /// Call under the mutex.
  std::optional<std::size_t> takePlace() {
    if (firstFree != 0) {
      std::size_t place = firstFree - 1;
      firstFree = at(place).nextFree;
      return place;
    }
    std::size_t place = count.load();
    if (place == capacity)
      return std::nullopt;
    if (place % chunkSize == 0)
      chunks[place / chunkSize].store(new Slot[chunkSize]);
    count.store(place + 1, std::memory_order_release);
    return place;
  }

  mutable std::mutex mutex;
  std::size_t firstFree = 0; ///< guarded by the mutex: the place + 1; 0: none
  std::atomic<std::size_t> count{0};
  std::array<std::atomic<Slot *>, capacity / chunkSize> chunks{};
};

} // namespace tally::runtime

#endif
