// The IR of a PTX module: lossless and opcode-agnostic.
//
// A Module owns its source text; every other string is a view into it. Each item and each statement
// holds `leading` (the white space and comments before it) and `text` (the statement itself with
// its final `;`). All leadings and texts in order are the whole source: print(parse(x)) == x by
// construction. The IR is immutable: a pass describes its variant as edits of the source
// (transforms/editor.h), and the result is parsed again. So emitted text always parses, and
// untouched text stays verbatim.
//
// An instruction is guard + opcode + modifiers + operands. The IR does not know what an opcode
// means. The parser resolves names (PTX declares before use), so shadowed registers differ by id.
#ifndef TALLY_PTX_IR_MODULE_H
#define TALLY_PTX_IR_MODULE_H

#include "tally/ptx/ir/bump_allocator.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tally::ptx {

/// Index of a register in its function; shadowing declarations have ids of their own.
using RegisterId = std::uint32_t;
inline constexpr RegisterId noRegister = ~RegisterId{0};

enum class OperandKind : std::uint8_t {
  Register,        ///< declared register; `reg` is set. `component` for a vector register's `.x`
  SpecialRegister, ///< `%tid.x`, `%laneid`, …: a `%` name without a declaration; text with
                   ///< component
  Symbol,  ///< variable, parameter, function or label name; `bits` is the offset of `name+4`
  Integer, ///< `bits` is the value, two's complement
  Float32, ///< `0f…`: `bits` is the 32-bit pattern
  Float64, ///< `0d…` or a decimal fraction: `bits` is the 64-bit pattern
  Address, ///< `[base+offset]`: children[0] is the base, `bits` the signed byte offset;
           ///< further children for `[base, {coordinates}]`; a bare `[4]` has an Integer base
  Vector,  ///< `{a, b, …}`: children
  Pair,    ///< `a|b`: two children
  List,    ///< `(a, b)` of a call: children
  Sink,    ///< `_`
  Opaque ///< a constant expression or a string that the parser does not interpret; children are the
         ///< names in it
};

/// One operand. `text` is verbatim, a leading `!` or `-` included.
struct Operand {
  OperandKind kind = OperandKind::Opaque;
  bool negated = false; ///< written with `!` (predicate) or `-` (register)
  std::string_view text;
  std::string_view symbol;     ///< name of Register, SpecialRegister (without component), Symbol
  std::string_view component;  ///< "x", "y", "z", "w", … of `%tid.x`; empty without one
  RegisterId reg = noRegister; ///< of a Register
  std::uint64_t bits = 0;      ///< see OperandKind; byte offset of a Symbol written `name+4`
  std::span<const Operand> children;
};

/// `@%p`, `@!%p`.
struct Guard {
  Operand predicate; ///< a Register; `negated` for `@!`
};

/// One instruction: `@%p ld.global.v4.u32 {…}, [%rd1+16];`
struct Instruction {
  const Guard *guard = nullptr;                ///< null without one
  std::string_view opcode;                     ///< "ld"
  std::span<const std::string_view> modifiers; ///< "global", "v4", "u32": without their dots
  std::span<const Operand> operands;

  /// Whether one of the modifiers is `modifier`.
  bool has(std::string_view modifier) const {
    // The first byte tells most modifiers apart without a call.
    for (std::string_view each : modifiers)
      if (each.size() == modifier.size() && each.front() == modifier.front() && each == modifier)
        return true;
    return false;
  }
};

enum class StateSpace : std::uint8_t { Register, Param, Global, Const, Shared, Local, Texture };

/// One initialiser element: a number, or a symbol (address of a variable or function) plus an
/// offset, perhaps through `generic(…)` or a byte mask `0xff(…)`.
struct Initializer {
  std::uint64_t element = 0; ///< index of the variable's scalar that it fills, from 0; not
                             ///< consecutive where an inner brace stops early
  std::uint64_t bits = 0;    ///< the value of a plain integer
  /// Every other kind of element: Float32, Float64, Symbol, or Opaque for the rarer forms. A mask
  /// is Opaque with the mask in `bits` and the symbol in `children`. Null for a plain integer,
  /// because tables hold a great many of them.
  const Operand *operand = nullptr;
  bool generic = false; ///< `generic(symbol)`

  /// Returns the element as an operand; a plain integer has no text.
  Operand value() const {
    if (operand)
      return *operand;
    Operand integer;
    integer.kind = OperandKind::Integer;
    integer.bits = bits;
    return integer;
  }
};

/// A variable or parameter declaration; RegisterDeclaration describes registers.
struct Variable {
  StateSpace space = StateSpace::Global;
  std::string_view name;
  std::string_view type;          ///< "b8", "u32", "f32", "texref", …; without its dot
  std::uint32_t vectorWidth = 1;  ///< 2 or 4 for `.v2`/`.v4`
  std::uint32_t alignment = 0;    ///< bytes: as written, or the natural alignment of the element
  std::uint64_t sizeInBytes = 0;  ///< 0 for an unsized array (`extern .shared x[]`)
  std::uint64_t elementCount = 1; ///< product of the array's extents; 0 when unsized
  bool isArray = false;
  bool isExtern = false;
  bool isPointer = false;        ///< `.ptr` on a kernel parameter
  std::uint32_t paramOffset = 0; ///< byte offset in the parameter space, of an entry's parameter
  std::span<const Initializer> initializers;
};

/// `.reg .b32 %r<8>;` declares %r0 … %r7 with ids first … first+7; `.reg .pred %p, %q;` is two
/// declarations.
struct RegisterDeclaration {
  std::string_view type;         ///< "b32", "pred", "f64", …
  std::uint32_t vectorWidth = 1; ///< 2 or 4 for `.v2`/`.v4`
  std::string_view name;         ///< without the number when `count` came from `<n>`
  bool isRange = false;          ///< written `name<count>`
  RegisterId first = 0;
  std::uint32_t count = 1;
};

enum class StatementKind : std::uint8_t {
  ScopeBegin,    ///< `{`
  ScopeEnd,      ///< `}`
  Label,         ///< `name:`; `label` is set
  Instruction,   ///< `instruction` is set
  Register,      ///< `.reg …;`: `registers`
  Variable,      ///< `.shared`, `.local`, `.param`, `.global`, `.const …;`: `variables`
  BranchTargets, ///< `label: .branchtargets a, b;` or `.calltargets`: `label`, `names`
  Prototype,     ///< `label: .callprototype …;`: `label`
  Pragma,        ///< `.pragma "…";` belongs to the statement after it
  Location,      ///< `.loc …`: no semicolon
  Directive      ///< anything else that starts with a dot
};

/// One statement of a body. Only the members that its kind names are set.
struct Statement {
  StatementKind kind = StatementKind::Directive;
  std::string_view leading, text;
  std::string_view label;
  Instruction instruction;
  std::span<const RegisterDeclaration> registers;
  std::span<const Variable> variables;
  std::span<const std::string_view> names;
};

/// A performance or shape directive between a function's header and its body: `.maxntid 256, 1, 1`.
struct HeaderDirective {
  std::string_view name; ///< "maxntid", without its dot
  std::string_view text; ///< whole, e.g. ".maxntid 256, 1, 1"
  std::span<const std::uint64_t> values;
};

/// An `.entry` or `.func`, with a body or without.
struct Function {
  std::string_view header; ///< from the first linkage directive up to the body's `{`, exclusive;
                           ///< with its `;` when there is no body
  bool isEntry = false;
  bool hasBody = false;
  std::string_view linkage;       ///< "visible", "weak", "extern" or empty
  std::string_view name;          ///< points into `header`
  std::string_view parameterList; ///< `(…)` after the name, parentheses included; empty when
                                  ///< absent; points into `header`
  std::vector<Variable> results;  ///< `.func (.param .b32 r) f`
  std::vector<Variable> parameters;
  std::vector<HeaderDirective> directives;
  // The next three are empty where the module does not hold the body (syntax/entry_reader.h):
  std::span<const Statement> body;            ///< the first is the body's `{`, the last its `}`
  std::vector<RegisterDeclaration> registers; ///< all registers of the body, by `first`
  std::uint32_t registerCount = 0;            ///< all register ids are lower

  /// Bytes of an entry's user parameters, each at its natural or written alignment.
  std::uint32_t parameterBytes() const;
  /// The declaration of `reg`. O(log n).
  const RegisterDeclaration &declarationOf(RegisterId reg) const;
  const HeaderDirective *directive(std::string_view directiveName) const;
};

enum class ItemKind : std::uint8_t { Version, Target, AddressSize, Variable, Function, Directive };

/// A top-level item. Only the members that its kind names are set.
struct Item {
  ItemKind kind = ItemKind::Directive;
  std::string_view leading, text; ///< text of a Function is header and body together
  std::span<const Variable> variables;
  std::unique_ptr<Function> function;

  /// Whether the item is an entry with a body.
  bool isKernel() const { return function && function->isEntry && function->hasBody; }
};

/// `.alias name, of;`: `name`, declared without a body, is the function `of`.
struct Alias {
  std::string_view name, of;
};

/// A whole module. Movable: the source and the allocator live on the heap, so views stay valid.
class Module {
public:
  Module() = default;
  Module(Module &&) = default;
  Module &operator=(Module &&) = default;

  std::string_view source() const { return sourceText ? std::string_view(*sourceText) : ""; }
  const std::vector<Item> &items() const { return itemList; }
  /// source() without the NUL bytes at the end of text taken from a fatbin.
  std::string_view text() const { return source().substr(0, source().find_last_not_of('\0') + 1); }
  std::string_view trailing() const { return trailingText; } ///< after the last item

  std::uint32_t versionMajor() const { return major; }
  std::uint32_t versionMinor() const { return minor; }
  std::uint32_t targetArch() const { return arch; }         ///< 90 for `sm_90a`
  std::string_view target() const { return targetName; }    ///< "sm_90a"
  std::uint32_t addressSize() const { return addressBits; } ///< 64 or 32

  const std::vector<Alias> &aliases() const { return aliasList; }
  /// Returns the function with this name, or null: the definition where there is one (of an alias,
  /// the definition of its target), else a declaration.
  const Function *function(std::string_view functionName) const;
  /// 1-based line of a view into source(). O(log lines).
  std::uint32_t lineOf(std::string_view view) const;

private:
  friend class Parser;
  friend class EntryReader;
  std::unique_ptr<std::string> sourceText;
  std::unique_ptr<BumpAllocator> allocator;
  std::vector<Item> itemList;
  std::vector<Alias> aliasList;
  std::string_view trailingText, targetName;
  std::uint32_t major = 0, minor = 0, arch = 0, addressBits = 64;
  std::vector<std::uint32_t> lineStarts; ///< offset of each line
  std::unordered_map<std::string_view, const Function *> functionsByName;
};

} // namespace tally::ptx

#endif
