// A table that only grows: entries keep their address, and reading an entry takes no lock.
#ifndef TALLY_LIB_RUNTIME_BASE_STABLE_TABLE_H
#define TALLY_LIB_RUNTIME_BASE_STABLE_TABLE_H

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

namespace tally::runtime {

/// Numbers start at 1, so that a handle of 0 has no entry. Thread-safe.
template <class T> class StableTable {
public:
  StableTable() = default;
  StableTable(const StableTable &) = delete;
  StableTable &operator=(const StableTable &) = delete;
  ~StableTable() {
    for (std::size_t i = 0; i < count; ++i)
      delete at(i);
    for (auto &chunk : chunks)
      delete[] chunk.load();
  }

  /// Adds an entry and returns its number; nothing when the table is full (1 Mi entries).
  std::optional<std::uint64_t> add(std::unique_ptr<T> entry) {
    std::unique_lock lock(mutex);
    std::size_t index = count.load();
    if (index == chunks.size() * chunkSize)
      return std::nullopt;
    std::atomic<T **> &chunk = chunks[index / chunkSize];
    if (!chunk.load())
      chunk.store(new T *[chunkSize]);
    chunk.load()[index % chunkSize] = entry.release();
    count.store(index + 1, std::memory_order_release);
    return index + 1;
  }

  T *find(std::uint64_t number) const {
    // 0 wraps to the largest number and is out of range too.
    return number - 1 < count.load(std::memory_order_acquire) ? at(number - 1) : nullptr;
  }
  std::size_t size() const { return count.load(std::memory_order_acquire); }

private:
  static constexpr std::size_t chunkSize = 1024;
  T *at(std::size_t index) const { return chunks[index / chunkSize].load()[index % chunkSize]; }

  std::mutex mutex;
  std::atomic<std::size_t> count{0};
  std::array<std::atomic<T **>, 1024> chunks{};
};

} // namespace tally::runtime

#endif
