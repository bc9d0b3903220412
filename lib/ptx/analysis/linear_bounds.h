// Bounds of integers: sums over launch constants and one number that orders the blocks.
#ifndef TALLY_LIB_PTX_ANALYSIS_LINEAR_BOUNDS_H
#define TALLY_LIB_PTX_ANALYSIS_LINEAR_BOUNDS_H

#include "definitions.h"

#include <compare>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

namespace tally::ptx {

/// An unknown number that is constant for the whole launch, or for a block.
struct Unknown {
  enum class Kind : std::uint8_t {
    Parameter, ///< parameter `name`, at byte `number` / 128, of `number` % 128 bits
    Address,   ///< address of variable `name`
    Extent,    ///< special register `name`: %ntid or %nctaid
    Order,     ///< the block's place in the order: see LinearBounds
    Register   ///< value `number` of a register, while the search for its own bound runs
  };
  Kind kind = Kind::Order;
  std::string_view name;
  std::int64_t number = 0;

  auto operator<=>(const Unknown &) const = default;
};

/// constant + the sum of factor * unknown.
struct LinearForm {
  std::map<Unknown, std::int64_t> terms; ///< no factor is 0
  std::int64_t constant = 0;

  bool isConstant() const { return terms.empty(); }
  std::int64_t factorOf(const Unknown &unknown) const;
  LinearForm &add(const LinearForm &other, std::int64_t factor);
};

/// Finds bounds by following a register back through all its assignments: sums, products with
/// constants, masks, selections, and loop variables that only fall (for an upper bound) or only
/// grow (for a lower bound). Thread ids lie between 0 and the limits of the kernel's directives.
/// The analysis treats integers as unbounded: look_back.h gives the reason why that is right there.
class LinearBounds {
public:
  /// `tickets`: statements whose results are the block's place in the order. If empty, the order is
  /// %ctaid.x, and the grid has one dimension: %ctaid.y and .z are 0, %nctaid.y and .z are 1.
  LinearBounds(const Cfg &cfg, const Definitions &whole, std::set<std::uint32_t> tickets);

  /// Returns a bound of `operand`, which statement `at` reads.
  std::optional<LinearForm> of(const Operand &operand, std::uint32_t at, bool upper);

private:
  using Form = std::optional<LinearForm>;
  /// A register with the assignments that reach some place.
  using Value = std::pair<RegisterId, std::vector<std::uint32_t>>;

  std::vector<std::uint32_t> reaching(RegisterId reg, std::uint32_t at) const;
  Form ofRegister(RegisterId reg, std::uint32_t at, bool upper);
  Form ofAssignments(const Value &value, std::int64_t number, bool upper);
  Form ofSpecial(const Operand &operand, bool upper) const;
  Form ofAssignment(std::uint32_t statement, RegisterId reg, bool upper);
  Form ofProduct(const Operand &a, const Operand &b, std::uint32_t at, bool upper);
  Form ofSum(const Operand &a, const Operand &b, std::int64_t factor, std::uint32_t at, bool upper);
  Form ofMask(const Instruction &instruction, std::uint32_t at, bool upper);
  Form ofShift(const Instruction &instruction, std::uint32_t at, bool upper);
  static Form join(Form a, Form b, bool upper);

  const Cfg &cfg;
  const Definitions &whole;
  std::set<std::uint32_t> tickets;
  std::map<Value, std::int64_t> numbers; ///< numbers of values, in the order of their discovery
  std::set<std::int64_t> open;           ///< loop variables whose bound is being searched
  std::map<std::pair<std::int64_t, bool>, Form> known;
  unsigned depth = 0;
  unsigned work = 0; ///< assignments visited; the search gives up at a limit
};

} // namespace tally::ptx

#endif
