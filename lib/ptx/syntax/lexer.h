// Source text → tokens. Internal to the parser.
//
// Tokens are views into the text. The lexer skips white space and comments; a caller that needs
// them takes the bytes between two tokens. The lexer allocates nothing per token.
#ifndef TALLY_LIB_PTX_SYNTAX_LEXER_H
#define TALLY_LIB_PTX_SYNTAX_LEXER_H

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tally::ptx {

enum class TokenKind : std::uint8_t {
  End,        ///< end of the text
  Identifier, ///< `mov`, `%r1`, `$L__BB0_1`, `_`
  DotWord,    ///< `.global`, `.2d`, `.shared::cta`
  Number,     ///< every numeric literal, not yet checked
  String,     ///< `"…"`, quotes included
  Punctuator, ///< one character
  Invalid     ///< a byte that starts no token, or a comment or string without its end
};

struct Token {
  TokenKind kind = TokenKind::End;
  const char *begin = nullptr;
  const char *end = nullptr;

  std::string_view text() const {
    return std::string_view(begin, static_cast<std::size_t>(end - begin));
  }
  bool is(char punctuator) const { return kind == TokenKind::Punctuator && *begin == punctuator; }
  bool isDotWord(std::string_view word) const {
    return kind == TokenKind::DotWord && text().substr(1) == word;
  }
};

class Lexer {
public:
  Lexer() = default;
  explicit Lexer(std::string_view text) : cursor(text.data()), limit(text.data() + text.size()) {}

  Token next();
  /// Continues at `position`, which lies in the text.
  void restartAt(const char *position) { cursor = position; }
  /// Called behind a '{': continues behind the matching '}' without making tokens. Returns false
  /// where the '}' is missing, or where a comment or string has no end.
  bool skipBlock();
  const char *position() const { return cursor; }

private:
  /// Skips white space, comments and line markers. At a comment without its end it returns false
  /// and leaves the cursor there.
  bool skipTrivia();
  /// Skips `# 3 "file"` or `#line 3`, which a preprocessor leaves. For any other line that begins
  /// with # (ptxas rejects these) it returns false and skips nothing.
  bool skipLineMarker();
  const char *endOfNumber(const char *position) const;
  const char *endOfDotWord(const char *position) const;

  const char *cursor = nullptr;
  const char *limit = nullptr;
};

/// Value of a numeric literal.
struct Literal {
  enum class Kind : std::uint8_t { Integer, Float32, Float64, Malformed };
  Kind kind = Kind::Malformed;
  std::uint64_t bits = 0;
};

/// PTX ISA 4.5: decimal, `0x`, `0b` and octal integers with an optional `U`, `0f`/`0d` bit
/// patterns, decimal fractions (64-bit). Malformed also where an integer needs more than 64 bits.
Literal evaluateLiteral(std::string_view text);

} // namespace tally::ptx

#endif
