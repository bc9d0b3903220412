// Initialisers of variables (PTX ISA 5.4.4).
#include "parser_impl.h"

namespace tally::ptx {

namespace {

/// No array has more dimensions than this.
constexpr std::size_t maxInitializerNesting = 32;

} // namespace

// `= 5`, `= {1, 2, {3, 4}}`
bool Parser::parseInitializer(Variable &variable, const std::vector<std::uint64_t> &extents) {
  advance(); // =
  const std::size_t from = initializerStack.size();
  // Number of scalars that one index step of each level spans: the array's extents, then the
  // vector's width.
  std::vector<std::uint64_t> strides;
  std::uint64_t span = variable.vectorWidth;
  if (variable.vectorWidth > 1)
    strides.push_back(1);
  for (std::size_t i = extents.size(); i-- > 0; span *= extents[i])
    strides.insert(strides.begin(), span);
  const bool unsized = variable.isArray && variable.elementCount == 0;
  // The initialiser of a sampler names its fields.
  const bool unlimited = unsized || variable.type == "samplerref" || variable.type == "texref";
  InitializerPosition position{
      strides, 0, unlimited ? ~std::uint64_t{0} : variable.elementCount * variable.vectorWidth};
  if (tok.is('{')) {
    if (!parseInitializerLevel(position, 0))
      return false;
  } else {
    Initializer initializer;
    if (!parseInitializerValue(initializer))
      return false;
    initializerStack.push_back(initializer);
  }
  variable.initializers = keep(initializerStack, from);
  if (!unsized || strides[0] == 0)
    return true;
  // `x[] = {…}` takes its first extent from the initialiser.
  const std::uint64_t outer = (position.element + strides[0] - 1) / strides[0];
  return sizeFromInitializer(variable, outer, strides[0] / variable.vectorWidth);
}

// Parses one `{…}`. An inner brace starts at a multiple of the scalars that one index step spans.
bool Parser::parseInitializerLevel(InitializerPosition &position, std::size_t level) {
  if (level > maxInitializerNesting)
    return fail("initialisers are nested too deeply", tok.text());
  advance(); // {
  const std::uint64_t base = position.element;
  const std::uint64_t stride = level < position.strides.size() ? position.strides[level] : 1;
  std::uint64_t index = 0;
  while (!tok.is('}')) {
    const std::string_view start = tok.text();
    if (tok.is('{')) {
      position.element = base + index * stride;
      if (!parseInitializerLevel(position, level + 1))
        return false;
      position.element = base + ++index * stride;
    } else {
      Initializer initializer;
      if (!parseInitializerValue(initializer))
        return false;
      initializer.element = position.element++;
      index = stride ? (position.element - base + stride - 1) / stride : index + 1;
      initializerStack.push_back(initializer);
    }
    if (position.element > position.limit)
      return fail("more initialisers than the variable has elements", start);
    if (!accept(','))
      break;
  }
  return expect('}', "'}' after the initialiser");
}

// Parses a number, an address, or `0xff00(address)`, which is one byte of the address.
bool Parser::parseInitializerValue(Initializer &initializer) {
  const Token start = tok;
  const Literal mask = tok.kind == TokenKind::Number ? evaluateLiteral(tok.text()) : Literal{};
  if (mask.kind != Literal::Kind::Integer)
    return parsePlainInitializer(initializer);
  advance();
  if (tok.is(',') || tok.is('}')) { // the common case is short: tables are long
    initializer.bits = mask.bits;
    return true;
  }
  if (!accept('(')) {
    restartAt(start);
    return parsePlainInitializer(initializer);
  }
  const std::size_t from = operandStack.size();
  Initializer inner;
  if (!parsePlainInitializer(inner) || !expect(')', "')' after the masked address"))
    return false;
  operandStack.push_back(inner.value());
  initializer.generic = inner.generic;
  Operand masked;
  masked.kind = OperandKind::Opaque;
  masked.bits = mask.bits;
  masked.children = keep(operandStack, from);
  masked.text = textFrom(start.begin);
  setOperand(initializer, masked);
  return true;
}

// A number, `name+4`, `generic(name)+4`, or `addr_mode_0 = wrap` of a sampler.
bool Parser::parsePlainInitializer(Initializer &initializer) {
  const Token start = tok;
  Operand value;
  if (tok.kind == TokenKind::Identifier && tok.text() == "generic") {
    advance();
    if (!expect('(', "'(' after generic") || !parseOperand(value, 1) || !expect(')', "')'"))
      return false;
    initializer.generic = true;
    std::uint64_t offset = 0;
    if ((tok.is('+') || tok.is('-')) && !parseOffset(offset))
      return diagnostic ? false : failAtToken("an offset");
    value.bits += offset;
    value.text = textFrom(start.begin);
    setOperand(initializer, value);
    return true;
  }
  if (!parseOperand(value, 1))
    return false;
  if (accept('=')) {
    Operand ignored;
    if (!parseOperand(ignored, 1))
      return false;
    value = Operand{};
    value.text = textFrom(start.begin);
  }
  setOperand(initializer, value);
  return true;
}

void Parser::setOperand(Initializer &initializer, const Operand &value) {
  if (value.kind == OperandKind::Integer)
    initializer.bits = value.bits;
  else
    initializer.operand = allocator->copy(&value, 1);
}

} // namespace tally::ptx
