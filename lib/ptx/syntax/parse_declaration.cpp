// Declarations of variables, parameters and registers, and initialisers (PTX ISA 5).
#include "parser_impl.h"

#include <algorithm>
#include <array>
#include <bit>

namespace tally::ptx {

namespace {

/// A function with more registers is not a program. The limit bounds the allocations of later
/// stages.
constexpr std::uint64_t maxRegisters = std::uint64_t{1} << 22;
constexpr std::uint64_t maxAlignment = std::uint64_t{1} << 31;
constexpr std::uint64_t maxVariableBytes = std::uint64_t{1} << 62;
constexpr std::uint64_t maxParameterBytes = std::uint64_t{1} << 31;

struct TypeSize {
  std::string_view name;
  std::uint32_t bytes;
};

/// PTX ISA 5.2. Predicates live in registers only; an opaque reference takes a 64-bit slot.
constexpr std::array<TypeSize, 26> typeSizes = {{
    {"b8", 1},     {"b16", 2},  {"b32", 4},    {"b64", 8},     {"b128", 16},      {"u8", 1},
    {"u16", 2},    {"u32", 4},  {"u64", 8},    {"s8", 1},      {"s16", 2},        {"s32", 4},
    {"s64", 8},    {"f16", 2},  {"bf16", 2},   {"f32", 4},     {"f64", 8},        {"f16x2", 4},
    {"bf16x2", 4}, {"pred", 0}, {"texref", 8}, {"surfref", 8}, {"samplerref", 8}, {"u16x2", 4},
    {"s16x2", 4},  {"tf32", 4},
}};

const TypeSize *findType(std::string_view name) {
  for (const TypeSize &type : typeSizes)
    if (type.name == name)
      return &type;
  return nullptr;
}

std::optional<StateSpace> spaceNamed(std::string_view name) {
  if (name == "param")
    return StateSpace::Param;
  if (name == "reg")
    return StateSpace::Register;
  if (name == "shared")
    return StateSpace::Shared;
  if (name == "global")
    return StateSpace::Global;
  if (name == "local")
    return StateSpace::Local;
  if (name == "const")
    return StateSpace::Const;
  if (name == "tex")
    return StateSpace::Texture;
  return std::nullopt;
}

/// Returns the product, or nothing when it is above `limit`.
std::optional<std::uint64_t> multiply(std::uint64_t a, std::uint64_t b, std::uint64_t limit) {
  std::uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product) || product > limit)
    return std::nullopt;
  return product;
}

} // namespace

bool Parser::parseAlignment(std::uint32_t &alignment) {
  advance(); // .align
  const std::string_view text = tok.text();
  std::uint64_t value = 0;
  if (!parseUnsigned(value, maxAlignment, "an alignment in bytes"))
    return false;
  if (!std::has_single_bit(value))
    return fail("an alignment is a power of two", text);
  alignment = static_cast<std::uint32_t>(value);
  return true;
}

// `.const[2]`: a bank of constant memory (PTX ISA 5.1.3, deprecated).
bool Parser::parseBank() {
  std::uint64_t bank = 0;
  return !accept('[') || (parseUnsigned(bank, 10, "a bank") && expect(']', "']'"));
}

// Reads dot words in any order until another token: linkage, space, alignment, vector, type.
bool Parser::parseHead(DeclarationHead &head) {
  while (tok.kind == TokenKind::DotWord) {
    if (tok.isDotWord("entry") || tok.isDotWord("func"))
      return true;
    const std::string_view before = tok.text();
    if (!parseHeadWord(head))
      return false;
    if (tok.text().data() == before.data())
      return true; // this word belongs to no declaration
  }
  return true;
}

bool Parser::parseHeadWord(DeclarationHead &head) {
  const std::string_view word = tok.text().substr(1);
  if (word == "align")
    return parseAlignment(head.alignment);
  if (word == "attribute") {
    advance();
    return skipParentheses();
  }
  if (word == "ptr") {
    // `.ptr .global .align 8` describes the pointed-to memory, not the parameter.
    advance();
    head.isPointer = true;
    if (tok.kind == TokenKind::DotWord && spaceNamed(tok.text().substr(1)))
      advance();
    std::uint32_t pointee = 0;
    return !tok.isDotWord("align") || parseAlignment(pointee);
  }
  if (const std::optional<StateSpace> space = spaceNamed(word)) {
    if (head.space)
      return fail("a second state space in one declaration", tok.text());
    head.space = space;
    advance();
    return parseBank();
  }
  if (word == "visible" || word == "extern" || word == "weak" || word == "common")
    head.linkage = word;
  else if (word == "v2" || word == "v4")
    head.vectorWidth = word == "v2" ? 2 : 4;
  else if (findType(word) && head.type.empty())
    head.type = word;
  else if (findType(word))
    return fail("a second type in one declaration", tok.text());
  else if (head.space)
    return fail("no type, vector size or attribute has this name", tok.text());
  else
    return true;
  if (word == "texref" && !head.space)
    head.space = StateSpace::Global;
  advance();
  return true;
}

bool Parser::parseExtents(const DeclarationHead &head, Variable &variable,
                          std::vector<std::uint64_t> &extents) {
  while (accept('[')) {
    variable.isArray = true;
    std::uint64_t extent = 0;
    if (tok.is(']') && !extents.empty())
      return failAtToken("an array extent");
    if (!tok.is(']')) {
      const Token start = tok;
      if (!evaluateSum(extent, 0))
        return diagnostic ? false : failAtToken("an array extent");
      if (extent > maxVariableBytes)
        return fail("an array extent out of range", textFrom(start.begin));
    }
    if (!expect(']', "']'"))
      return false;
    extents.push_back(extent);
  }
  if (variable.isArray && head.space == StateSpace::Register)
    return fail("a register is no array", variable.name);
  return true;
}

bool Parser::layOut(const DeclarationHead &head, Variable &variable,
                    const std::vector<std::uint64_t> &extents) {
  const TypeSize *type = findType(head.type);
  const std::uint64_t scalar = type ? type->bytes : 0;
  const std::uint64_t element = scalar * head.vectorWidth;
  // An extent of zero is an unsized array; the other extents must still be valid.
  std::optional<std::uint64_t> bytes = std::max<std::uint64_t>(element, 1);
  variable.elementCount = 1;
  for (std::uint64_t extent : extents) {
    variable.elementCount *= extent;
    bytes = multiply(*bytes, std::max<std::uint64_t>(extent, 1), maxVariableBytes);
    if (!bytes)
      return fail("this array is larger than any memory", variable.name);
  }
  variable.sizeInBytes = variable.elementCount * element;
  variable.alignment = head.alignment != 0 ? head.alignment : static_cast<std::uint32_t>(element);
  if (variable.alignment == 0)
    variable.alignment = 1; // predicates
  return true;
}

bool Parser::parseDeclarator(const DeclarationHead &head, Variable &variable) {
  if (head.type.empty())
    return failAtToken("a type such as .b32");
  if (tok.kind != TokenKind::Identifier)
    return failAtToken("a name");
  variable.space = *head.space;
  variable.name = tok.text();
  variable.type = head.type;
  variable.vectorWidth = head.vectorWidth;
  variable.isExtern = head.linkage == "extern";
  variable.isPointer = head.isPointer;
  advance();
  std::vector<std::uint64_t> extents;
  if (!parseExtents(head, variable, extents) || !layOut(head, variable, extents))
    return false;
  return !tok.is('=') || parseInitializer(variable, extents);
}

bool Parser::sizeFromInitializer(Variable &variable, std::uint64_t outer, std::uint64_t inner) {
  const TypeSize *type = findType(variable.type);
  const std::uint64_t element = std::uint64_t{type ? type->bytes : 0} * variable.vectorWidth;
  const auto count = multiply(outer, inner, maxVariableBytes);
  const auto bytes = count ? multiply(*count, element, maxVariableBytes) : std::nullopt;
  if (!bytes)
    return fail("this array is larger than any memory", variable.name);
  variable.elementCount = *count;
  variable.sizeInBytes = *bytes;
  return true;
}

bool Parser::declareName(std::string_view name) {
  return !function || scopes.declareOther(name) ||
         fail("this name is already declared in this scope", name);
}

bool Parser::parseDeclarators(const DeclarationHead &head, std::span<const Variable> &variables) {
  const std::size_t from = variableStack.size();
  do {
    Variable variable;
    if (!parseDeclarator(head, variable) || !declareName(variable.name))
      return false;
    variableStack.push_back(variable);
  } while (accept(','));
  variables = keep(variableStack, from);
  return expect(';', "';' after the declaration");
}

// Declares the names under the ids from `declaration.first` on.
bool Parser::declareInScope(const RegisterDeclaration &declaration) {
  const bool isNew =
      declaration.isRange
          ? scopes.declareRange(declaration.name, declaration.first, declaration.count)
          : scopes.declareRegister(declaration.name, declaration.first);
  return isNew || fail("this name is already declared in this scope", declaration.name);
}

// Registers of the module come before any function; each function's registers begin with them,
// under the same ids.
bool Parser::addModuleRegister(RegisterDeclaration &declaration) {
  const std::uint64_t before =
      moduleRegisters.empty() ? 0 : moduleRegisters.back().first + moduleRegisters.back().count;
  if (before + declaration.count > maxRegisters)
    return fail("a module with more than " + std::to_string(maxRegisters) + " registers",
                declaration.name);
  for (const Item &item : module.itemList)
    if (item.function)
      return fail("registers of the module stand before its functions", declaration.name);
  declaration.first = static_cast<RegisterId>(before);
  if (!declareInScope(declaration))
    return false;
  if (declaration.count != 0)
    moduleRegisters.push_back(declaration);
  return true;
}

bool Parser::addRegister(RegisterDeclaration &declaration) {
  if (!function)
    return addModuleRegister(declaration);
  if (function->registerCount + std::uint64_t{declaration.count} > maxRegisters)
    return fail("a function with more than " + std::to_string(maxRegisters) + " registers",
                declaration.name);
  declaration.first = function->registerCount;
  if (!declareInScope(declaration))
    return false;
  if (declaration.count == 0)
    return true;
  function->registerCount += declaration.count;
  function->registers.push_back(declaration);
  return true;
}

// `.reg .v4 .f32 %v, %f<8>;`
bool Parser::parseRegisters(std::span<const RegisterDeclaration> &registers) {
  const std::size_t from = registerStack.size();
  DeclarationHead head;
  if (!parseHead(head))
    return false;
  if (head.type.empty())
    return failAtToken("a register type such as .b32");
  do {
    RegisterDeclaration declaration;
    declaration.type = head.type;
    declaration.vectorWidth = head.vectorWidth;
    if (tok.kind != TokenKind::Identifier)
      return failAtToken("a register name");
    declaration.name = tok.text();
    advance();
    if (accept('<')) {
      std::uint64_t count = 0;
      if (!parseUnsigned(count, maxRegisters, "a number of registers") || !expect('>', "'>'"))
        return false;
      declaration.isRange = true;
      declaration.count = static_cast<std::uint32_t>(count);
    }
    if (!addRegister(declaration))
      return false;
    registerStack.push_back(declaration);
  } while (accept(','));
  registers = keep(registerStack, from);
  return expect(';', "';' after the declaration");
}

// Places each parameter of an entry behind the previous one, at its alignment (PTX ISA 5.1.6.1).
bool Parser::placeParameters() {
  std::uint64_t offset = 0;
  for (Variable &parameter : function->parameters) {
    if (parameter.isArray && parameter.elementCount == 0)
      return fail("a kernel's parameter has a size", parameter.name);
    offset = (offset + parameter.alignment - 1) & ~std::uint64_t{parameter.alignment - 1};
    if (offset + parameter.sizeInBytes > maxParameterBytes)
      return fail("the parameters are larger than any kernel's", parameter.name);
    parameter.paramOffset = static_cast<std::uint32_t>(offset);
    offset += parameter.sizeInBytes;
  }
  return true;
}

} // namespace tally::ptx
