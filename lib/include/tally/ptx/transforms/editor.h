// Edits over the source text of one function.
#ifndef TALLY_PTX_TRANSFORMS_EDITOR_H
#define TALLY_PTX_TRANSFORMS_EDITOR_H

#include "tally/ptx/ir/module.h"
#include "tally/ptx/transforms/edited_text.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tally::ptx {

/// Collects edits of a function with a body and writes the edited text; the function itself does
/// not change. Text that no edit touches stays the same byte for byte. Edits must not overlap;
/// insertions at one place keep their order.
class FunctionEditor {
public:
  explicit FunctionEditor(const Function &function);

  /// Replaces the function's name in its header.
  void rename(std::string_view name);
  /// Appends `declaration` (without a comma) to the parameter list.
  void appendParameter(std::string_view declaration);
  /// Inserts after the declarations that open the body: before its first label, instruction, scope
  /// or .loc.
  void insertAtBodyStart(std::string_view text);
  /// Inserts before statement `statement` of the body, and before a .pragma that applies only to it
  /// ("used_bytes_mask" must stay with its load). A pragma of the label in front stays with the
  /// label.
  void insertBefore(std::uint32_t statement, std::string_view text);
  /// Inserts right after statement `statement` of the body.
  void insertAfter(std::uint32_t statement, std::string_view text);
  /// Inserts before the body's closing brace, behind earlier insertions there.
  void insertAtBodyEnd(std::string_view text);
  /// Replaces `view`, a view into the function's text.
  void replace(std::string_view view, std::string_view text);

  EditedText apply() const;

private:
  struct Edit {
    std::size_t begin, end;
    std::string text;
    bool atBodyEnd = false;
  };
  std::size_t offsetOf(std::string_view view) const;
  void insertAt(std::size_t offset, std::string_view text);

  const Function &function;
  std::string_view source; ///< header and body
  std::vector<Edit> edits;
};

} // namespace tally::ptx

#endif
