#include "ptx_text.h"

#include "tally/ptx/syntax/parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

namespace tally::verify {

namespace {

/// Returns the element type that shows a PTX type's values; nullopt for opaque types (textures,
/// samplers).
std::optional<ElementType> elementTypeOf(std::string_view ptxType) {
  static constexpr std::pair<std::string_view, ElementType> types[] = {
      {"b8", ElementType::U8},   {"u8", ElementType::U8},   {"s8", ElementType::I8},
      {"b16", ElementType::U16}, {"u16", ElementType::U16}, {"s16", ElementType::I16},
      {"f16", ElementType::U16}, {"b32", ElementType::U32}, {"u32", ElementType::U32},
      {"s32", ElementType::I32}, {"f32", ElementType::F32}, {"b64", ElementType::U64},
      {"u64", ElementType::U64}, {"s64", ElementType::I64}, {"f64", ElementType::F64}};
  const auto *found =
      std::ranges::find(types, ptxType, &std::pair<std::string_view, ElementType>::first);
  return found == std::end(types) ? std::nullopt : std::optional(found->second);
}

Error located(std::string_view text, const ptx::Diagnostic &diagnostic, std::string_view where) {
  std::string_view before = text.substr(0, diagnostic.offset);
  auto line = 1 + std::ranges::count(before, '\n');
  std::size_t lineStart = before.rfind('\n') + 1; // npos + 1 is 0
  return Error{fmt::format("{}:{}:{}: {}", where, line, diagnostic.offset - lineStart + 1,
                           diagnostic.message)};
}

} // namespace

Result<std::string_view> ptxOf(const bundle::Bundle &bundle) {
  for (const bundle::Image &image : bundle.images)
    if (image.format == bundle::ImageFormat::Ptx)
      return std::string_view(image.bytes);
  return Error{"the bundle holds no PTX, which the emulator needs"};
}

Result<ptx::Module> parsePtx(std::string text, std::string_view where) {
  std::string copy = text; // a failed parse does not give the source back
  auto parsed = ptx::parse(std::move(text));
  if (auto *diagnostic = std::get_if<ptx::Diagnostic>(&parsed))
    return located(copy, *diagnostic, where);
  return std::move(std::get<ptx::Module>(parsed));
}

std::vector<ModuleVariable> moduleVariables(const ptx::Module &module) {
  std::vector<ModuleVariable> variables;
  for (const ptx::Item &item : module.items())
    for (const ptx::Variable &variable : item.variables) {
      auto type = elementTypeOf(variable.type);
      if (type && variable.space == ptx::StateSpace::Global && !variable.isExtern &&
          variable.sizeInBytes > 0)
        variables.push_back({std::string(variable.name), *type, variable.sizeInBytes});
    }
  return variables;
}

std::string withVariableReader(std::string_view text) {
  std::string result(text);
  auto module = parsePtx(result, "");
  if (!module)
    return result;
  std::vector<ModuleVariable> variables = moduleVariables(*module);
  if (variables.empty())
    return result;
  auto out = std::back_inserter(result);
  fmt::format_to(out, "\n.visible .entry {0}(.param .u64 {0}_out)\n{{\n", variableReader);
  fmt::format_to(out, "\t.reg .b64 %rd<3>;\n\tld.param.u64 %rd1, [{}_out];\n", variableReader);
  fmt::format_to(out, "\tcvta.to.global.u64 %rd1, %rd1;\n");
  for (std::size_t i = 0; i < variables.size(); ++i)
    fmt::format_to(out, "\tmov.u64 %rd2, {};\n\tst.global.u64 [%rd1+{}], %rd2;\n",
                   variables[i].name, 8 * i);
  result += "\tret;\n}\n";
  return result;
}

} // namespace tally::verify
