#include "tally/ptx/syntax/parser.h"

#include "parser_impl.h"

#include <charconv>
#include <cstring>

namespace tally::ptx {

namespace {

/// Offsets of lines are kept in 32 bits.
constexpr std::size_t maxSourceBytes = ~std::uint32_t{0};

} // namespace

Parser::Parser(std::string source) {
  module.sourceText = std::make_unique<std::string>(std::move(source));
  const std::string_view all = *module.sourceText;
  module.allocator = std::make_unique<BumpAllocator>();
  allocator = module.allocator.get();
  // Text taken from a fatbin ends in NUL bytes. The parser treats them as white space after the
  // last item.
  const std::size_t last = all.find_last_not_of('\0');
  const std::string_view text = all.substr(0, last == std::string_view::npos ? 0 : last + 1);
  lexer = Lexer(text);
  itemEnd = previousEnd = text.data();
  tok = lexer.next();
}

std::variant<Module, Diagnostic> Parser::run() {
  if (!parseModule())
    return std::move(*diagnostic);
  return std::move(module);
}

bool Parser::parseModule() {
  const std::string_view all = module.source();
  if (all.size() > maxSourceBytes)
    return fail("a module of more than 4 GiB", all.substr(0, 0));
  indexLines();
  while (tok.kind != TokenKind::End)
    if (!parseItem())
      return false;
  if (module.itemList.empty())
    return fail("a PTX module begins with .version", all.substr(0, 0));
  module.trailingText = all.substr(static_cast<std::size_t>(itemEnd - all.data()));
  return nameFunctions();
}

bool Parser::nameFunctions() {
  for (const Item &item : module.itemList) {
    if (!item.function)
      continue;
    const Function *&known = module.functionsByName[item.function->name];
    if (known && known->hasBody && item.function->hasBody)
      return fail("a second body for the function of this name", item.function->name);
    if (!known || item.function->hasBody)
      known = item.function.get();
  }
  for (const Alias &alias : module.aliasList)
    if (const Function *of = module.function(alias.of); of && of->hasBody) {
      const Function *&known = module.functionsByName[alias.name];
      if (!known || !known->hasBody)
        known = of;
    }
  return true;
}

void Parser::indexLines() {
  const std::string_view all = module.source();
  module.lineStarts.push_back(0);
  for (std::size_t at = all.find('\n'); at != std::string_view::npos; at = all.find('\n', at + 1))
    module.lineStarts.push_back(static_cast<std::uint32_t>(at + 1));
}

void Parser::restartAt(const Token &token) {
  lexer.restartAt(token.begin);
  tok = lexer.next();
}

bool Parser::expect(char punctuator, std::string_view what) {
  return accept(punctuator) || failAtToken(what);
}

bool Parser::fail(std::string message, std::string_view where) {
  if (!diagnostic)
    diagnostic =
        Diagnostic{std::move(message),
                   static_cast<std::size_t>(where.data() - module.source().data()), where.size()};
  return false;
}

bool Parser::failAtToken(std::string_view expected) {
  std::string message = "expected " + std::string(expected);
  const std::string_view text = tok.text();
  if (tok.kind == TokenKind::End) {
    message += ", but the text ends here";
  } else if (tok.kind == TokenKind::Invalid) {
    if (text.starts_with("/*"))
      return fail("this comment has no end", text.substr(0, 2));
    if (text.starts_with("\""))
      return fail("this string has no closing quote on its line", text.substr(0, 1));
    return fail("no token starts with this character", text.substr(0, 1));
  }
  return fail(std::move(message), text);
}

bool Parser::parseUnsigned(std::uint64_t &value, std::uint64_t limit, std::string_view what) {
  const Literal literal = tok.kind == TokenKind::Number ? evaluateLiteral(tok.text()) : Literal{};
  if (literal.kind != Literal::Kind::Integer)
    return failAtToken(what);
  if (literal.bits > limit)
    return fail(std::string(what) + " of at most " + std::to_string(limit) + " is expected here",
                tok.text());
  value = literal.bits;
  advance();
  return true;
}

bool Parser::skipToSemicolon() {
  while (!tok.is(';')) {
    if (tok.kind == TokenKind::End || tok.kind == TokenKind::Invalid || tok.is('{') || tok.is('}'))
      return failAtToken("';' after the directive");
    advance();
  }
  advance();
  return true;
}

bool Parser::skipParentheses() {
  if (!expect('(', "'('"))
    return false;
  for (std::size_t open = 1; open != 0; advance()) {
    if (tok.is('('))
      ++open;
    else if (tok.is(')'))
      --open;
    else if (tok.kind == TokenKind::End || tok.kind == TokenKind::Invalid)
      return failAtToken("')'");
  }
  return true;
}

bool Parser::skipBlock() {
  const std::string_view brace = tok.text();
  if (!expect('{', "'{'"))
    return false;
  for (std::size_t open = 1; open != 0; advance()) {
    if (tok.is('{'))
      ++open;
    else if (tok.is('}'))
      --open;
    else if (tok.kind == TokenKind::End)
      return fail("this '{' is never closed", brace);
    else if (tok.kind == TokenKind::Invalid && tok.text() != ".")
      return failAtToken("'}'");
  }
  return true;
}

bool Parser::parseItem() {
  Item item;
  const char *begin = tok.begin;
  item.leading = std::string_view(itemEnd, static_cast<std::size_t>(begin - itemEnd));
  if (tok.kind != TokenKind::DotWord)
    return failAtToken("a directive at module level");
  if (module.itemList.empty() && !tok.isDotWord("version"))
    return fail("a PTX module begins with .version", tok.text());
  if (!parseItemText(item))
    return false;
  item.text = textFrom(begin);
  itemEnd = previousEnd;
  module.itemList.push_back(std::move(item));
  return true;
}

bool Parser::parseItemText(Item &item) {
  const char *begin = tok.begin;
  if (tok.isDotWord("version")) {
    item.kind = ItemKind::Version;
    return parseVersion();
  }
  if (tok.isDotWord("target")) {
    item.kind = ItemKind::Target;
    return parseTarget();
  }
  if (tok.isDotWord("address_size")) {
    item.kind = ItemKind::AddressSize;
    return parseAddressSize();
  }
  if (tok.isDotWord("file"))
    return parseFile();
  if (tok.isDotWord("section"))
    return parseSection();
  if (tok.isDotWord("alias"))
    return parseAlias();
  if (tok.isDotWord("pragma"))
    return skipToSemicolon();
  if (tok.isDotWord("reg")) {
    std::span<const RegisterDeclaration> ignored;
    return parseRegisters(ignored);
  }
  DeclarationHead head;
  if (!parseHead(head))
    return false;
  if (tok.isDotWord("entry") || tok.isDotWord("func"))
    return parseFunction(item, head, begin);
  if (!head.space)
    return skipToSemicolon(); // a directive that this parser does not know
  item.kind = ItemKind::Variable;
  return parseDeclarators(head, item.variables);
}

bool Parser::parseVersion() {
  advance();
  const std::string_view text = tok.text();
  const char *end = text.data() + text.size();
  if (tok.kind != TokenKind::Number)
    return failAtToken("a version such as 9.0");
  const auto first = std::from_chars(text.data(), end, module.major);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != '.')
    return failAtToken("a version such as 9.0");
  const auto second = std::from_chars(first.ptr + 1, end, module.minor);
  if (second.ec != std::errc() || second.ptr != end)
    return failAtToken("a version such as 9.0");
  advance();
  return true;
}

bool Parser::parseTarget() {
  do {
    advance();
    if (tok.kind != TokenKind::Identifier)
      return failAtToken("a target such as sm_90");
    const std::string_view name = tok.text();
    if (name.starts_with("sm_")) {
      const std::string_view digits = name.substr(3);
      const auto parsed =
          std::from_chars(digits.data(), digits.data() + digits.size(), module.arch);
      if (parsed.ec != std::errc())
        return failAtToken("a target such as sm_90");
      module.targetName = name;
    }
    advance();
  } while (tok.is(','));
  return true;
}

bool Parser::parseAddressSize() {
  advance();
  std::uint64_t bits = 0;
  const std::string_view text = tok.text();
  if (!parseUnsigned(bits, 64, "an address size"))
    return false;
  if (bits != 32 && bits != 64)
    return fail("an address has 32 or 64 bits", text);
  module.addressBits = static_cast<std::uint32_t>(bits);
  return true;
}

bool Parser::parseAlias() {
  advance();
  Alias alias{tok.text(), {}};
  if (tok.kind != TokenKind::Identifier)
    return failAtToken("a function's name");
  advance();
  if (!expect(',', "','"))
    return false;
  alias.of = tok.text();
  if (tok.kind != TokenKind::Identifier)
    return failAtToken("a function's name");
  advance();
  module.aliasList.push_back(alias);
  return expect(';', "';'");
}

// Parses `.file 1 "name"`, optionally with a time stamp and a size after commas (PTX ISA 11.5.3).
bool Parser::parseFile() {
  advance();
  std::uint64_t ignored = 0;
  if (!parseUnsigned(ignored, ~std::uint64_t{0}, "a file number"))
    return false;
  if (tok.kind != TokenKind::String)
    return failAtToken("a file name in quotes");
  while (tok.kind == TokenKind::String)
    advance();
  while (accept(','))
    if (!parseUnsigned(ignored, ~std::uint64_t{0}, "a number"))
      return false;
  return true;
}

bool Parser::parseSection() {
  advance();
  if (tok.kind != TokenKind::DotWord)
    return failAtToken("a section name such as .debug_info");
  advance();
  return skipBlock();
}

std::variant<Module, Diagnostic> parse(std::string source) {
  return Parser(std::move(source)).run();
}

} // namespace tally::ptx
