#include "linear_bounds.h"

#include "pointer_roots.h"
#include "tally/ptx/analysis/opcodes.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"

#include <algorithm>
#include <bit>

namespace tally::ptx {
namespace {

constexpr unsigned maxDepth = 64, maxWork = 20000;
/// No program has larger factors and constants. The limit keeps sums far from overflow.
constexpr std::int64_t largest = std::int64_t{1} << 40;

LinearForm constant(std::int64_t value) { return {{}, value}; }

LinearForm single(Unknown unknown) { return {{{unknown, 1}}, 0}; }

bool isWordType(std::string_view type) {
  return type == "u32" || type == "s32" || type == "b32" || type == "u64" || type == "s64" ||
         type == "b64";
}

bool isSmall(const LinearForm &form) {
  bool small = std::abs(form.constant) < largest;
  for (const auto &[unknown, factor] : form.terms)
    small &= std::abs(factor) < largest;
  return small;
}

/// Whether the form has a term of a loop's variable.
bool namesVariable(const LinearForm &form) {
  return llvm::any_of(form.terms,
                      [](const auto &each) { return each.first.kind == Unknown::Kind::Register; });
}

/// Returns the maximum number of threads of a block.
std::int64_t threadLimit(const Function &function) {
  for (const char *name : {"reqntid", "maxntid"})
    if (const HeaderDirective *directive = function.directive(name)) {
      std::int64_t product = 1;
      for (std::uint64_t extent : directive->values)
        product *= static_cast<std::int64_t>(std::clamp<std::uint64_t>(extent, 1, 1024));
      return std::min<std::int64_t>(product, 1024);
    }
  return 1024;
}

} // namespace

std::int64_t LinearForm::factorOf(const Unknown &unknown) const {
  auto found = terms.find(unknown);
  return found == terms.end() ? 0 : found->second;
}

LinearForm &LinearForm::add(const LinearForm &other, std::int64_t factor) {
  constant += factor * other.constant;
  for (const auto &[unknown, times] : other.terms) {
    std::int64_t &sum = terms[unknown];
    sum += factor * times;
    if (sum == 0)
      terms.erase(unknown);
  }
  return *this;
}

LinearBounds::LinearBounds(const Cfg &cfg, const Definitions &whole,
                           std::set<std::uint32_t> tickets)
    : cfg(cfg), whole(whole), tickets(std::move(tickets)) {}

std::optional<LinearForm> LinearBounds::of(const Operand &operand, std::uint32_t at, bool upper) {
  if (operand.negated || !operand.component.empty())
    return operand.kind == OperandKind::SpecialRegister && !operand.negated
               ? ofSpecial(operand, upper)
               : std::nullopt;
  switch (operand.kind) {
  case OperandKind::Integer: {
    auto value = static_cast<std::int64_t>(operand.bits);
    // A larger value may be a negative number in 32 bits.
    bool plain = value >= -0x80000000ll && value <= 0x7fffffffll;
    return plain ? Form(constant(value)) : std::nullopt;
  }
  case OperandKind::Symbol: {
    LinearForm form = single({Unknown::Kind::Address, operand.symbol, 0});
    form.constant = static_cast<std::int64_t>(operand.bits);
    return form;
  }
  case OperandKind::SpecialRegister:
    return ofSpecial(operand, upper);
  case OperandKind::Register:
    return ofRegister(operand.reg, at, upper);
  default:
    return std::nullopt;
  }
}

std::optional<LinearForm> LinearBounds::ofSpecial(const Operand &operand, bool upper) const {
  std::string_view name = specialRegisterName(operand), axis = operand.component;
  auto between = [&](std::int64_t low, std::int64_t high) { return constant(upper ? high : low); };
  if (name == "tid" && axis.size() == 1)
    return between(0, std::min<std::int64_t>(threadLimit(cfg.function()), axis == "z" ? 64 : 1024) -
                          1);
  if (name == "laneid")
    return between(0, 31);
  bool orderedByBlock = tickets.empty();
  if (name == "ctaid")
    return !orderedByBlock ? Form() : axis == "x" ? single({}) : constant(0);
  if (name == "ntid" || (name == "nctaid" && (!orderedByBlock || axis == "x")))
    return single({Unknown::Kind::Extent, operand.text, 0});
  if (name == "nctaid")
    return constant(1);
  return std::nullopt;
}

std::optional<LinearForm> LinearBounds::join(Form a, Form b, bool upper) {
  if (!a || !b || a->terms != b->terms)
    return std::nullopt;
  a->constant = upper ? std::max(a->constant, b->constant) : std::min(a->constant, b->constant);
  return a;
}

std::vector<std::uint32_t> LinearBounds::reaching(RegisterId reg, std::uint32_t at) const {
  llvm::ArrayRef<std::uint32_t> assigned = whole.of(reg);
  if (assigned.size() < 2)
    return assigned.vec();
  std::set<std::uint32_t> result;
  // Adds the last assignments in `block` before `end`. Returns whether one of them surely executes.
  auto stops = [&](const CfgBlock &block, std::uint32_t end) {
    for (std::uint32_t each : llvm::reverse(assigned))
      if (each < end && cfg.blockOf(each) == &block) {
        result.insert(each);
        if (!cfg.instruction(each).guard)
          return true;
      }
    return false;
  };
  const CfgBlock *start = cfg.blockOf(at);
  std::set<const CfgBlock *> seen;
  llvm::SmallVector<const CfgBlock *, 8> worklist;
  if (!stops(*start, at))
    worklist.push_back(start);
  while (!worklist.empty())
    for (const CfgBlock *before : worklist.pop_back_val()->predecessors)
      if (seen.insert(before).second && !stops(*before, ~0u))
        worklist.push_back(before);
  return {result.begin(), result.end()};
}

std::optional<LinearForm> LinearBounds::ofRegister(RegisterId reg, std::uint32_t at, bool upper) {
  Value value{reg, reaching(reg, at)};
  std::int64_t number =
      numbers.try_emplace(value, static_cast<std::int64_t>(numbers.size())).first->second;
  if (auto found = known.find({number, upper}); found != known.end())
    return found->second;
  // The search has come back to the loop's variable. (Its other bound would be another number.)
  if (open.contains(number))
    return single({Unknown::Kind::Register, upper ? "upper" : "lower", number});
  if (value.second.empty() || depth > maxDepth)
    return std::nullopt;
  // In a cycle several assignments reach some place: from before the cycle and from inside it.
  if (value.second.size() > 1)
    open.insert(number);
  ++depth;
  Form result = value.second.size() == 1 ? ofAssignment(value.second[0], reg, upper)
                                         : ofAssignments(value, number, upper);
  --depth;
  open.erase(number);
  bool isUsable = result && isSmall(*result);
  if (!isUsable)
    result.reset();
  // A result that depends on a variable whose own bound is still open is valid only for that
  // search.
  bool isWhole = open.empty() || (isUsable && !namesVariable(*result));
  if (isWhole)
    known[{number, upper}] = result;
  return result;
}

std::optional<LinearForm> LinearBounds::ofAssignments(const Value &value, std::int64_t number,
                                                      bool upper) {
  Unknown self{Unknown::Kind::Register, upper ? "upper" : "lower", number};
  Form result;
  bool any = false;
  for (std::uint32_t statement : value.second) {
    Form form = ofAssignment(statement, value.first, upper);
    if (!form)
      return std::nullopt;
    if (form->factorOf(self) == 1) {
      // The variable of a loop: each turn moves it away from the bound, or leaves it.
      form->terms.erase(self);
      if (!form->isConstant() || (upper ? form->constant > 0 : form->constant < 0))
        return std::nullopt;
      continue;
    }
    result = any ? join(result, form, upper) : form;
    any = true;
    // A multiple of the variable itself, or its other bound, does not bound it.
    if (!result || llvm::any_of(result->terms, [&](const auto &each) {
          return each.first.kind == Unknown::Kind::Register && each.first.number == number;
        }))
      return std::nullopt;
  }
  return result;
}

std::optional<LinearForm> LinearBounds::ofSum(const Operand &a, const Operand &b,
                                              std::int64_t factor, std::uint32_t at, bool upper) {
  Form sum = of(a, at, upper);
  Form other = sum ? of(b, at, factor > 0 ? upper : !upper) : std::nullopt;
  return other ? Form(sum->add(*other, factor)) : std::nullopt;
}

std::optional<LinearForm> LinearBounds::ofProduct(const Operand &a, const Operand &b,
                                                  std::uint32_t at, bool upper) {
  for (auto [number, times] : {std::pair(&a, &b), std::pair(&b, &a)}) {
    Form low = of(*times, at, false), high = of(*times, at, true);
    if (!low || !high || !low->isConstant() || !high->isConstant() ||
        low->constant != high->constant)
      continue;
    std::int64_t factor = low->constant;
    Form form = of(*number, at, factor >= 0 ? upper : !upper);
    if (!form || !isSmall(*form) || std::abs(factor) > (1 << 22))
      return std::nullopt;
    return LinearForm().add(*form, factor);
  }
  return std::nullopt;
}

std::optional<LinearForm> LinearBounds::ofMask(const Instruction &instruction, std::uint32_t at,
                                               bool upper) {
  for (auto [number, mask] : {std::pair(1, 2), std::pair(2, 1)}) {
    const Operand &bits = instruction.operands[mask];
    if (bits.kind != OperandKind::Integer)
      continue;
    auto value = static_cast<std::int64_t>(bits.bits);
    if (instruction.modifiers.back().ends_with("32"))
      value = static_cast<std::int32_t>(value);
    if (value >= 0)
      return constant(upper ? value : 0);
    // -2^n rounds down to a multiple of 2^n.
    if (!std::has_single_bit(static_cast<std::uint64_t>(-value)))
      return std::nullopt;
    Form form = of(instruction.operands[number], at, upper);
    if (form && !upper)
      form->constant += value + 1;
    return form;
  }
  return std::nullopt;
}

std::optional<LinearForm> LinearBounds::ofShift(const Instruction &instruction, std::uint32_t at,
                                                bool upper) {
  const Operand &amount = instruction.operands[2];
  if (amount.kind != OperandKind::Integer || amount.bits > 20)
    return std::nullopt;
  Form form = of(instruction.operands[1], at, upper);
  if (!form || !isSmall(*form))
    return std::nullopt;
  if (instruction.opcode == "shl")
    return LinearForm().add(*form, std::int64_t{1} << amount.bits);
  // Only for a constant that is not negative: then logical and arithmetic shifts are the same.
  Form low = of(instruction.operands[1], at, false);
  if (!form->isConstant() || !low || !low->isConstant() || low->constant < 0)
    return std::nullopt;
  return constant(form->constant >> amount.bits);
}

std::optional<LinearForm> LinearBounds::ofAssignment(std::uint32_t statement, RegisterId reg,
                                                     bool upper) {
  const Instruction &instruction = cfg.instruction(statement);
  const auto &operands = instruction.operands;
  if (++work > maxWork)
    return std::nullopt;
  if (tickets.contains(statement))
    return single({});
  if (auto place = loadedParameter(cfg, whole, instruction, reg))
    return single({Unknown::Kind::Parameter, place->first,
                   place->second * 128 + (instruction.modifiers.back().ends_with("64") ? 64 : 32)});
  llvm::StringRef opcode(instruction.opcode.data(), instruction.opcode.size());
  if (operands.empty() || operands[0].kind != OperandKind::Register ||
      instruction.modifiers.empty() || !isWordType(instruction.modifiers.back()) ||
      instruction.has("cc") || instruction.has("hi") || instruction.has("sat"))
    return std::nullopt;
  if (operands.size() == 2) {
    bool same = opcode == "mov" || opcode == "cvta" ||
                (opcode == "cvt" && instruction.modifiers.size() == 2 &&
                 isWordType(instruction.modifiers[0]));
    if (same)
      return of(operands[1], statement, upper);
    if (opcode != "neg" && opcode != "not")
      return std::nullopt;
    Form form = of(operands[1], statement, !upper);
    return form ? Form(constant(opcode == "not" ? -1 : 0).add(*form, -1)) : std::nullopt;
  }
  if (operands.size() == 3) {
    if (opcode == "add" || opcode == "sub")
      return ofSum(operands[1], operands[2], opcode == "add" ? 1 : -1, statement, upper);
    if (opcode == "mul")
      return ofProduct(operands[1], operands[2], statement, upper);
    if (opcode == "and")
      return ofMask(instruction, statement, upper);
    if (opcode == "shl" || opcode == "shr")
      return ofShift(instruction, statement, upper);
    return std::nullopt;
  }
  if (opcode == "mad") {
    Form product = ofProduct(operands[1], operands[2], statement, upper);
    Form sum = product ? of(operands[3], statement, upper) : std::nullopt;
    return sum ? Form(sum->add(*product, 1)) : std::nullopt;
  }
  if (opcode != "selp")
    return std::nullopt;
  return join(of(operands[1], statement, upper), of(operands[2], statement, upper), upper);
}

} // namespace tally::ptx
