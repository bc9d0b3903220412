// The text of a variant: pieces shared with the user's kernel, and text between them.
#ifndef TALLY_PTX_TRANSFORMS_EDITED_TEXT_H
#define TALLY_PTX_TRANSFORMS_EDITED_TEXT_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tally::ptx {

/// Borrowed pieces of a source, and own text between them. A variant is nearly all text of its
/// kernel: as strings, a kernel's variants would take several times the memory of the module.
class EditedText {
public:
  EditedText() = default;
  /// The whole text is own text.
  EditedText(std::string text) : own(std::move(text)) {}

  /// Appends a view into the source.
  void appendShared(std::string_view text);
  void append(std::string_view text) { own += text; }

  /// Calls `visit` with the pieces in order.
  template <class Visit> void forEachPiece(Visit &&visit) const {
    std::size_t at = 0;
    for (const Piece &piece : pieces) {
      visit(std::string_view(own).substr(at, piece.place - at));
      visit(std::string_view(piece.shared, piece.bytes));
      at = piece.place;
    }
    visit(std::string_view(own).substr(at));
  }
  std::string str() const;

private:
  struct Piece {
    const char *shared;
    std::uint32_t bytes;
    std::uint32_t place; ///< bytes of `own` in front of the piece
  };
  std::vector<Piece> pieces;
  std::string own;
};

} // namespace tally::ptx

#endif
