#include "tally/ptx/syntax/printer.h"

namespace tally::ptx {

namespace {

template <class Sink> void printTo(const Module &module, Sink &&sink) {
  for (const Item &item : module.items()) {
    sink(item.leading);
    if (!item.function || item.function->body.empty()) {
      sink(item.text);
      continue;
    }
    sink(item.function->header);
    for (const Statement &statement : item.function->body) {
      sink(statement.leading);
      sink(statement.text);
    }
  }
  sink(module.trailing());
}

} // namespace

std::string print(const Module &module) {
  std::string text;
  text.reserve(module.source().size());
  printTo(module, [&](std::string_view piece) { text += piece; });
  return text;
}

void print(const Module &module, const std::function<void(std::string_view)> &sink) {
  printTo(module, sink);
}

} // namespace tally::ptx
