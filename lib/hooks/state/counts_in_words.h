// The text of counts by reason, for statistics.
#ifndef TALLY_LIB_HOOKS_STATE_COUNTS_IN_WORDS_H
#define TALLY_LIB_HOOKS_STATE_COUNTS_IN_WORDS_H

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace tally::hooks {

struct CountsInWords {
  std::uint64_t sum = 0;
  std::string text; ///< "NAME COUNT, NAME COUNT" for all counts that are not 0
};

/// `nameOf(i)`: the name of the i-th count. Counts before `first` are left out.
template <class NameOf>
CountsInWords inWords(std::span<const std::atomic<std::uint64_t>> counts, std::size_t first,
                      NameOf nameOf) {
  CountsInWords words;
  for (std::size_t i = first; i < counts.size(); ++i)
    if (std::uint64_t count = counts[i].load(); count != 0) {
      words.sum += count;
      words.text +=
          (words.text.empty() ? "" : ", ") + std::string(nameOf(i)) + " " + std::to_string(count);
    }
  return words;
}

} // namespace tally::hooks

#endif
