#include "verify_polls.h"

#include "tally/bundle/abi.h"
#include "tally/ptx/analysis/opcodes.h"
#include "verify_body.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSwitch.h"

#include <fmt/format.h>

#include <cstddef>
#include <set>
#include <span>

namespace tally::ptx {
namespace {

bool isWayOut(std::string_view label) {
  return label == "$tally_next" || label.starts_with("$tally_way_");
}

/// Returns the index of the label; the end of the body without it.
std::size_t placeOf(const Function &function, std::string_view label) {
  return labelOf(function, label).value_or(function.body.size());
}

bool isStrong(const Instruction &load) {
  return load.opcode == "ld" && (load.has("volatile") || (load.has("relaxed") && load.has("gpu")));
}

/// One poll: tally's statements around its nap, and the user's statement behind it.
class PollCheck {
public:
  PollCheck(const Function &variant, const std::set<std::string_view> &usersText, unsigned number)
      : body(variant.body), usersText(usersText), number(number),
        nap(placeOf(variant, fmt::format("$tally_nap_{}", number))),
        look(placeOf(variant, fmt::format("$tally_look_{}", number))) {}

  bool exists() const { return nap != body.size(); }

  std::optional<std::string> run() {
    if (look == body.size() || look < nap)
      return fmt::format("poll {} does not look where it has napped", number);
    for (begin = nap; begin > 1 && isOurs(begin - 1);)
      --begin;
    for (end = look + 1; end + 1 < body.size() && isOurs(end);)
      ++end;
    if (auto broken = checkWrites())
      return broken;
    if (auto broken = checkNap())
      return broken;
    return checkBranches();
  }

private:
  /// Whether a statement belongs to the poll. A nap does. The user may have naps too, but not
  /// between two of tally's statements.
  bool isOurs(std::size_t at) const {
    const Statement &each = body[at];
    if (at >= nap && at <= look)
      return true;
    if (each.kind == StatementKind::Label)
      return isOwnName(each.label);
    if (each.kind != StatementKind::Instruction || usersText.contains(each.text))
      return false;
    // A barrier of the user's in which threads that have left take part.
    if (isBlockBarrier(each.instruction) ||
        (each.instruction.opcode == "mov" && each.instruction.operands[0].symbol == "%tally_here"))
      return false;
    // A user's exit from the body.
    if (each.instruction.opcode == "bra" && isWayOut(each.instruction.operands[0].symbol))
      return false;
    // The user's instruction may read a virtual id, but no register of a poll.
    bool isUsers = true, isPolls = false;
    for (const Operand &operand : each.instruction.operands)
      forEachOperand(operand, [&](const Operand &part) {
        isPolls |= pollsOwn.contains(part.symbol);
        isUsers &= &operand != &each.instruction.operands[0] || !isOwnName(part.symbol);
      });
    return isPolls || !isUsers || each.instruction.opcode == "bra";
  }

  std::optional<std::string> checkWrites() const {
    for (std::size_t at = begin; at != end; ++at) {
      const Instruction &each = body[at].instruction;
      if (body[at].kind != StatementKind::Instruction)
        continue;
      bool isHarmless =
          llvm::StringSwitch<bool>(llvm::StringRef(each.opcode.data(), each.opcode.size()))
              .Cases({"ld", "mov", "setp", "and", "sub", "cvt", "cvta", "selp", "bra", "nanosleep"},
                     true)
              .Cases({"add", "div", "shl", "or", "mul", "mad", "shr"}, true)
              .Default(false);
      bool writesOthers = false;
      forEachWrittenRegister(each,
                             [&](const Operand &to) { writesOthers |= !isOwnName(to.symbol); });
      if (!isHarmless || writesOthers)
        return fmt::format("a poll does what the user can see: {}", body[at].text);
    }
    return std::nullopt;
  }

  bool loadsMode(const Instruction &each) const {
    return isStrong(each) && each.has("u8") && each.operands.size() == 2 &&
           each.operands[0].symbol == "%tally_mode";
  }

  /// Checks the code between the two labels: load, compare, leave; nap, and back to the first
  /// label.
  std::optional<std::string> checkNap() const {
    bool loaded = false, compared = false, leaves = false, naps = false;
    for (std::size_t at = nap + 1; at != look; ++at) {
      const Instruction &each = body[at].instruction;
      loaded |= loadsMode(each);
      compared |= loaded && each.opcode == "setp" && each.has("ne") && each.operands.size() == 3 &&
                  each.operands[1].symbol == "%tally_mode" &&
                  each.operands[2].bits == TALLY_CONTROL_PAUSE;
      leaves |= compared && each.opcode == "bra" && each.guard && !each.guard->predicate.negated &&
                each.operands[0].symbol == body[look].label;
      naps |= leaves && each.opcode == "nanosleep";
    }
    const Instruction &last = body[look - 1].instruction;
    if (!naps || last.opcode != "bra" || last.guard || last.operands[0].symbol != body[nap].label)
      return fmt::format("poll {} does not nap for as long as the control word says so", number);
    // Without a skip each poll tests the mode that it reads itself.
    bool skips = false;
    for (std::size_t at = begin; at != nap; ++at)
      skips |= body[at].kind == StatementKind::Instruction &&
               body[at].instruction.opcode == "bra" &&
               body[at].instruction.operands[0].symbol == body[look].label;
    bool loadsAgain = !skips;
    for (std::size_t at = look + 1; at != end; ++at)
      loadsAgain |= body[at].kind == StatementKind::Instruction && loadsMode(body[at].instruction);
    if (!loadsAgain)
      return fmt::format("poll {} does not read the control word by a strong load", number);
    return std::nullopt;
  }

  std::optional<std::string> checkBranches() const {
    std::set<std::string_view> inside;
    for (std::size_t at = begin; at != end; ++at)
      if (body[at].kind == StatementKind::Label)
        inside.insert(body[at].label);
    for (std::size_t at = begin; at != end; ++at) {
      const Instruction &each = body[at].instruction;
      if (body[at].kind == StatementKind::Instruction && each.opcode == "bra" &&
          !inside.contains(each.operands[0].symbol) && !goesWhereTheUserDoes(at) && !goesOn(at))
        return fmt::format("a poll leads elsewhere than behind itself: {}", body[at].text);
    }
    return std::nullopt;
  }

  /// Whether it is the branch of the inner loop, before a poll between two strips.
  bool goesOn(std::size_t at) const {
    const Instruction &each = body[at].instruction;
    return at < nap && each.guard &&
           each.guard->predicate.symbol == fmt::format("%tally_cut_{}", number) &&
           each.operands[0].symbol == fmt::format("$tally_go_{}", number);
  }

  /// Whether the branch at `at` is taken only where the user's branch behind the poll would be
  /// taken too.
  bool goesWhereTheUserDoes(std::size_t at) const {
    std::size_t behind = end;
    while (behind + 1 < body.size() && body[behind].kind == StatementKind::Location)
      ++behind;
    const Instruction &ours = body[at].instruction, &theirs = body[behind].instruction;
    const Instruction &test = body[at - 1].instruction;
    if (theirs.opcode != "bra" || theirs.operands.size() != 1 ||
        theirs.operands[0].symbol != ours.operands[0].symbol)
      return false;
    if (!theirs.guard)
      return true;
    return ours.guard && !ours.guard->predicate.negated && at > begin && test.opcode == "setp" &&
           test.has("and") && test.operands.size() == 4 &&
           test.operands[0].symbol == ours.guard->predicate.symbol &&
           test.operands[3].symbol == theirs.guard->predicate.symbol &&
           test.operands[3].negated == theirs.guard->predicate.negated;
  }

  static inline const std::set<std::string_view> pollsOwn = {
      "%tally_mode", "%tally_left", "%tally_turns", "%tally_turn",
      "%tally_poll", "%tally_due",  "%tally_nap"};

  std::span<const Statement> body;
  const std::set<std::string_view> &usersText;
  unsigned number;
  std::size_t nap, look, begin = 0, end = 0;
};

/// Checks how a worker without a further block stays. Thread 0 polls and naps, and then publishes
/// that the worker leaves. The other threads wait for thread 0.
class StayCheck {
public:
  explicit StayCheck(const Function &variant)
      : body(variant.body), take(placeOf(variant, "$tally_take")),
        stay(placeOf(variant, "$tally_stay")), judged(placeOf(variant, "$tally_stays")),
        publish(placeOf(variant, "$tally_publish")) {}

  std::optional<std::string> run() const {
    if (stay == body.size())
      return std::nullopt; // the worker leaves
    if (publish == body.size() || judged > publish || stay > judged)
      return "a worker that stays does not leave";
    if (!staysTogether())
      return "a worker's threads do not stay together";
    if (!napsInEachTurn())
      return "a worker that stays does not nap";
    if (!leavesOn("eq", [](const Instruction &each) {
          return isStrong(each) && each.has("u32") && each.operands[1].text == "[%tally_d2+4]";
        }))
      return "a worker stays though no other is live";
    if (!leavesOn("gt", [](const Instruction &each) { return isStrong(each) && each.has("u64"); }))
      return "a worker stays though its epoch has passed";
    if (!napsWherePaused())
      return "a worker leaves where others pause";
    return std::nullopt;
  }

private:
  static constexpr std::string_view yields = "%tally_yield";

  static bool goesTo(const Instruction &each, std::string_view label) {
    return each.opcode == "bra" && each.operands[0].symbol == label;
  }

  /// The code is a part of thread 0's turn, has no barrier, and leads only to the end of the turn.
  bool staysTogether() const {
    if (take > stay)
      return false;
    for (std::size_t at = stay; at != publish; ++at)
      if (const Instruction &each = body[at].instruction;
          each.opcode == "ret" || each.opcode == "exit" || isBlockBarrier(each) ||
          (each.opcode == "bra" && !goesTo(each, body[stay].label) &&
           !goesTo(each, body[judged].label) && !goesTo(each, body[publish].label)))
        return false;
    std::size_t says = publish;
    while (says != body.size() && body[says].instruction.opcode != "bra")
      ++says;
    return says != body.size() && !body[says].instruction.guard &&
           goesTo(body[says].instruction, "$tally_agree");
  }

  /// It looks again after each nap, and reaches the end of the turn only by a branch.
  bool napsInEachTurn() const {
    for (std::size_t at = stay + 1; at != publish; ++at)
      if (goesTo(body[at].instruction, body[stay].label) &&
          body[at - 1].instruction.opcode != "nanosleep")
        return false;
    const Instruction &last = body[publish - 1].instruction;
    return goesTo(last, body[stay].label) && !last.guard;
  }

  /// While the mode is PAUSE it tests nothing else before it naps.
  bool napsWherePaused() const {
    std::size_t goes = 0;
    for (std::size_t at = stay + 1; at != judged; ++at) {
      const Instruction &each = body[at].instruction;
      if (goesTo(each, body[publish].label))
        return false;
      if (goesTo(each, body[judged].label) && each.guard && body[at - 1].instruction.has("ne") &&
          body[at - 1].instruction.operands[2].bits == TALLY_CONTROL_PAUSE)
        goes = at;
    }
    const Instruction &last = body[judged - 1].instruction;
    return goes != 0 && last.opcode == "bra" && !last.guard;
  }

  /// Whether it loads a value, compares it, and leaves where the comparison holds.
  template <class IsLoad> bool leavesOn(std::string_view comparison, IsLoad isLoad) const {
    std::string_view loaded, compared;
    for (std::size_t at = stay + 1; at != publish; ++at) {
      const Instruction &each = body[at].instruction;
      if (body[at].kind != StatementKind::Instruction)
        continue;
      if (isLoad(each))
        loaded = each.operands[0].symbol;
      else if (each.opcode == "setp" && each.has(comparison) && !loaded.empty() &&
               each.operands[1].symbol == loaded)
        compared = each.operands[0].symbol;
      else if (compared == yields && each.guard && each.guard->predicate.symbol == yields &&
               !each.guard->predicate.negated && goesTo(each, body[publish].label))
        return true;
    }
    return false;
  }

  std::span<const Statement> body;
  std::size_t take, stay, judged, publish;
};

} // namespace

std::optional<std::string> checkStay(const Function &variant) { return StayCheck(variant).run(); }

std::optional<std::string> checkPolls(const Function &user, const Function &variant) {
  std::set<std::string_view> usersText;
  for (const Statement &each : user.body)
    usersText.insert(each.text);
  for (unsigned number = 0;; ++number) {
    PollCheck check(variant, usersText, number);
    if (!check.exists())
      return number == 0 ? std::optional<std::string>("no loop of the body polls") : std::nullopt;
    if (auto broken = check.run())
      return broken;
  }
}

} // namespace tally::ptx
