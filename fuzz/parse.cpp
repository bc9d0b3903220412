// Any bytes give a module that prints back unchanged, or a diagnostic whose position lies in the
// text.
#include "fuzzer.h"

#include "tally/ptx/syntax/parser.h"
#include "tally/ptx/syntax/printer.h"
#include "tally/ptx/syntax/render.h"

#include <string>
#include <variant>

using namespace tally;

int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
  std::string text(fuzz::textOf(data, size));
  auto parsed = ptx::parse(text);
  if (const auto *module = std::get_if<ptx::Module>(&parsed)) {
    fuzz::require(ptx::print(*module) == text, "a module does not print back as it came");
    return 0;
  }
  const auto &diagnostic = std::get<ptx::Diagnostic>(parsed);
  fuzz::require(!diagnostic.message.empty(), "a diagnostic says nothing");
  fuzz::require(diagnostic.offset <= size && diagnostic.length <= size - diagnostic.offset,
                "a diagnostic lies outside the text");
  fuzz::require(!ptx::render(diagnostic, "input", text).empty(), "a diagnostic renders as nothing");
  return 0;
}
