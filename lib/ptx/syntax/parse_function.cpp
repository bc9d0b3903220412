// Functions: header, parameters, directives, and the statements of a body (PTX ISA 4.3, 7.1, 11.4).
#include "parser_impl.h"

namespace tally::ptx {

namespace {

/// A program does not nest scopes more deeply.
constexpr unsigned maxOpenScopes = 256;

} // namespace

bool Parser::parseFunction(Item &item, const DeclarationHead &head, const char *begin) {
  item.kind = ItemKind::Function;
  item.function = std::make_unique<Function>();
  function = item.function.get();
  function->linkage = head.linkage;
  function->isEntry = tok.isDotWord("entry");
  function->registers = moduleRegisters;
  if (!moduleRegisters.empty())
    function->registerCount = moduleRegisters.back().first + moduleRegisters.back().count;
  advance();
  scopes.open();
  DeclarationHead attributes;
  if (!parseHead(attributes))
    return false;
  if (tok.is('(') && !parseParameterList(function->results))
    return false;
  if (tok.kind != TokenKind::Identifier)
    return failAtToken("a function name");
  function->name = tok.text();
  advance();
  const char *listBegin = tok.begin;
  if (tok.is('(')) {
    if (!parseParameterList(function->parameters))
      return false;
    function->parameterList = textFrom(listBegin);
  }
  if (function->isEntry && !placeParameters())
    return false;
  if (!parseHeaderDirectives())
    return false;
  function->hasBody = !accept(';') && !endsPrototype();
  function->header = textFrom(begin);
  // A call would change registers of the module in its caller; the analyses do not follow that.
  if (function->hasBody && !function->isEntry && !moduleRegisters.empty())
    return fail("a function beside registers of the module, which it shares with its callers",
                function->name);
  itemEnd = previousEnd;
  const bool skips = skipsEntries && function->isEntry;
  if (function->hasBody && !(skips ? skipBody() : parseBody()))
    return false;
  scopes.close();
  function = nullptr;
  return true;
}

bool Parser::parseParameterList(std::vector<Variable> &variables) {
  advance(); // (
  while (!tok.is(')')) {
    DeclarationHead head;
    if (!parseHead(head))
      return false;
    if (head.space != StateSpace::Param && head.space != StateSpace::Register)
      return failAtToken("a parameter that begins with .param or .reg");
    Variable variable;
    if (!parseDeclarator(head, variable))
      return false;
    if (variable.space == StateSpace::Register) {
      RegisterDeclaration declaration;
      declaration.type = variable.type;
      declaration.vectorWidth = variable.vectorWidth;
      declaration.name = variable.name;
      if (!addRegister(declaration))
        return false;
    } else if (variable.name != "_" && !declareName(variable.name)) {
      return false;
    }
    variables.push_back(variable);
    if (!accept(','))
      break;
    if (tok.is(')'))
      return failAtToken("a parameter after the comma");
  }
  return expect(')', "')' after the parameters");
}

/// Whether another item begins where a function's header ends: compilers before CUDA 4.1 wrote
/// prototypes without ';', and ptxas accepts them.
bool Parser::endsPrototype() const {
  if (function->isEntry)
    return false;
  if (tok.kind == TokenKind::End)
    return true;
  for (std::string_view word : {"entry", "func", "visible", "extern", "weak", "common", "global",
                                "const", "shared", "tex", "file", "section", "alias"})
    if (tok.isDotWord(word))
      return true;
  return false;
}

bool Parser::parseHeaderDirectives() {
  while (!tok.is('{') && !tok.is(';') && !endsPrototype()) {
    if (tok.kind != TokenKind::DotWord)
      return failAtToken("'{', ';' or a directive such as .maxntid");
    if (!parseHeaderDirective())
      return false;
  }
  return true;
}

bool Parser::parseHeaderDirective() {
  HeaderDirective directive;
  const char *begin = tok.begin;
  directive.name = tok.text().substr(1);
  advance();
  std::vector<std::uint64_t> values;
  if (directive.name == "pragma") {
    while (tok.kind == TokenKind::String || tok.is(','))
      advance();
    if (!expect(';', "';' after the pragma"))
      return false;
  } else if (tok.is('(')) {
    if (!skipParentheses())
      return false;
  } else if (tok.kind == TokenKind::Number) {
    do {
      std::uint64_t value = 0;
      if (!parseUnsigned(value, ~std::uint64_t{0}, "a number"))
        return false;
      values.push_back(value);
    } while (accept(','));
  }
  directive.text = textFrom(begin);
  directive.values = keep(values, 0);
  function->directives.push_back(directive);
  return true;
}

bool Parser::parseBody() {
  statementStack.clear();
  const std::string_view brace = tok.text();
  const unsigned outside = scopes.openScopes();
  do {
    if (tok.kind == TokenKind::End)
      return fail("this function's '{' is never closed", brace);
    if (!parseStatement())
      return false;
  } while (scopes.openScopes() != outside);
  function->body = keepsBodies ? keep(statementStack, 0) : statementStack;
  return true;
}

bool Parser::skipBody() {
  if (!lexer.skipBlock())
    return fail("this function's '{' is never closed", tok.text());
  previousEnd = itemEnd = lexer.position();
  tok = lexer.next();
  return true;
}

bool Parser::parseStatement() {
  statementStack.emplace_back();
  Statement &statement = statementStack.back();
  const Token start = tok;
  statement.leading = std::string_view(itemEnd, static_cast<std::size_t>(start.begin - itemEnd));
  bool good = false;
  if (start.kind == TokenKind::Identifier) {
    advance();
    good = tok.is(':') ? parseLabelled(start, statement) : parseInstruction(start, statement);
  } else if (start.kind == TokenKind::DotWord) {
    good = parseDirectiveStatement(statement);
  } else if (start.is('@')) {
    good = parseGuard(statement) && parseGuarded(statement);
  } else if (start.is('{')) {
    statement.kind = StatementKind::ScopeBegin;
    if (scopes.openScopes() >= maxOpenScopes)
      return fail("scopes are nested too deeply", start.text());
    scopes.open();
    advance();
    good = true;
  } else if (start.is('}')) {
    statement.kind = StatementKind::ScopeEnd;
    scopes.close();
    advance();
    good = true;
  } else {
    return failAtToken("an instruction, a label, a directive or '}'");
  }
  if (!good)
    return false;
  statement.text = textFrom(start.begin);
  itemEnd = previousEnd;
  return true;
}

bool Parser::parseLabelled(const Token &name, Statement &statement) {
  advance(); // :
  statement.kind = StatementKind::Label;
  statement.label = name.text();
  if (!declareName(name.text()))
    return false;
  if (tok.isDotWord("branchtargets") || tok.isDotWord("calltargets")) {
    statement.kind = StatementKind::BranchTargets;
    advance();
    return parseNames(statement.names);
  }
  if (tok.isDotWord("callprototype")) {
    statement.kind = StatementKind::Prototype;
    return skipToSemicolon();
  }
  return true;
}

bool Parser::parseNames(std::span<const std::string_view> &names) {
  const std::size_t from = wordStack.size();
  do {
    if (tok.kind != TokenKind::Identifier)
      return failAtToken("a name");
    wordStack.push_back(tok.text());
    advance();
  } while (accept(','));
  names = keep(wordStack, from);
  return expect(';', "';' after the names");
}

bool Parser::parseDirectiveStatement(Statement &statement) {
  if (tok.isDotWord("loc")) {
    statement.kind = StatementKind::Location;
    return parseLocation();
  }
  if (tok.isDotWord("pragma")) {
    statement.kind = StatementKind::Pragma;
    return skipToSemicolon();
  }
  if (tok.isDotWord("file"))
    return parseFile();
  if (tok.isDotWord("reg")) {
    statement.kind = StatementKind::Register;
    return parseRegisters(statement.registers);
  }
  DeclarationHead head;
  if (!parseHead(head))
    return false;
  if (!head.space)
    return skipToSemicolon();
  statement.kind = StatementKind::Variable;
  return parseDeclarators(head, statement.variables);
}

// `.loc 1 16 3, function_name $L__info_string0+4, inlined_at 1 166 19` (PTX ISA 11.5.4).
bool Parser::parseLocation() {
  const auto parsePlace = [this] {
    std::uint64_t ignored = 0;
    for (int i = 0; i < 3; ++i)
      if (!parseUnsigned(ignored, ~std::uint64_t{0}, "file, line and column"))
        return false;
    return true;
  };
  advance();
  if (!parsePlace())
    return false;
  while (accept(',')) {
    if (tok.text() == "function_name") {
      advance();
      if (tok.kind != TokenKind::Identifier)
        return failAtToken("a label of the function's name");
      advance();
      std::uint64_t offset = 0;
      if (tok.is('+') && !parseOffset(offset))
        return diagnostic ? false : failAtToken("an offset");
    } else if (tok.text() == "inlined_at") {
      advance();
      if (!parsePlace())
        return false;
    } else {
      return failAtToken("function_name or inlined_at");
    }
  }
  return true;
}

} // namespace tally::ptx
