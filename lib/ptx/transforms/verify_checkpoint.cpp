#include "verify_checkpoint.h"

#include "kept_counter.h"
#include "tally/bundle/abi.h"
#include "tally/ptx/analysis/liveness.h"
#include "tally/ptx/analysis/opcodes.h"
#include "verify_body.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <ranges>
#include <set>
#include <span>

namespace tally::ptx {
namespace {

class CheckpointCheck {
public:
  CheckpointCheck(const Function &user, const Function &variant)
      : user(user), variant(variant), cfg(variant), liveness(cfg) {}

  std::optional<std::string> run() const {
    unsigned points = 0;
    while (section(fmt::format("$tally_poll_{}", points + 1)))
      if (auto broken = checkPoint(++points))
        return broken;
    if (points == 0)
      return "it has no point to stop at";
    if (auto broken = checkMeetings())
      return broken;
    if (labelOf(variant, "$tally_stopped"))
      if (auto broken = checkStopped())
        return broken;
    return checkBarriers();
  }

private:
  static constexpr auto npos = std::string_view::npos;
  using Statements = std::span<const Statement>;

  /// Returns the statements from the label to the next unconditional branch or return.
  std::optional<Statements> section(const std::string &label) const {
    auto begin = labelOf(variant, label);
    if (!begin)
      return std::nullopt;
    std::size_t end = *begin;
    while (end + 1 < variant.body.size()) {
      const Instruction &instruction = variant.body[end].instruction;
      if (variant.body[end].kind == StatementKind::Instruction && !instruction.guard &&
          (instruction.opcode == "bra" || instruction.opcode == "ret"))
        break;
      ++end;
    }
    return Statements(variant.body.data() + *begin, end - *begin + 1);
  }

  std::optional<std::string> checkPoint(unsigned number) const {
    bool looked = false, kept = false;
    Statements poll = *section(fmt::format("$tally_poll_{}", number));
    for (const Statement &each : poll) {
      const Instruction &instruction = each.instruction;
      if (each.kind != StatementKind::Instruction)
        continue;
      looked |= instruction.opcode == "ld" && instruction.has("global") && instruction.has("u64") &&
                isStrong(instruction);
      // The word of a kept counter is not saved itself.
      bool ofWord =
          each.text.find("[$tally_counter]") != npos || each.text.find("[$tally_block+16]") != npos;
      bool keeps = instruction.opcode == "st" && ofWord && isStrong(instruction);
      kept |= keeps;
      if (instruction.opcode == "ld" && ofWord && !kept)
        return fmt::format("a counter is saved that was not kept: {}", each.text);
      // A store to the thread's own memory, through which it passes the control word.
      bool launders = instruction.opcode == "st" && instruction.operands[0].text == "[%tally_d1]" &&
                      !instruction.has("global");
      if (instruction.opcode == "st" && !looked && !keeps && !launders)
        return fmt::format("it saves before it has looked at the control word: {}", each.text);
    }
    return checkRestored(number);
  }

  /// Checks the assignments on the path from the branch to the points up to the user's code. The
  /// path leads through the heads of the loops around the point's loop.
  std::optional<std::string> checkRestored(unsigned number) const {
    auto entrance = labelOf(variant, fmt::format("$tally_enter_{}", number));
    auto going = entrance ? entrance : labelOf(variant, fmt::format("$tally_head_{}", number));
    auto at = labelOf(variant, fmt::format("$tally_resume_{}", number));
    if (!at || !going)
      return fmt::format("point {} is not gone on from", number);
    if (entrance)
      if (auto broken = checkEntrance(*entrance))
        return broken;
    std::set<RegisterId> set;
    Digits digits;
    bool passes = true, chosen = false;
    for (std::size_t steps = 0; at != going;) {
      if (!at || *at == variant.body.size() || ++steps > variant.body.size())
        return fmt::format("point {} is not come to", number);
      const Statement &each = variant.body[*at];
      ++*at;
      if (each.kind == StatementKind::Label && each.label.starts_with("$tally_enter_"))
        if (auto broken = checkEntrance(*at - 1))
          return broken;
      if (each.kind == StatementKind::Label) {
        if (each.label.starts_with("$tally_counted_") && digits.isDone)
          set.insert(digits.counter);
        digits.label = each.label.starts_with("$tally_count_") ? each.label : "";
      }
      if (each.kind != StatementKind::Instruction)
        continue;
      const Instruction &instruction = each.instruction;
      if (instruction.opcode == "bra") {
        std::string_view guard = guardOf(instruction);
        if (!isOwnName(guard.empty() ? instruction.operands[0].symbol : guard))
          return fmt::format("who goes on at point {} may go elsewhere: {}", number, each.text);
        if (guard.empty() || (guard == "%tally_passes" && passes) ||
            (guard == "%tally_leave" && chosen))
          at = labelOf(variant, instruction.operands[0].symbol);
        continue;
      }
      if (instruction.opcode == "setp" && instruction.operands[0].symbol == "%tally_passes")
        passes = instruction.has("eq");
      if (instruction.opcode == "setp" && instruction.operands[0].symbol == "%tally_leave")
        chosen = instruction.operands[2].text == std::to_string(number);
      if (instruction.opcode == "shr")
        digits.shift = instruction.operands[2].bits;
      else if (!digits.label.empty() && instruction.opcode == "add")
        addDigit(instruction, digits);
      note(each, set);
    }
    if (passes && labelOf(variant, "$tally_inside_1"))
      return fmt::format("who goes on at point {} would leave the next turn out", number);
    std::size_t first = *going;
    while (variant.body[first].kind != StatementKind::Instruction)
      ++first;
    for (RegisterId reg : liveness.liveBefore(static_cast<std::uint32_t>(first)))
      if (!set.contains(reg) && !isOwnName(variant.declarationOf(reg).name))
        return fmt::format("a register is not restored at point {}: {}", number,
                           std::string(variant.declarationOf(reg).name) +
                               std::to_string(reg - variant.declarationOf(reg).first));
    return std::nullopt;
  }

  static bool isStrong(const Instruction &instruction) {
    return instruction.has("relaxed") || instruction.has("volatile");
  }

  /// A counter that the code counts up to its saved value, from its lowest digit on.
  struct Digits {
    RegisterId counter = noRegister;
    std::string_view label;  ///< label of the loop that adds the current digit
    std::uint64_t shift = 0; ///< shift of the current digit
    std::uint64_t next = 0;  ///< shift of the expected digit
    bool isDone = false;     ///< all digits have been added
  };

  void addDigit(const Instruction &add, Digits &digits) const {
    RegisterId into = add.operands[0].reg;
    if (into == noRegister || add.operands[1].reg != into ||
        isOwnName(variant.declarationOf(into).name))
      return;
    if (into != digits.counter)
      digits = {into, digits.label, digits.shift, 0, false};
    bool isNext = digits.shift == digits.next && add.operands[2].bits == 1ull << digits.shift;
    digits.next += isNext ? keptDigit : 0;
    digits.isDone = digits.next == (add.modifiers[0].ends_with("64") ? 64 : 32);
  }

  static std::string_view guardOf(const Instruction &instruction) {
    return instruction.guard ? instruction.guard->predicate.symbol : std::string_view();
  }

  /// Adds to `set` the registers that the statement sets. A register computed from an unset user
  /// register is not set, and neither is a register that only gets a placeholder 0.
  void note(const Statement &statement, std::set<RegisterId> &set) const {
    const Instruction &instruction = statement.instruction;
    bool known = instruction.opcode != "mov" || instruction.operands[1].text != "0" ||
                 isTheirs(statement.text);
    forEachReadRegister(instruction, [&](const Operand &operand) {
      known &= set.contains(operand.reg) || isOwnName(variant.declarationOf(operand.reg).name);
    });
    forEachWrittenRegister(instruction, [&](const Operand &operand) {
      if (!known)
        set.erase(operand.reg);
      else if (!instruction.guard)
        set.insert(operand.reg);
    });
  }

  bool isTheirs(std::string_view text) const {
    return std::ranges::any_of(user.body, [&](const Statement &each) { return each.text == text; });
  }

  /// Before a loop the variant only repeats instructions of the user's kernel that are the only
  /// assignment of their register.
  std::optional<std::string> checkEntrance(std::size_t at) const {
    while (variant.body[++at].kind == StatementKind::Instruction) {
      const Statement &made = variant.body[at];
      const Operand &into = made.instruction.operands[0];
      std::map<RegisterId, unsigned> assigned; // inner scopes may declare the same name
      std::optional<RegisterId> same;
      for (const Statement &each : user.body)
        if (each.kind == StatementKind::Instruction)
          forEachWrittenRegister(each.instruction, [&](const Operand &operand) {
            if (operand.symbol != into.symbol)
              return;
            ++assigned[operand.reg];
            if (each.text == made.text || readsIdOf(each.instruction, made.instruction))
              same = operand.reg;
          });
      if (made.instruction.guard || !same || assigned[*same] != 1)
        return fmt::format("it is not what the user's kernel does: {}", made.text);
    }
    return std::nullopt;
  }

  /// Whether `made` gives the virtual id that `user` reads.
  static bool readsIdOf(const Instruction &user, const Instruction &made) {
    if (user.opcode != "mov" || user.operands.size() != 2 || made.operands.size() != 2)
      return false;
    std::string_view name = specialRegisterName(user.operands[1]);
    std::string component(user.operands[1].component);
    if (name == "ctaid" && made.opcode == "mov")
      return made.operands[1].text == "%tally_ctaid_" + component;
    if (name == "ctaid")
      return made.opcode == "ld" && made.has("shared") &&
             made.operands[1].text ==
                 fmt::format("[$tally_block+{}]", 4 + 4 * (component[0] - 'x'));
    return name == "nctaid" && made.opcode == "ld" && made.has("param") &&
           made.operands[1].text ==
               fmt::format("[$tally_launch+{}]",
                           offsetof(tally_launch_params, grid) + 4 * (component[0] - 'x'));
  }

  static bool meets(const Statement &each) {
    return each.kind == StatementKind::Instruction && isBlockBarrier(each.instruction);
  }

  std::optional<std::string> checkMeetings() const {
    auto departs = labelOf(variant, "$tally_depart"),
         restores = labelOf(variant, "$tally_other_than_run"),
         resumes = labelOf(variant, "$tally_resume_1");
    if (!departs || !restores || !resumes)
      return "it neither saves nor restores";
    bool waited = !copiesAsync(), met = false;
    for (std::size_t i = *departs; i != variant.body.size(); ++i) {
      const Instruction &instruction = variant.body[i].instruction;
      if (variant.body[i].kind == StatementKind::Instruction && instruction.opcode == "ret")
        break;
      waited |= instruction.opcode == "cp" && instruction.has("wait_all");
      met |= meets(variant.body[i]);
      if (instruction.opcode == "ld" && instruction.has("shared") &&
          variant.body[i].text.find("$tally_block") == npos && !(waited && met))
        return "shared memory is saved while it may be written";
    }
    bool restored = false;
    for (std::size_t i = *restores; i != *resumes; ++i) {
      const Instruction &instruction = variant.body[i].instruction;
      restored |= instruction.opcode == "st" && instruction.has("shared");
      if (meets(variant.body[i]))
        restored = false;
    }
    if (restored)
      return "a thread goes on while shared memory is restored";
    return std::nullopt;
  }

  /// Checks threads that stop one by one: each saves its point, announces its exit so that all
  /// threads that meet later see it, and exits; the other threads test behind the meeting.
  std::optional<std::string> checkStopped() const {
    bool saved = false, said = false, isSeen = false;
    std::size_t at = labelOf(variant, "$tally_stow").value_or(variant.body.size());
    for (; at != variant.body.size(); ++at) {
      const Instruction &instruction = variant.body[at].instruction;
      if (variant.body[at].kind != StatementKind::Instruction)
        continue;
      if (instruction.opcode == "ret")
        break;
      if (instruction.opcode == "bra" && instruction.operands[0].symbol != "$tally_stopped" &&
          !instruction.operands[0].symbol.starts_with("$tally_local_") &&
          !instruction.operands[0].symbol.starts_with("$tally_stage_"))
        return fmt::format("who has stopped goes elsewhere: {}", variant.body[at].text);
      saved |= stores(instruction, "global") && instruction.operands[1].symbol == "%tally_stopped";
      said |= stores(instruction, "shared") && instruction.operands[0].text == "[$tally_spent]";
      isSeen |= said && instruction.opcode == "membar";
    }
    if (at == variant.body.size() || !saved || !isSeen)
      return "who has stopped does not save where, say so and exit";
    return checkAsked();
  }

  /// Checks that at the loop's head the block meets, tests for stopped threads, and then leaves.
  std::optional<std::string> checkAsked() const {
    bool met = false, asked = false;
    for (std::size_t at = labelOf(variant, "$tally_next").value_or(variant.body.size());
         at < variant.body.size() && variant.body[at].instruction.opcode != "bra"; ++at) {
      const Instruction &instruction = variant.body[at].instruction;
      met |= meets(variant.body[at]);
      asked |= met && instruction.opcode == "ld" && instruction.has("shared") &&
               instruction.operands[1].text == "[$tally_spent]";
      if (asked && variant.body[at + 1].instruction.opcode == "bra" &&
          variant.body[at + 1].instruction.operands[0].symbol == "$tally_depart")
        return std::nullopt;
    }
    return "a block that some threads have stopped in is taken for done";
  }

  static bool stores(const Instruction &instruction, std::string_view space) {
    return instruction.opcode == "st" && instruction.has(space);
  }

  bool copiesAsync() const {
    return std::ranges::any_of(user.body, [](const Statement &each) {
      return each.kind == StatementKind::Instruction && each.instruction.opcode == "cp" &&
             each.instruction.has("async") && !each.instruction.has("bulk");
    });
  }

  static bool isAligned(const Statement &each) {
    return each.kind == StatementKind::Instruction && isAlignedBarrier(each.instruction);
  }

  /// ptxas takes the aligned form for a promise that the warp is whole. It is allowed at the user's
  /// barriers, if no loop has two entrances, and where the block meets again right behind a meeting
  /// of tally's. Threads reach tally's other barriers from many places.
  std::optional<std::string> checkBarriers() const {
    auto theirs = std::ranges::count_if(user.body, isAligned);
    auto first = std::ranges::find_if(variant.body, isAligned);
    if (first == variant.body.end())
      return std::nullopt;
    if (!everyLoopHasOneHead(cfg))
      return fmt::format("a barrier in the aligned form, and a loop with two ways in: {}",
                         first->text);
    theirs += meetsAgain();
    if (std::ranges::count_if(variant.body, isAligned) > theirs)
      return fmt::format("tally's barriers are in the aligned form, or some: {}", first->text);
    return std::nullopt;
  }

  /// Whether the block meets in the aligned form behind another meeting of tally's, where it reads
  /// thread 0's publication.
  bool meetsAgain() const {
    auto agrees = labelOf(variant, "$tally_agree");
    bool met = false;
    for (std::size_t i = agrees.value_or(variant.body.size());
         i < variant.body.size() && variant.body[i].instruction.opcode != "bra"; ++i) {
      if (met && isAligned(variant.body[i]))
        return true;
      met |= meets(variant.body[i]);
    }
    return false;
  }

  const Function &user;
  const Function &variant;
  Cfg cfg;
  Liveness liveness;
};

} // namespace

std::optional<std::string> checkCheckpoint(const Function &user, const Function &variant) {
  return CheckpointCheck(user, variant).run();
}

} // namespace tally::ptx
