// A GPU's UUID as nvidia-smi shows it after "GPU-".
#ifndef TALLY_LIB_RUNTIME_BASE_UUID_TEXT_H
#define TALLY_LIB_RUNTIME_BASE_UUID_TEXT_H

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace tally::runtime {

/// Returns 32 hexadecimal digits in five groups; `bytes` are those of a CUuuid.
inline std::string uuidText(std::span<const char, 16> bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    auto byte = static_cast<unsigned char>(bytes[i]);
    if (i == 4 || i == 6 || i == 8 || i == 10)
      text += '-';
    text += digits[byte >> 4];
    text += digits[byte & 15];
  }
  return text;
}

} // namespace tally::runtime

#endif
