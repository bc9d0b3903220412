#include "tally/ptx/transforms/editor.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace tally::ptx {

FunctionEditor::FunctionEditor(const Function &function) : function(function) {
  assert(function.hasBody && "a declaration has nothing to edit");
  const char *begin = function.header.data();
  std::string_view last = function.body.back().text;
  source = {begin, static_cast<std::size_t>(last.data() + last.size() - begin)};
}

std::size_t FunctionEditor::offsetOf(std::string_view view) const {
  assert(view.data() >= source.data() &&
         view.data() + view.size() <= source.data() + source.size() &&
         "the text is not this function's");
  return static_cast<std::size_t>(view.data() - source.data());
}

void FunctionEditor::insertAt(std::size_t offset, std::string_view text) {
  edits.push_back({offset, offset, std::string(text)});
}

void FunctionEditor::rename(std::string_view name) { replace(function.name, name); }

void FunctionEditor::appendParameter(std::string_view declaration) {
  std::string_view list = function.parameterList;
  if (list.empty()) {
    insertAt(offsetOf(function.name) + function.name.size(),
             "(\n\t" + std::string(declaration) + "\n)");
    return;
  }
  assert(list.back() == ')' && "a parameter list ends with its parenthesis");
  std::string text = function.parameters.empty() ? "\n\t" : ",\n\t";
  text += declaration;
  text += '\n';
  insertAt(offsetOf(list) + list.size() - 1, text);
}

void FunctionEditor::insertAtBodyStart(std::string_view text) {
  std::uint32_t first = 1;
  while (first + 1 < function.body.size()) {
    StatementKind kind = function.body[first].kind;
    if (kind == StatementKind::Instruction || kind == StatementKind::Label ||
        kind == StatementKind::ScopeBegin || kind == StatementKind::Location)
      break;
    ++first;
  }
  insertBefore(first, text);
}

void FunctionEditor::insertBefore(std::uint32_t statement, std::string_view text) {
  auto speaksOfNext = [&](const Statement &each) {
    return each.kind == StatementKind::Pragma &&
           each.text.find("used_bytes_mask") != std::string_view::npos;
  };
  auto isLocation = [](const Statement &each) { return each.kind == StatementKind::Location; };
  std::uint32_t at = statement;
  for (std::uint32_t i = statement; i > 1; --i) {
    const Statement &before = function.body[i - 1];
    if (speaksOfNext(before))
      at = i - 1;
    else if (!isLocation(before))
      break;
  }
  insertAt(offsetOf(function.body[at].text), text);
}

void FunctionEditor::insertAfter(std::uint32_t statement, std::string_view text) {
  std::string_view view = function.body[statement].text;
  insertAt(offsetOf(view) + view.size(), text);
}

void FunctionEditor::insertAtBodyEnd(std::string_view text) {
  insertAt(offsetOf(function.body.back().text), text);
  edits.back().atBodyEnd = true;
}

void FunctionEditor::replace(std::string_view view, std::string_view text) {
  std::size_t begin = offsetOf(view);
  edits.push_back({begin, begin + view.size(), std::string(text)});
}

EditedText FunctionEditor::apply() const {
  std::vector<const Edit *> order;
  for (const Edit &edit : edits)
    order.push_back(&edit);
  std::stable_sort(order.begin(), order.end(), [](const Edit *a, const Edit *b) {
    return std::pair(a->begin, a->atBodyEnd) < std::pair(b->begin, b->atBodyEnd);
  });
  EditedText result;
  std::size_t at = 0;
  for (const Edit *edit : order) {
    assert(edit->begin >= at && "edits overlap");
    result.appendShared(source.substr(at, edit->begin - at));
    result.append(edit->text);
    at = edit->end;
  }
  result.appendShared(source.substr(at));
  return result;
}

} // namespace tally::ptx
