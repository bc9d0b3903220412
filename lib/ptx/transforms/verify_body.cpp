#include "verify_body.h"

#include "emit.h"
#include "tally/ptx/analysis/opcodes.h"

#include "llvm/ADT/StringRef.h"

#include <fmt/format.h>

#include <set>
#include <span>

namespace tally::ptx {
namespace {

bool readsGrid(const Operand &operand) {
  bool found = false;
  forEachOperand(operand, [&](const Operand &each) {
    std::string_view name = specialRegisterName(each);
    found |= each.kind == OperandKind::SpecialRegister &&
             (name == "ctaid" || name == "nctaid" || name == "clusterid" || name == "nclusterid");
  });
  return found;
}

/// Returns the names of tally's registers in `operand`.
std::set<std::string_view> ownRegisters(const Operand &operand) {
  std::set<std::string_view> names;
  forEachOperand(operand, [&](const Operand &each) {
    if (each.kind == OperandKind::Register && isOwnName(each.symbol))
      names.insert(each.symbol);
  });
  return names;
}

std::string_view guardText(const Instruction &instruction) {
  return instruction.guard ? instruction.guard->predicate.text : std::string_view();
}

bool sameOpcode(const Instruction &a, const Instruction &b) {
  return a.opcode == b.opcode && guardText(a) == guardText(b) &&
         std::equal(a.modifiers.begin(), a.modifiers.end(), b.modifiers.begin(), b.modifiers.end());
}

/// Returns a copy of `text` without the suffix of clones' names.
std::string withoutClones(std::string_view text) {
  constexpr std::string_view suffix = "$tally_virtual";
  std::string result(text);
  for (std::size_t at = result.find(suffix); at != std::string::npos; at = result.find(suffix, at))
    result.erase(at, suffix.size());
  return result;
}

class BodyCheck {
public:
  BodyCheck(const Module &module, const Function &user, const Function &rewritten,
            const AllowedChanges &allowed)
      : module(module), user(user), rewritten(rewritten), allowed(allowed) {
    findAgreed();
  }

  std::optional<std::string> run() {
    std::uint32_t at = 1;
    // Registers that tally's statements have written since the last label.
    std::set<std::string_view> written;
    for (std::uint32_t i = 1; i + 1 < user.body.size(); ++i) {
      std::uint32_t own = at; // tally's statements begin here
      while (at + 1 < rewritten.body.size() && !stands(user.body[i], rewritten.body[at]))
        ++at;
      if (at + 1 >= rewritten.body.size())
        return fmt::format("it has lost a statement of the user's: {}", user.body[i].text);
      for (; own != at; ++own) {
        if (auto broken = checkOwn(rewritten.body[own], own))
          return broken;
        noteWritten(rewritten.body[own], written);
      }
      if (auto broken = checkSet(user.body[i], rewritten.body[at], written))
        return broken;
      if (user.body[i].kind == StatementKind::Label)
        written.clear(); // a branch may enter here with nothing set
      ++at;
    }
    for (; at + 1 < rewritten.body.size(); ++at)
      if (auto broken = checkOwn(rewritten.body[at], at))
        return broken;
    return std::nullopt;
  }

private:
  /// Collects the virtual ids that the block reads together with the leave flag when it starts.
  void findAgreed() {
    std::span<const Statement> body = rewritten.body;
    auto at = std::find_if(body.begin(), body.end(), [](const Statement &each) {
      return each.kind == StatementKind::Label && each.label == "$tally_agree";
    });
    // Ends where the block leaves, or branches to a place other than the body.
    for (; at != body.end() && at->instruction.opcode != "ret" && at->instruction.opcode != "bra";
         ++at)
      if ((at->instruction.opcode == "ld" && at->instruction.has("shared") &&
           (at->text.ends_with("[$tally_block];") || at->text.ends_with("[%tally_ids];"))) ||
          isPartOfWord(*at))
        noteWritten(*at, agreed);
    agreedUpTo = static_cast<std::uint32_t>(at - body.begin());
  }

  /// Whether the statement extracts %ctaid.y or z from the packed word.
  bool isPartOfWord(const Statement &statement) const {
    return agreed.contains("%tally_flag") &&
           (statement.text == "and.b32 %tally_ctaid_y, %tally_flag, 65535;" ||
            statement.text == "shr.u32 %tally_ctaid_z, %tally_flag, 16;");
  }

  /// Whether `theirs` is `ours`, or its required replacement.
  bool stands(const Statement &ours, const Statement &theirs) const {
    if (ours.kind != theirs.kind)
      return false;
    if (ours.kind != StatementKind::Instruction)
      return ours.text == theirs.text;
    const Instruction &a = ours.instruction, &b = theirs.instruction;
    bool leaves = a.opcode == "ret" || a.opcode == "exit";
    if (allowed.leaves && leaves)
      return b.opcode == "bra" && guardText(a) == guardText(b) && b.operands.size() == 1 &&
             isWayOut(b.operands[0].symbol);
    if (allowed.leaves && a.opcode == "bra" && b.operands.size() == 1 &&
        b.operands[0].symbol.starts_with("$tally_way_"))
      return sameOpcode(a, b) && guardText(a) == guardText(b) && leadsToLeave(a);
    if (ours.text == theirs.text)
      return true;
    if (allowed.entrances && a.opcode == "bra" && b.operands.size() == 1 &&
        b.operands[0].symbol.starts_with("$tally_enter_"))
      return sameOpcode(a, b) && leadsOnTo(b.operands[0].symbol, a.operands[0].symbol);
    if (allowed.calls && a.opcode == "call")
      return sameOpcode(a, b) && withoutClones(theirs.text) == withoutAlias(ours);
    if (allowed.unaligned && isBlockBarrier(a) && theirs.text == emit::unalignedBarrier(ours))
      return true;
    if (allowed.barriers && isBlockBarrier(a))
      return isBlockBarrier(b) && guardText(a) == guardText(b) &&
             theirs.text.find("%tally_") != std::string_view::npos;
    return allowed.gridReads && sameOpcode(a, b) && sameButForGrid(a, b);
  }

  /// Returns the call's text with the function's name in place of an alias.
  std::string withoutAlias(const Statement &call) const {
    std::string text(call.text);
    for (const Operand &operand : call.instruction.operands)
      if (operand.kind == OperandKind::Symbol)
        if (const Function *callee = module.function(operand.symbol)) {
          text.replace(static_cast<std::size_t>(operand.text.data() - call.text.data()),
                       operand.text.size(), callee->name);
          break;
        }
    return text;
  }

  static bool isWayOut(std::string_view label) {
    return label == "$tally_next" || label.starts_with("$tally_way_");
  }

  /// Whether control runs from `entrance` in the rewritten body through to `label`.
  bool leadsOnTo(std::string_view entrance, std::string_view label) const {
    bool behind = false;
    for (const Statement &each : rewritten.body) {
      if (each.kind == StatementKind::Label && (behind |= each.label == entrance) &&
          each.label == label)
        return true;
      std::string_view opcode = each.instruction.opcode;
      if (behind && each.kind == StatementKind::Instruction &&
          (opcode == "bra" || opcode == "brx" || opcode == "ret" || opcode == "exit"))
        return false;
    }
    return false;
  }

  /// Whether the user's branch leads to an unguarded ret or exit.
  bool leadsToLeave(const Instruction &branch) const {
    auto at = std::find_if(user.body.begin(), user.body.end(), [&](const Statement &each) {
      return each.kind == StatementKind::Label && each.label == branch.operands[0].symbol;
    });
    while (at != user.body.end() &&
           (at->kind == StatementKind::Label || at->kind == StatementKind::Location))
      ++at;
    return at != user.body.end() && at->kind == StatementKind::Instruction &&
           !at->instruction.guard &&
           (at->instruction.opcode == "ret" || at->instruction.opcode == "exit");
  }

  static bool readsAnyGrid(const Instruction &instruction) {
    return std::any_of(instruction.operands.begin(), instruction.operands.end(), readsGrid);
  }

  static bool sameButForGrid(const Instruction &a, const Instruction &b) {
    return a.operands.size() == b.operands.size() &&
           std::equal(a.operands.begin(), a.operands.end(), b.operands.begin(),
                      [](const Operand &x, const Operand &y) {
                        return x.text == y.text ? !readsGrid(x)
                                                : readsGrid(x) && !ownRegisters(y).empty();
                      });
  }

  static void noteWritten(const Statement &statement, std::set<std::string_view> &written) {
    if (statement.kind == StatementKind::Label)
      written.clear(); // a branch may enter here with nothing set
    if (statement.kind == StatementKind::Instruction)
      forEachWrittenRegister(statement.instruction,
                             [&](const Operand &each) { written.insert(each.symbol); });
  }

  /// Whether `name` is the virtual id of a grid register that `operand` reads.
  static bool standsFor(std::string_view name, const Operand &operand) {
    bool found = false;
    forEachOperand(operand, [&](const Operand &each) {
      if (!readsGrid(each) ||
          !name.starts_with(fmt::format("%tally_{}_", specialRegisterName(each))))
        return;
      // .r, .g and .b are other names of .x, .y and .z.
      std::size_t color = each.component.size() == 1 ? std::string_view("rgb").find(each.component)
                                                     : std::string_view::npos;
      found |= each.component.empty() || name.ends_with(each.component) ||
               (color != std::string_view::npos && name.back() == "xyz"[color]);
    });
    return found;
  }

  /// Checks that each virtual id that the statement reads is set: when the block starts, or between
  /// the last label and the statement.
  std::optional<std::string> checkSet(const Statement &ours, const Statement &theirs,
                                      const std::set<std::string_view> &written) const {
    if (!allowed.gridReads || ours.kind != StatementKind::Instruction ||
        !readsAnyGrid(ours.instruction))
      return std::nullopt;
    if (ours.text == theirs.text)
      return fmt::format("it still reads a physical grid register: {}", theirs.text);
    for (std::size_t i = 0; i != theirs.instruction.operands.size(); ++i)
      for (std::string_view name : ownRegisters(theirs.instruction.operands[i]))
        if (agreed.contains(name) ? !standsFor(name, ours.instruction.operands[i])
                                  : !written.contains(name))
          return fmt::format("{} is not set before: {}", name, theirs.text);
    return std::nullopt;
  }

  /// Whether it sets an id that the block read when it started. Each round sets the flag.
  bool writesAgreed(const Instruction &instruction) const {
    bool found = false;
    forEachWrittenRegister(instruction, [&](const Operand &each) {
      found |= each.symbol != "%tally_flag" && agreed.contains(each.symbol);
    });
    return found;
  }

  /// Checks a statement of tally's for effects that it must not have.
  std::optional<std::string> checkOwn(const Statement &statement, std::uint32_t at) const {
    if (statement.kind != StatementKind::Instruction)
      return std::nullopt;
    const Instruction &instruction = statement.instruction;
    if (at > agreedUpTo && writesAgreed(instruction))
      return fmt::format("it sets again what the block has agreed on: {}", statement.text);
    bool setsOwn = !instruction.operands.empty() && isOwnName(instruction.operands[0].symbol);
    if (readsAnyGrid(instruction) && !setsOwn)
      return fmt::format("it still reads a physical grid register: {}", statement.text);
    bool leaves = instruction.opcode == "ret" || instruction.opcode == "exit";
    bool guardedByOwn = instruction.guard && isOwnName(instruction.guard->predicate.symbol);
    bool behindOwnLabel = rewritten.body[at - 1].kind == StatementKind::Label &&
                          isOwnName(rewritten.body[at - 1].label);
    if (leaves && !guardedByOwn && !behindOwnLabel)
      return fmt::format("a way out does not lead to the loop's head: {}", statement.text);
    return std::nullopt;
  }

  const Module &module;
  const Function &user;
  const Function &rewritten;
  const AllowedChanges &allowed;
  std::set<std::string_view> agreed;
  std::uint32_t agreedUpTo = 0;
};

} // namespace

std::optional<std::size_t> labelOf(const Function &function, std::string_view name) {
  for (std::size_t i = 0; i != function.body.size(); ++i)
    if (function.body[i].kind == StatementKind::Label && function.body[i].label == name)
      return i;
  return std::nullopt;
}

std::optional<std::string> checkBody(const Module &module, const Function &user,
                                     const Function &rewritten, const AllowedChanges &allowed) {
  return BodyCheck(module, user, rewritten, allowed).run();
}

} // namespace tally::ptx
