// The recursive-descent parser. Internal; the parse_*.cpp files hold its parts by theme.
//
// Conventions: a parse function returns false once a diagnostic is set, and the parse ends. `tok`
// is the next unconsumed token. Every recursion has a limit.
#ifndef TALLY_LIB_PTX_SYNTAX_PARSER_IMPL_H
#define TALLY_LIB_PTX_SYNTAX_PARSER_IMPL_H

#include "lexer.h"
#include "scope.h"

#include "tally/ptx/ir/module.h"
#include "tally/ptx/syntax/diagnostic.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace tally::ptx {

/// The part that the names of one declaration share: `.visible .global .align 4 .b8`.
struct DeclarationHead {
  std::optional<StateSpace> space;
  std::string_view type;
  std::string_view linkage;
  std::uint32_t vectorWidth = 1;
  std::uint32_t alignment = 0; ///< 0 when not written
  bool isPointer = false;
};

/// The position of the next initialiser in a variable, counted in scalars.
struct InitializerPosition {
  const std::vector<std::uint64_t> &strides; ///< scalars per index step, by nesting level
  std::uint64_t element;                     ///< the next scalar
  std::uint64_t limit;                       ///< scalars of the whole variable
};

class Parser {
public:
  explicit Parser(std::string source);
  std::variant<Module, Diagnostic> run();

private:
  friend class EntryReader;

  // parser.cpp: tokens, errors, storage, items
  void advance() {
    previousEnd = tok.end;
    tok = lexer.next();
  }
  void restartAt(const Token &token);
  bool accept(char punctuator) {
    if (!tok.is(punctuator))
      return false;
    advance();
    return true;
  }
  bool expect(char punctuator, std::string_view what);
  bool fail(std::string message, std::string_view where);
  bool failAtToken(std::string_view expected);
  std::string_view textFrom(const char *begin) const {
    return std::string_view(begin, static_cast<std::size_t>(previousEnd - begin));
  }
  template <class T> std::span<const T> keep(std::vector<T> &stack, std::size_t from);
  bool parseUnsigned(std::uint64_t &value, std::uint64_t limit, std::string_view what);
  bool skipToSemicolon();
  bool skipBlock();
  bool skipParentheses();
  void indexLines();
  bool parseModule();
  bool nameFunctions();
  bool parseItem();
  bool parseItemText(Item &item);
  bool parseVersion();
  bool parseTarget();
  bool parseAddressSize();
  bool parseAlias();
  bool parseFile();
  bool parseSection();

  // parse_declaration.cpp
  bool parseHead(DeclarationHead &head);
  bool parseHeadWord(DeclarationHead &head);
  bool parseAlignment(std::uint32_t &alignment);
  bool parseBank();
  bool parseDeclarator(const DeclarationHead &head, Variable &variable);
  bool parseExtents(const DeclarationHead &head, Variable &variable,
                    std::vector<std::uint64_t> &extents);
  bool layOut(const DeclarationHead &head, Variable &variable,
              const std::vector<std::uint64_t> &extents);
  bool parseDeclarators(const DeclarationHead &head, std::span<const Variable> &variables);
  bool sizeFromInitializer(Variable &variable, std::uint64_t outer, std::uint64_t inner);
  bool declareName(std::string_view name);
  bool parseRegisters(std::span<const RegisterDeclaration> &registers);
  bool addRegister(RegisterDeclaration &declaration);
  bool declareInScope(const RegisterDeclaration &declaration);
  bool addModuleRegister(RegisterDeclaration &declaration);

  // parse_initializer.cpp
  bool parseInitializer(Variable &variable, const std::vector<std::uint64_t> &extents);
  bool parseInitializerLevel(InitializerPosition &position, std::size_t level);
  bool parseInitializerValue(Initializer &initializer);
  bool parsePlainInitializer(Initializer &initializer);
  void setOperand(Initializer &initializer, const Operand &value);

  // parse_function.cpp
  bool parseFunction(Item &item, const DeclarationHead &head, const char *begin);
  bool parseParameterList(std::vector<Variable> &variables);
  bool placeParameters();
  bool endsPrototype() const;
  bool parseHeaderDirectives();
  bool parseHeaderDirective();
  bool parseBody();
  bool skipBody();
  bool parseStatement();
  bool parseLabelled(const Token &name, Statement &statement);
  bool parseDirectiveStatement(Statement &statement);
  bool parseLocation();
  bool parseNames(std::span<const std::string_view> &names);

  // parse_operand.cpp
  bool parseGuard(Statement &statement);
  bool parseGuarded(Statement &statement);
  bool parseInstruction(const Token &opcode, Statement &statement);
  bool parseOperandList(char close, std::span<const Operand> &operands, unsigned depth);
  bool parseOperand(Operand &operand, unsigned depth);
  bool parsePrimary(Operand &operand, unsigned depth);
  bool parseName(Operand &operand);
  bool parseAddress(Operand &operand, unsigned depth);
  bool parseOpaque(Operand &operand, const Token &start);
  bool parseBracketed(Operand &operand, OperandKind kind, char close, unsigned depth);
  bool parseArrayIndex(Operand &operand);
  std::uint64_t elementBytes(std::string_view variable) const;
  bool parseConstant(Operand &operand);
  bool atOperandEnd() const;
  bool evaluateSum(std::uint64_t &value, unsigned depth);
  bool evaluateTerm(std::uint64_t &value, unsigned depth);
  bool evaluateFactor(std::uint64_t &value, unsigned depth);
  bool parseOffset(std::uint64_t &value);

  Module module;
  BumpAllocator *allocator =
      nullptr; ///< allocator for parse results: the module's, except in EntryReader
  Lexer lexer;
  Token tok;
  const char *previousEnd = nullptr; ///< end of the last token consumed
  const char *itemEnd = nullptr;     ///< where the last item or statement ended
  std::optional<Diagnostic> diagnostic;

  ScopeTable scopes;
  std::vector<RegisterDeclaration> moduleRegisters; ///< registers that every function has
  Function *function = nullptr;                     ///< the function being parsed, or null
  bool skipsEntries = false;                        ///< leaves out the bodies of entries
  bool keepsBodies = true; ///< else a body's statements stay on their stack
  bool inCall = false;     ///< parentheses are an argument list, not an expression
  bool inMove = false;     ///< `array[1]` is an address, not the element's value

  // Stacks of incomplete lists; keep() moves their tops into the allocator.
  std::vector<Operand> operandStack;
  std::vector<std::string_view> wordStack;
  std::vector<Variable> variableStack;
  std::vector<RegisterDeclaration> registerStack;
  std::vector<Initializer> initializerStack;
  std::vector<Statement> statementStack;
};

template <class T> std::span<const T> Parser::keep(std::vector<T> &stack, std::size_t from) {
  const std::size_t count = stack.size() - from;
  if (count == 0)
    return {};
  const T *kept = allocator->copy(stack.data() + from, count);
  stack.resize(from);
  return std::span<const T>(kept, count);
}

} // namespace tally::ptx

#endif
