#include "tally/ptx/ir/module.h"

#include <algorithm>
#include <cassert>

namespace tally::ptx {

std::uint32_t Function::parameterBytes() const {
  if (!isEntry || parameters.empty())
    return 0;
  const Variable &last = parameters.back();
  return last.paramOffset + static_cast<std::uint32_t>(last.sizeInBytes);
}

const RegisterDeclaration &Function::declarationOf(RegisterId reg) const {
  assert(reg < registerCount && "a register of another function");
  const auto after = std::upper_bound(
      registers.begin(), registers.end(), reg,
      [](RegisterId id, const RegisterDeclaration &each) { return id < each.first; });
  assert(after != registers.begin());
  return *std::prev(after);
}

const HeaderDirective *Function::directive(std::string_view directiveName) const {
  for (const HeaderDirective &each : directives)
    if (each.name == directiveName)
      return &each;
  return nullptr;
}

const Function *Module::function(std::string_view functionName) const {
  const auto found = functionsByName.find(functionName);
  return found == functionsByName.end() ? nullptr : found->second;
}

std::uint32_t Module::lineOf(std::string_view view) const {
  assert(view.data() >= source().data() && view.data() <= source().data() + source().size());
  const auto offset = static_cast<std::size_t>(view.data() - source().data());
  const auto after = std::upper_bound(lineStarts.begin(), lineStarts.end(), offset);
  return static_cast<std::uint32_t>(after - lineStarts.begin());
}

} // namespace tally::ptx
