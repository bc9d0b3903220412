#include "tally/ptx/syntax/printer.h"

namespace tally::ptx {

std::string print(const Module &module) {
  std::string text;
  text.reserve(module.source().size());
  for (const Item &item : module.items()) {
    text += item.leading;
    if (!item.function) {
      text += item.text;
      continue;
    }
    text += item.function->header;
    for (const Statement &statement : item.function->body) {
      text += statement.leading;
      text += statement.text;
    }
  }
  text += module.trailing();
  return text;
}

} // namespace tally::ptx
