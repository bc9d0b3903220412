// Damages a valid input as broken files and attackers do. Seeded: the number of a failing case
// repeats it.
#ifndef TALLY_UNITTESTS_SUPPORT_MUTATE_H
#define TALLY_UNITTESTS_SUPPORT_MUTATE_H

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>

namespace tally::test {

/// Cuts, flips, overwrites, removes, repeats or inserts bytes: one to four damages by `seed`, the
/// same on every machine. `spice`: bytes that have a meaning in the format.
inline std::string mutate(std::string_view input, std::uint64_t seed,
                          std::string_view spice = std::string_view("\0\x7f\x80\xff", 4)) {
  std::mt19937_64 random(seed * 0x9e3779b97f4a7c15u + 1);
  const auto below = [&](std::size_t limit) {
    return limit == 0 ? 0 : static_cast<std::size_t>(random() % limit);
  };
  std::string text(input);
  for (std::size_t left = 1 + below(4); left != 0; --left) {
    const std::size_t at = below(text.size());
    const std::size_t length = std::min(text.size() - at, 1 + below(40));
    switch (below(7)) {
    case 0:
      text.resize(at);
      break;
    case 1:
      if (!text.empty())
        text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
      break;
    case 2:
      if (!text.empty())
        text[at] = static_cast<char>(below(256));
      break;
    case 3:
      text.erase(at, length);
      break;
    case 4:
      text.insert(at, text.substr(below(text.size()), length));
      break;
    case 5:
      text.insert(at, 1, spice[below(spice.size())]);
      break;
    default:
      if (!text.empty())
        text[at] = spice[below(spice.size())];
      break;
    }
  }
  return text;
}

} // namespace tally::test

#endif
