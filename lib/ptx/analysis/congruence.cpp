#include "congruence.h"

#include "pointer_roots.h"
#include "shared_writes.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"

#include <algorithm>
#include <bit>
#include <optional>

namespace tally::ptx {
namespace {

constexpr unsigned maxDepth = 32, maxWork = 2000;

/// pointer + a multiple of 2^log + residue, modulo 2^64. `pointer` may be empty.
struct Residue {
  std::pair<std::string_view, std::int64_t> pointer;
  unsigned log = 0;
  std::uint64_t residue = 0;

  bool isNumber() const { return pointer.first.empty(); }
};

using Form = std::optional<Residue>;

/// Whether the instruction accesses exactly the bytes from its address on.
bool isSimple(const Instruction &access) {
  return access.opcode == "ld" || access.opcode == "st" || access.opcode == "atom" ||
         access.opcode == "red";
}

std::uint64_t lowBits(std::uint64_t value, unsigned count) {
  return count >= 64 ? value : value & ((std::uint64_t{1} << count) - 1);
}

class Residues {
public:
  Residues(const Cfg &cfg, const Definitions &whole) : cfg(cfg), whole(whole) {}

  Form ofAddress(const Instruction &access) {
    for (const Operand &operand : access.operands)
      if (operand.kind == OperandKind::Address)
        return operand.children.size() == 1
                   ? sum(of(operand.children[0]), Residue{{}, 64, operand.bits})
                   : std::nullopt;
    return std::nullopt;
  }

private:
  Form of(const Operand &operand) {
    if (operand.negated)
      return std::nullopt;
    if (operand.kind == OperandKind::Integer)
      return Residue{{}, 64, operand.bits};
    if (operand.kind == OperandKind::Symbol)
      return Residue{{operand.symbol, 0}, 64, operand.bits};
    if (operand.kind != OperandKind::Register || depth > maxDepth || ++work > maxWork)
      return std::nullopt;
    Form result;
    ++depth;
    for (std::uint32_t statement : whole.of(operand.reg)) {
      Form each = ofAssignment(cfg.instruction(statement), operand.reg);
      result = result ? join(*result, each) : each;
      if (!result)
        break;
    }
    --depth;
    return result;
  }

  Form ofAssignment(const Instruction &instruction, RegisterId reg) {
    if (auto place = loadedParameter(cfg, whole, instruction, reg);
        place && instruction.modifiers.back().ends_with("64"))
      return Residue{*place, 64, 0};
    const auto &operands = instruction.operands;
    llvm::StringRef opcode(instruction.opcode.data(), instruction.opcode.size());
    std::string_view type = instruction.modifiers.empty() ? "" : instruction.modifiers.back();
    if (operands.size() < 2 || operands[0].kind != OperandKind::Register || !isWord(type) ||
        instruction.has("hi") || instruction.has("sat"))
      return std::nullopt;
    if (operands.size() == 2 && (opcode == "mov" || opcode == "cvta"))
      return of(operands[1]);
    if (operands.size() == 2 && opcode == "cvt")
      return isWord(instruction.modifiers.front()) ? narrowed(of(operands[1])) : std::nullopt;
    if (operands.size() == 3 && opcode == "add" && !instruction.has("cc"))
      return sum(of(operands[1]), of(operands[2]));
    if (operands.size() == 3 && opcode == "mul")
      return product(operands[1], operands[2]);
    if (operands.size() == 4 && opcode == "mad")
      return sum(product(operands[1], operands[2]), of(operands[3]));
    if (operands.size() == 3 && operands[2].kind == OperandKind::Integer) {
      if (opcode == "shl" && operands[2].bits < 32)
        return times(of(operands[1]), std::uint64_t{1} << operands[2].bits);
      if (opcode == "and")
        return Residue{{}, static_cast<unsigned>(std::countr_zero(operands[2].bits)), 0};
    }
    return std::nullopt;
  }

  static Form join(const Residue &a, const Form &b) {
    if (!b || a.pointer != b->pointer)
      return std::nullopt;
    unsigned differs = static_cast<unsigned>(std::countr_zero(a.residue ^ b->residue));
    unsigned log = std::min({a.log, b->log, differs});
    return Residue{a.pointer, log, lowBits(a.residue, log)};
  }

  static Form sum(const Form &a, const Form &b) {
    if (!a || !b || (!a->isNumber() && !b->isNumber()))
      return std::nullopt;
    unsigned log = std::min(a->log, b->log);
    return Residue{a->isNumber() ? b->pointer : a->pointer, log,
                   lowBits(a->residue + b->residue, log)};
  }

  /// An unknown number's multiple still has a known residue. Sums that wrap around keep their
  /// residue modulo a power of two.
  static Form times(const Form &number, std::uint64_t factor) {
    if (factor == 0 || (number && !number->isNumber()))
      return std::nullopt;
    Residue value = number.value_or(Residue{});
    unsigned log = std::min(value.log + static_cast<unsigned>(std::countr_zero(factor)), 64u);
    return Residue{{}, log, lowBits(value.residue * factor, log)};
  }

  Form product(const Operand &a, const Operand &b) {
    if (b.kind == OperandKind::Integer)
      return times(of(a), b.bits);
    return a.kind == OperandKind::Integer ? times(of(b), a.bits) : std::nullopt;
  }

  /// A conversion between 32 and 64 bits keeps the low 32.
  static Form narrowed(const Form &number) {
    if (!number || !number->isNumber())
      return std::nullopt;
    unsigned log = std::min(number->log, 32u);
    return Residue{{}, log, lowBits(number->residue, log)};
  }

  const Cfg &cfg;
  const Definitions &whole;
  unsigned depth = 0;
  unsigned work = 0; ///< registers visited; the analysis gives up at a limit
};

} // namespace

bool areApart(const Cfg &cfg, const Definitions &whole, const Instruction &one,
              const Instruction &other) {
  std::int64_t bytes = accessedBytes(one), otherBytes = accessedBytes(other);
  Form a = Residues(cfg, whole).ofAddress(one), b = Residues(cfg, whole).ofAddress(other);
  if (!isSimple(one) || !isSimple(other) || !a || !b || a->isNumber() || a->pointer != b->pointer ||
      bytes == 0 || otherBytes == 0)
    return false;
  unsigned log = std::min({a->log, b->log, 16u});
  auto period = std::int64_t{1} << log;
  // Distance from the start of `other` to the start of `one`, within the period.
  auto behind = static_cast<std::int64_t>(lowBits(a->residue - b->residue, log));
  return behind >= otherBytes && behind + bytes <= period;
}

} // namespace tally::ptx
