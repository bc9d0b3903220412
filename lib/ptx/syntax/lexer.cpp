#include "lexer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>

namespace tally::ptx {

namespace {

enum CharClass : std::uint8_t {
  Space = 1,
  NameStart = 2,
  NameFollow = 4,
  Digit = 8,
  Punct = 16,
  Nesting = 32 ///< a brace, or a start that may hide one: of a string, comment or line marker
};

constexpr std::array<std::uint8_t, 256> makeClasses() {
  std::array<std::uint8_t, 256> classes{};
  for (char c : std::string_view(" \t\r\n\f\v"))
    classes[static_cast<unsigned char>(c)] |= Space;
  for (int c = 'a'; c <= 'z'; ++c) {
    classes[c] |= NameStart | NameFollow;
    classes[c - 'a' + 'A'] |= NameStart | NameFollow;
  }
  for (int c = '0'; c <= '9'; ++c)
    classes[c] |= NameFollow | Digit;
  for (char c : std::string_view("_$"))
    classes[static_cast<unsigned char>(c)] |= NameStart | NameFollow;
  classes['%'] |= NameStart;
  for (char c : std::string_view(",;:{}[]()<>@!|+-*/&^~=?"))
    classes[static_cast<unsigned char>(c)] |= Punct;
  for (char c : std::string_view("{}\"/#"))
    classes[static_cast<unsigned char>(c)] |= Nesting;
  return classes;
}

constexpr std::array<std::uint8_t, 256> classes = makeClasses();

bool isIn(char c, std::uint8_t mask) { return classes[static_cast<unsigned char>(c)] & mask; }

const char *skipAll(const char *position, const char *limit, std::uint8_t mask) {
  while (position != limit && isIn(*position, mask))
    ++position;
  return position;
}

const char *skipName(const char *position, const char *limit) {
  return skipAll(position, limit, NameFollow);
}

} // namespace

bool Lexer::skipTrivia() {
  for (;;) {
    cursor = skipAll(cursor, limit, Space);
    if (limit - cursor < 2)
      return true;
    if (*cursor == '#') {
      if (!skipLineMarker())
        return true;
      continue;
    }
    if (*cursor != '/')
      return true;
    if (cursor[1] == '/') {
      const void *newline = std::memchr(cursor, '\n', static_cast<std::size_t>(limit - cursor));
      cursor = newline ? static_cast<const char *>(newline) + 1 : limit;
    } else if (cursor[1] == '*') {
      const std::string_view rest(cursor + 2, static_cast<std::size_t>(limit - cursor) - 2);
      const std::size_t close = rest.find("*/");
      if (close == std::string_view::npos)
        return false;
      cursor = rest.data() + close + 2;
    } else {
      return true;
    }
  }
}

bool Lexer::skipLineMarker() {
  std::string_view rest(cursor + 1, static_cast<std::size_t>(limit - cursor) - 1);
  if (rest.starts_with("line"))
    rest.remove_prefix(4);
  const std::size_t number = rest.find_first_not_of(" \t");
  if (number == std::string_view::npos || number == 0 || !isIn(rest[number], Digit))
    return false;
  const std::size_t newline = rest.find('\n');
  cursor = newline == std::string_view::npos ? limit : rest.data() + newline + 1;
  return true;
}

bool Lexer::skipBlock() {
  for (std::size_t open = 1; open != 0;) {
    cursor = std::find_if(cursor, limit, [](char c) { return isIn(c, Nesting); });
    if (cursor == limit)
      return false;
    const char *mark = cursor;
    switch (*mark) {
    case '"':
      if (next().kind == TokenKind::Invalid)
        return false;
      break;
    case '/':
    case '#':
      if (!skipTrivia())
        return false;
      cursor += cursor == mark; // no comment
      break;
    default:
      open += *mark == '{' ? 1 : -1;
      ++cursor;
    }
  }
  return true;
}

const char *Lexer::endOfNumber(const char *position) const {
  const char *start = position;
  const bool prefixed = *start == '0' && limit - start > 1 &&
                        std::string_view("xXbBfFdD").find(start[1]) != std::string_view::npos;
  position = skipName(position, limit);
  if (prefixed)
    return position;
  if (position != limit && *position == '.')
    position = skipName(position + 1, limit);
  // The sign of a decimal exponent.
  if (position != limit && (*position == '+' || *position == '-') &&
      (position[-1] == 'e' || position[-1] == 'E') && limit - position > 1 &&
      isIn(position[1], Digit))
    position = skipName(position + 1, limit);
  return position;
}

const char *Lexer::endOfDotWord(const char *position) const {
  position = skipName(position + 1, limit);
  // `.shared::cta`, `.mbarrier::complete_tx::bytes`
  while (limit - position > 2 && position[0] == ':' && position[1] == ':' &&
         isIn(position[2], NameFollow))
    position = skipName(position + 2, limit);
  return position;
}

Token Lexer::next() {
  Token token;
  const bool closed = skipTrivia();
  token.begin = cursor;
  if (!closed) {
    token.kind = TokenKind::Invalid;
    token.end = limit;
    return token;
  }
  if (cursor == limit) {
    token.end = cursor;
    return token;
  }
  const char c = *cursor;
  if (isIn(c, NameStart)) {
    token.kind = TokenKind::Identifier;
    cursor = skipName(cursor + 1, limit);
    if (c == '%' && cursor - token.begin == 1)
      token.kind = TokenKind::Punctuator; // the remainder operator
  } else if (isIn(c, Digit)) {
    token.kind = TokenKind::Number;
    cursor = endOfNumber(cursor);
  } else if (c == '.' && limit - cursor > 1 && isIn(cursor[1], NameFollow)) {
    token.kind = TokenKind::DotWord;
    cursor = endOfDotWord(cursor);
  } else if (isIn(c, Punct)) {
    token.kind = TokenKind::Punctuator;
    ++cursor;
  } else if (c == '"') {
    const std::string_view rest(cursor + 1, static_cast<std::size_t>(limit - cursor) - 1);
    const std::size_t close = rest.find_first_of("\"\n");
    const bool terminated = close != std::string_view::npos && rest[close] == '"';
    token.kind = terminated ? TokenKind::String : TokenKind::Invalid;
    cursor = terminated ? rest.data() + close + 1 : cursor + 1;
  } else {
    token.kind = TokenKind::Invalid;
    ++cursor;
  }
  token.end = cursor;
  return token;
}

namespace {

Literal parseInteger(std::string_view digits, int base) {
  Literal literal;
  const char *end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, literal.bits, base);
  if (!digits.empty() && stop == end && error == std::errc())
    literal.kind = Literal::Kind::Integer;
  return literal;
}

Literal parsePattern(std::string_view digits, std::size_t width, Literal::Kind kind) {
  Literal literal = digits.size() == width ? parseInteger(digits, 16) : Literal{};
  if (literal.kind == Literal::Kind::Integer)
    literal.kind = kind;
  return literal;
}

Literal parseFraction(std::string_view text) {
  double value = 0;
  const char *end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (stop != end || error != std::errc())
    return {};
  return {Literal::Kind::Float64, std::bit_cast<std::uint64_t>(value)};
}

} // namespace

Literal evaluateLiteral(std::string_view text) {
  if (text.size() > 1 && text[0] == '0') {
    switch (text[1]) {
    case 'f':
    case 'F':
      return parsePattern(text.substr(2), 8, Literal::Kind::Float32);
    case 'd':
    case 'D':
      return parsePattern(text.substr(2), 16, Literal::Kind::Float64);
    default:
      break;
    }
  }
  std::string_view digits = text;
  if (digits.size() > 1 && digits.back() == 'U')
    digits.remove_suffix(1);
  if (digits.size() > 1 && digits[0] == '0') {
    if (digits[1] == 'x' || digits[1] == 'X')
      return parseInteger(digits.substr(2), 16);
    if (digits[1] == 'b' || digits[1] == 'B')
      return parseInteger(digits.substr(2), 2);
    if (digits.find_first_of(".eE") == std::string_view::npos)
      return parseInteger(digits.substr(1), 8);
  }
  const Literal integer = parseInteger(digits, 10);
  if (integer.kind == Literal::Kind::Integer ||
      digits.find_first_of(".eE") == std::string_view::npos || digits.size() != text.size())
    return integer;
  return parseFraction(text);
}

} // namespace tally::ptx
