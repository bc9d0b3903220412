// Instructions and their operands (PTX ISA 4.3.2, 4.5, 6).
#include "parser_impl.h"

#include <algorithm>
#include <utility>

namespace tally::ptx {

namespace {

/// Limit on nested `{`, `[` and `(`, and on nested parentheses of a constant expression.
constexpr unsigned maxNesting = 64;

bool isOperandWord(const Token &token) {
  return token.kind == TokenKind::Identifier || token.kind == TokenKind::Number ||
         token.kind == TokenKind::String;
}

/// The only name that is a number (PTX ISA 4.4).
constexpr std::string_view warpSizeName = "WARP_SZ";

} // namespace

bool Parser::parseGuard(Statement &statement) {
  advance(); // @
  Operand predicate;
  const char *begin = tok.begin;
  predicate.negated = accept('!');
  if (tok.kind != TokenKind::Identifier)
    return failAtToken("a predicate register");
  const std::string_view name = tok.text();
  if (!parseName(predicate) || predicate.kind != OperandKind::Register)
    return fail("no register of this name is declared here", name);
  predicate.text = textFrom(begin);
  const Guard guard{predicate};
  statement.instruction.guard = allocator->copy(&guard, 1);
  return true;
}

bool Parser::parseGuarded(Statement &statement) {
  const Token opcode = tok;
  if (opcode.kind != TokenKind::Identifier)
    return failAtToken("an instruction");
  advance();
  return parseInstruction(opcode, statement);
}

// The caller has consumed the opcode.
bool Parser::parseInstruction(const Token &opcode, Statement &statement) {
  statement.kind = StatementKind::Instruction;
  Instruction &instruction = statement.instruction;
  if (*opcode.begin == '%' || *opcode.begin == '$')
    return fail("expected an instruction", opcode.text());
  instruction.opcode = opcode.text();
  const std::size_t words = wordStack.size();
  while (tok.kind == TokenKind::DotWord) {
    wordStack.push_back(tok.text().substr(1));
    advance();
  }
  instruction.modifiers = keep(wordStack, words);
  if (accept(';'))
    return true;
  inCall = instruction.opcode == "call";
  inMove = instruction.opcode == "mov";
  return parseOperandList(';', instruction.operands, 0);
}

// Parses operands between commas up to `close`, and consumes `close`.
bool Parser::parseOperandList(char close, std::span<const Operand> &operands, unsigned depth) {
  const std::size_t from = operandStack.size();
  if (!accept(close)) {
    do {
      Operand operand;
      if (!parseOperand(operand, depth))
        return false;
      operandStack.push_back(operand);
    } while (accept(','));
    if (!accept(close))
      return failAtToken(std::string("',' or '") + close + "'");
  }
  operands = keep(operandStack, from);
  return true;
}

bool Parser::atOperandEnd() const {
  return tok.is(',') || tok.is(';') || tok.is(']') || tok.is('}') || tok.is(')') || tok.is('=') ||
         tok.kind == TokenKind::End;
}

bool Parser::parseOperand(Operand &operand, unsigned depth) {
  const Token start = tok;
  const std::size_t from = operandStack.size();
  bool good = parsePrimary(operand, depth);
  if (good && tok.is('|')) {
    operand.text = textFrom(start.begin);
    Operand second;
    advance();
    const Token secondStart = tok;
    good = parsePrimary(second, depth);
    if (good) {
      second.text = textFrom(secondStart.begin);
      operandStack.push_back(operand);
      operandStack.push_back(second);
      operand = Operand{};
      operand.kind = OperandKind::Pair;
      operand.children = keep(operandStack, from);
    }
  }
  if (diagnostic)
    return false;
  if (!good || !atOperandEnd()) {
    operandStack.resize(from);
    return parseOpaque(operand, start);
  }
  operand.text = textFrom(start.begin);
  return true;
}

// Returns false without a diagnostic for a form that this function does not know.
bool Parser::parsePrimary(Operand &operand, unsigned depth) {
  if (depth > maxNesting)
    return fail("operands are nested too deeply", tok.text());
  switch (tok.kind) {
  case TokenKind::Identifier:
    if (tok.text() == warpSizeName)
      return parseConstant(operand);
    return parseName(operand) && (!tok.is('[') || parseArrayIndex(operand));
  case TokenKind::Number:
    return parseConstant(operand);
  case TokenKind::Punctuator:
    break;
  default:
    return false;
  }
  switch (*tok.begin) {
  case '{':
    return parseBracketed(operand, OperandKind::Vector, '}', depth);
  case '[':
    return parseAddress(operand, depth);
  case '(':
    return inCall ? parseBracketed(operand, OperandKind::List, ')', depth) : parseConstant(operand);
  case '!':
  case '-': {
    const Token sign = tok;
    advance();
    if (tok.kind == TokenKind::Identifier) {
      if (!parseName(operand))
        return false;
      operand.negated = true;
      return operand.kind == OperandKind::Register;
    }
    restartAt(sign);
    return parseConstant(operand);
  }
  case '~':
  case '+':
    return parseConstant(operand);
  default:
    return false;
  }
}

bool Parser::parseBracketed(Operand &operand, OperandKind kind, char close, unsigned depth) {
  operand.kind = kind;
  advance();
  return parseOperandList(close, operand.children, depth + 1);
}

// Parses a name with its component (`%tid.x`) or offset (`table+8`).
bool Parser::parseName(Operand &operand) {
  const std::string_view name = tok.text();
  advance();
  if (name == "_") {
    operand.kind = OperandKind::Sink;
    return true;
  }
  operand.symbol = name;
  operand.reg = scopes.lookup(name);
  operand.kind = operand.reg != noRegister ? OperandKind::Register
                 : name[0] == '%'          ? OperandKind::SpecialRegister
                                           : OperandKind::Symbol;
  if (tok.kind == TokenKind::DotWord && tok.begin == previousEnd) {
    operand.component = tok.text().substr(1);
    advance();
  }
  if (operand.kind == OperandKind::Symbol && (tok.is('+') || tok.is('-')))
    return parseOffset(operand.bits);
  return true;
}

// Parses `array[2]` (PTX ISA 6.4.2, arrays as operands): an address for ld and st, indexed in
// elements. Returns false without a diagnostic where the index is a register, or the variable is
// not declared here.
bool Parser::parseArrayIndex(Operand &operand) {
  const std::uint64_t bytes =
      operand.kind == OperandKind::Symbol ? elementBytes(operand.symbol) : 0;
  advance(); // [
  Operand index;
  if (bytes == 0 || tok.kind != TokenKind::Number || !parseConstant(index) || !accept(']') ||
      index.kind != OperandKind::Integer)
    return false;
  const std::uint64_t offset = index.bits * bytes;
  if (inMove) {
    operand.bits = offset;
    return true;
  }
  Operand base = operand;
  base.text = base.symbol;
  operand = Operand{};
  operand.kind = OperandKind::Address;
  operand.bits = offset;
  operand.children = std::span<const Operand>(allocator->copy(&base, 1), 1);
  return true;
}

// Returns the bytes of one scalar of an array declared earlier, or 0 where there is no such array.
// ptxas 13.0 counts scalars too where the elements are vectors.
std::uint64_t Parser::elementBytes(std::string_view variable) const {
  std::uint64_t bytes = 0;
  const auto look = [&](std::span<const Variable> list) {
    for (const Variable &each : list)
      if (each.name == variable && each.isArray && each.elementCount != 0)
        bytes = each.sizeInBytes / each.elementCount / std::max(each.vectorWidth, 1u);
  };
  for (const Item &item : module.itemList)
    look(item.variables);
  if (function)
    look(function->parameters);
  for (const Statement &statement : statementStack)
    look(statement.variables);
  return bytes;
}

// `[base+offset]`, `[base, {coordinates}]`.
bool Parser::parseAddress(Operand &operand, unsigned depth) {
  operand.kind = OperandKind::Address;
  const std::size_t from = operandStack.size();
  advance(); // [
  Operand base;
  const Token start = tok;
  if (tok.kind == TokenKind::Identifier && tok.text() != warpSizeName) {
    if (!parseName(base))
      return false;
    operand.bits = std::exchange(base.bits, 0); // the offset of `[name+4]` belongs to the address
    base.text = base.component.empty()
                    ? std::string_view(start.begin, start.text().size())
                    : std::string_view(start.begin, static_cast<std::size_t>(base.component.end() -
                                                                             start.begin));
    if ((tok.is('+') || tok.is('-')) && !parseOffset(operand.bits))
      return false;
  } else {
    if (!parsePrimary(base, depth + 1))
      return false;
    base.text = textFrom(start.begin);
  }
  if (!tok.is(',') && !tok.is(']'))
    return false;
  operandStack.push_back(base);
  while (accept(',')) {
    Operand next;
    if (!parseOperand(next, depth + 1))
      return false;
    operandStack.push_back(next);
  }
  if (!accept(']'))
    return false;
  operand.children = keep(operandStack, from);
  return true;
}

// Parses an operand of any other form: its text, with the names in it as children, so that no use
// of a register is missed.
bool Parser::parseOpaque(Operand &operand, const Token &start) {
  restartAt(start);
  operand = Operand{};
  const std::size_t from = operandStack.size();
  std::size_t open = 0;
  Token previous;
  while (open != 0 || !atOperandEnd()) {
    if (tok.kind == TokenKind::End || tok.kind == TokenKind::Invalid || tok.is(';'))
      return failAtToken("an operand");
    // Without an operator in between, a ',' or ';' is missing.
    const bool previousEnds = isOperandWord(previous) || previous.is(']') || previous.is('}');
    const bool isIndexed = tok.is('[') && previous.kind == TokenKind::Identifier &&
                           scopes.lookup(previous.text()) == noRegister;
    if (previousEnds && !isIndexed &&
        (isOperandWord(tok) || tok.is('{') || tok.is('[') || tok.is('@')))
      return fail("expected ',' or ';' after this", previous.text());
    previous = tok;
    if (tok.kind == TokenKind::Identifier) {
      Operand name;
      const Token nameStart = tok;
      if (!parseName(name)) {
        if (diagnostic)
          return false;
        restartAt(nameStart);
        advance();
      }
      name.text = textFrom(nameStart.begin);
      operandStack.push_back(name);
      continue;
    }
    if (tok.is('(') || tok.is('[') || tok.is('{'))
      ++open;
    else if (tok.is(')') || tok.is(']') || tok.is('}'))
      --open;
    advance();
  }
  if (tok.begin == start.begin)
    return failAtToken("an operand");
  operand.kind = OperandKind::Opaque;
  operand.children = keep(operandStack, from);
  operand.text = textFrom(start.begin);
  return true;
}

bool Parser::parseConstant(Operand &operand) {
  const Token start = tok;
  const bool minus = accept('-');
  if (tok.kind == TokenKind::Number) {
    const Literal literal = evaluateLiteral(tok.text());
    if (literal.kind == Literal::Kind::Malformed)
      return fail("this is not a number, or one of more than 64 bits", tok.text());
    advance();
    if (literal.kind != Literal::Kind::Integer) {
      const bool single = literal.kind == Literal::Kind::Float32;
      operand.kind = single ? OperandKind::Float32 : OperandKind::Float64;
      operand.bits = literal.bits ^ (minus ? std::uint64_t{1} << (single ? 31 : 63) : 0);
      return true;
    }
    if (atOperandEnd()) {
      operand.kind = OperandKind::Integer;
      operand.bits = minus ? std::uint64_t{0} - literal.bits : literal.bits;
      return true;
    }
  }
  restartAt(start);
  operand.kind = OperandKind::Integer;
  return evaluateSum(operand.bits, 0);
}

// Parses `+4`, `-4`, `+-4`, `+4*8`: integer terms only. Returns false without a diagnostic on
// anything else.
bool Parser::parseOffset(std::uint64_t &value) {
  while (tok.is('+') || tok.is('-')) {
    const bool minus = tok.is('-');
    advance();
    std::uint64_t term = 0;
    if (!evaluateTerm(term, 0))
      return false;
    value += minus ? std::uint64_t{0} - term : term;
  }
  return true;
}

// Evaluates constant expressions (PTX ISA 4.5.3) of sums, products and unary signs; other
// expressions are Opaque. Arithmetic wraps at 64 bits.
bool Parser::evaluateSum(std::uint64_t &value, unsigned depth) {
  return evaluateTerm(value, depth) && parseOffset(value);
}

bool Parser::evaluateTerm(std::uint64_t &value, unsigned depth) {
  if (!evaluateFactor(value, depth))
    return false;
  while (accept('*')) {
    std::uint64_t factor = 0;
    if (!evaluateFactor(factor, depth))
      return false;
    value *= factor;
  }
  return true;
}

bool Parser::evaluateFactor(std::uint64_t &value, unsigned depth) {
  if (depth > maxNesting)
    return fail("constants are nested too deeply", tok.text());
  if (accept('-')) {
    const bool good = evaluateFactor(value, depth + 1);
    value = std::uint64_t{0} - value;
    return good;
  }
  if (accept('+'))
    return evaluateFactor(value, depth + 1);
  if (accept('~')) {
    const bool good = evaluateFactor(value, depth + 1);
    value = ~value;
    return good;
  }
  if (accept('('))
    return evaluateSum(value, depth + 1) && accept(')');
  if (tok.kind == TokenKind::Identifier && tok.text() == warpSizeName) {
    value = 32;
    advance();
    return true;
  }
  if (tok.kind != TokenKind::Number)
    return false;
  const Literal literal = evaluateLiteral(tok.text());
  if (literal.kind == Literal::Kind::Malformed)
    return fail("this is not a number, or one of more than 64 bits", tok.text());
  if (literal.kind != Literal::Kind::Integer)
    return false;
  value = literal.bits;
  advance();
  return true;
}

} // namespace tally::ptx
