#include "verify_joins.h"

#include "tally/ptx/analysis/liveness.h"
#include "tally/ptx/analysis/opcodes.h"
#include "verify_body.h"

#include <fmt/format.h>

#include <set>
#include <span>

namespace tally::ptx {
namespace {

constexpr std::string_view saved = "%tally_saved";

class JoinCheck {
public:
  JoinCheck(const Function &user, const Function &variant) : variant(variant), body(variant.body) {
    for (const Statement &each : user.body)
      if (each.kind == StatementKind::Instruction)
        usersText.insert(each.text);
  }

  std::optional<std::string> run() {
    if (!labelOf(variant, "$tally_join_1"))
      return std::nullopt;
    for (unsigned i = 1; auto at = labelOf(variant, fmt::format("$tally_join_{}", i)); ++i)
      if (auto broken = checkJoin(*at))
        return broken;
    for (unsigned i = 1; auto at = labelOf(variant, fmt::format("$tally_poll_{}", i)); ++i)
      if (auto broken = checkStop(*at, i))
        return broken;
    if (auto broken = checkReads())
      return broken;
    return checkBegin();
  }

private:
  bool isInstruction(std::size_t at) const {
    return at < body.size() && body[at].kind == StatementKind::Instruction;
  }
  /// The next instruction from there on.
  std::size_t nextInstruction(std::size_t at) const {
    while (at < body.size() && !isInstruction(at))
      ++at;
    return at;
  }
  static bool isGuarded(const Instruction &each) {
    return each.guard && each.guard->predicate.symbol == saved;
  }
  static bool isBranch(const Instruction &each) { return each.opcode == "bra"; }

  /// Nothing stands between the label and the branch of those who have stopped, nor another label,
  /// by which somebody might come past it.
  std::optional<std::string> checkJoin(std::size_t label) {
    const Statement &first = body[label + 1];
    const Instruction &branch = first.instruction;
    if (first.kind != StatementKind::Instruction || !isBranch(branch) || !isGuarded(branch) ||
        branch.guard->predicate.negated || !branch.operands[0].symbol.starts_with("$tally_past_"))
      return fmt::format("a join does not lead on who has stopped: {}", first.text);
    judged.insert(label + 1);
    return std::nullopt;
  }

  /// Whether the instruction says that the thread has stopped, or that it has not, by a byte that
  /// is 0.
  bool says(std::size_t at, bool stopped) const {
    const Instruction &each = body[at].instruction;
    if (at < 2 || each.opcode != "setp" || each.guard || !each.has(stopped ? "eq" : "ne") ||
        each.operands[0].symbol != saved || each.operands[2].bits != 0)
      return false;
    const Instruction &masks = body[at - 1].instruction, &loads = body[at - 2].instruction;
    std::string_view byte = each.operands[1].symbol;
    return masks.opcode == "and" && masks.operands[0].symbol == byte &&
           masks.operands[1].symbol == byte && masks.operands[2].bits == 255 &&
           loads.opcode == "ld" && loads.has("param") && loads.operands[0].symbol == byte &&
           loads.operands[1].text.starts_with("[$tally_launch+");
  }

  /// From a poll, where a thread has stopped, to the meeting: where it saves, join by join.
  std::optional<std::string> checkStop(std::size_t poll, unsigned number) {
    bool stored = false, stopped = false, stowed = false;
    std::set<std::size_t> joins;
    for (std::size_t at = nextInstruction(poll), steps = 0;; at = nextInstruction(at)) {
      if (at == body.size() || ++steps > body.size())
        return fmt::format("who stops at point {} does not come to the meeting", number);
      const Instruction &each = body[at].instruction;
      stored |= each.opcode == "st" && each.has("global");
      if (says(at, true) && stored && !stopped) {
        stopped = true;
        stops.insert(at);
      }
      if (stopped && usersText.contains(body[at].text) && !isZero(each))
        return fmt::format("who has stopped at point {} does what is the user's: {}", number,
                           body[at].text);
      if (!isBranch(each) || (each.guard && !isGuarded(each))) {
        ++at;
        continue;
      }
      std::string_view target = each.operands[0].symbol;
      if (!stopped)
        return fmt::format("who stops at point {} does not say so: {}", number, body[at].text);
      if (target == "$tally_met")
        return stowed ? std::nullopt
                      : std::optional<std::string>("who has stopped does not save all");
      auto label = labelOf(variant, target);
      stowed |= target == "$tally_stow";
      if (!label || !(target == "$tally_stow" || target.starts_with("$tally_join_") ||
                      target.starts_with("$tally_past_")))
        return fmt::format("who has stopped at point {} goes elsewhere: {}", number, body[at].text);
      at = *label;
    }
  }

  /// Registers of the user's are set to 0 where who has stopped comes by, and nobody else.
  static bool isZero(const Instruction &each) {
    return each.opcode == "mov" && each.operands[1].text == "0";
  }

  /// What is said is asked at joins alone, until the block meets, and said by those alone that
  /// stop.
  std::optional<std::string> checkReads() const {
    for (std::size_t at = 0; at != body.size(); ++at) {
      if (!isInstruction(at))
        continue;
      const Instruction &each = body[at].instruction;
      bool writes = false;
      forEachWrittenRegister(each, [&](const Operand &to) { writes |= to.symbol == saved; });
      bool clears = isZero(each) && !each.guard && body[at + 1].label == "$tally_met";
      if (writes && !clears && !says(at, false) && !stops.contains(at))
        return fmt::format("who has not stopped says so: {}", body[at].text);
      bool isMet = isBranch(each) && each.operands[0].symbol == "$tally_departed";
      if (isGuarded(each) && !judged.contains(at) && !isMet)
        return fmt::format("who has stopped is led away at no join: {}", body[at].text);
    }
    return std::nullopt;
  }

  /// Each thread says that it has not stopped before it comes to a join, whatever it did before.
  std::optional<std::string> checkBegin() const {
    auto agrees = labelOf(variant, "$tally_agree");
    if (!agrees)
      return "the block does not agree on what it runs";
    Cfg cfg(variant);
    Liveness liveness(cfg);
    auto first = static_cast<std::uint32_t>(nextInstruction(*agrees));
    for (RegisterId reg : liveness.liveBefore(first))
      if (variant.declarationOf(reg).name == saved)
        return "a block begins without anybody saying that it has not stopped";
    return std::nullopt;
  }

  const Function &variant;
  std::span<const Statement> body;
  std::set<std::string_view> usersText;
  std::set<std::size_t> judged, stops;
};

} // namespace

std::optional<std::string> checkJoins(const Function &user, const Function &variant) {
  return JoinCheck(user, variant).run();
}

} // namespace tally::ptx
