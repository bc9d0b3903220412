#include "tally/ptx/syntax/entry_reader.h"

#include "parser_impl.h"

#include <utility>

namespace tally::ptx {

EntryReader::EntryReader(std::string source) : parser(std::make_unique<Parser>(std::move(source))) {
  parser->skipsEntries = true;
  parser->parseModule();
  parser->skipsEntries = false;
}

EntryReader::~EntryReader() = default;

bool EntryReader::isGood() const { return !parser->diagnostic; }

const Module &EntryReader::module() const { return parser->module; }

void EntryReader::forget() {
  if (Function *function = std::exchange(current, nullptr)) {
    function->body = {};
    function->registers.clear();
    function->registerCount = 0;
  }
  statements.clear();
}

bool EntryReader::read(std::size_t index) {
  if (allKept)
    return isGood();
  forget();
  current = parser->module.itemList[index].function.get();
  return parse(index);
}

bool EntryReader::readAll() {
  forget();
  allKept = true;
  for (std::size_t i = 0; i != module().items().size(); ++i)
    if (module().items()[i].isKernel() && !parse(i))
      return false;
  return true;
}

// Parses the header anew, since the body names its parameters. Any other name in a body is a
// register, or is looked up by name on demand.
bool EntryReader::parse(std::size_t index) {
  const Item &item = module().items()[index];
  Function &function = *item.function;
  parser->allocator = allKept ? parser->module.allocator.get() : &statements;
  parser->keepsBodies = allKept;
  parser->lexer.restartAt(function.header.data());
  parser->advance();
  Item again;
  if (!isGood() || !parser->parseItemText(again))
    return false;
  // Where parentheses and braces cross, the function does not end where the first parse ended it.
  if (parser->previousEnd != item.text.data() + item.text.size())
    return parser->fail("expected the end of the function", item.text);
  function.body = again.function->body;
  function.registers = std::move(again.function->registers);
  function.registerCount = again.function->registerCount;
  return true;
}

Module EntryReader::takeModule() {
  forget();
  return std::move(parser->module);
}

std::string EntryReader::takeSource() { return std::move(*parser->module.sourceText); }

} // namespace tally::ptx
