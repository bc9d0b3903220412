#include "tally/ptx/transforms/edited_text.h"

namespace tally::ptx {

void EditedText::appendShared(std::string_view text) {
  if (!text.empty())
    pieces.push_back({text.data(), static_cast<std::uint32_t>(text.size()),
                      static_cast<std::uint32_t>(own.size())});
}

std::string EditedText::str() const {
  std::size_t size = 0;
  forEachPiece([&](std::string_view piece) { size += piece.size(); });
  std::string text;
  text.reserve(size);
  forEachPiece([&](std::string_view piece) { text += piece; });
  return text;
}

} // namespace tally::ptx
