// The text of a variant: what it shares with the user's kernel, and what stands between.
#ifndef TALLY_PTX_TRANSFORMS_EDITED_TEXT_H
#define TALLY_PTX_TRANSFORMS_EDITED_TEXT_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tally::ptx {

/// Pieces of a source, which it borrows, and text of its own between them. Of a kernel's variants
/// nearly all is the kernel: as strings they would take several times the memory of the module.
class EditedText {
public:
  EditedText() = default;
  /// All of it its own.
  EditedText(std::string text) : own(std::move(text)) {}

  /// A view into the source.
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
    std::uint32_t place; ///< in `own`: what stands before
  };
  std::vector<Piece> pieces;
  std::string own;
};

} // namespace tally::ptx

#endif
