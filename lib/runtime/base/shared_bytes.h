// Bytes that do not change any more.
#ifndef TALLY_LIB_RUNTIME_BASE_SHARED_BYTES_H
#define TALLY_LIB_RUNTIME_BASE_SHARED_BYTES_H

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>

namespace tally::runtime {

/// A copy of this object shares the bytes. Thread-safe as a std::shared_ptr is.
class SharedBytes {
public:
  SharedBytes() = default;
  explicit SharedBytes(std::span<const std::byte> copied)
      : SharedBytes(copied.size(), [&](std::byte *to) { std::ranges::copy(copied, to); }) {}
  /// Zeroes, to which `write` writes before another object shares them.
  template <class Write> SharedBytes(std::size_t size, const Write &write) : count(size) {
    auto made = std::make_shared<std::byte[]>(size);
    write(made.get());
    bytes = std::move(made);
  }

  const std::byte *data() const { return bytes.get(); }
  std::size_t size() const { return count; }
  operator std::span<const std::byte>() const { return {data(), count}; }

private:
  std::shared_ptr<const std::byte[]> bytes;
  std::size_t count = 0;
};

} // namespace tally::runtime

#endif
