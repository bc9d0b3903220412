#include "requests/high_stream.h"

namespace tally::runtime {

namespace {

constexpr std::uint64_t callsMask = HighStream::oneMade - HighStream::oneCall;

} // namespace

/// Reads the ended launches first and the begun ones last, so that launches in between count as
/// being made, never as made.
HighStream::Calls HighStream::calls() const {
  std::uint64_t ended = ownMade.load(std::memory_order_acquire);
  std::uint64_t now = word.load();
  std::uint64_t own = ownBegun.load() - ended;
  return {now, (now & callsMask) != 0 || own != 0, now / oneMade - own};
}

} // namespace tally::runtime
