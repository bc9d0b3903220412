#include "verify_protocol.h"

#include "tally/ptx/analysis/barriers.h"
#include "tally/ptx/analysis/opcodes.h"
#include "tally/ptx/analysis/opening.h"
#include "verify_body.h"
#include "verify_checkpoint.h"

#include <algorithm>
#include <ranges>
#include <span>
#include <string>
#include <vector>

namespace tally::ptx {
namespace {

bool isTallys(const Instruction &instruction) {
  return !instruction.operands.empty() && instruction.operands[0].symbol.starts_with("%tally_");
}

/// Returns whether the statement is a strong 64-bit load from global memory into a register of
/// tally's. A strong load sees the writes of other SMs.
bool isStrongPoll(const Instruction &instruction) {
  return instruction.opcode == "ld" && isTallys(instruction) && instruction.has("u64") &&
         (instruction.has("volatile") || (instruction.has("relaxed") && instruction.has("gpu")));
}

/// Returns the statements from the block's meeting to the place where the block may leave.
std::span<const Statement> agreement(const Function &function) {
  std::size_t begin = labelOf(function, "$tally_agree").value_or(function.body.size()), end = begin;
  auto leaves = [](const Statement &each) {
    return each.instruction.opcode == "ret" || each.instruction.opcode == "bra";
  };
  while (end != function.body.size() && !leaves(function.body[end]))
    ++end;
  return std::span(function.body.data() + begin, end - begin);
}

/// Returns the index right behind `part` of the function: behind an agreement, the branch that
/// leaves.
std::size_t behind(std::span<const Statement> part, const Function &function) {
  return static_cast<std::size_t>(part.data() - function.body.data()) + part.size();
}

/// Returns the statements from the loop's head to the place where the next virtual block is taken.
std::span<const Statement> loopHead(const Function &function) {
  auto begin = labelOf(function, "$tally_next"), end = labelOf(function, "$tally_take");
  if (!begin || !end || *begin > *end)
    return {};
  return std::span(function.body.data() + *begin, *end - *begin);
}

bool copiesAsync(const Function &function) {
  return std::ranges::any_of(function.body, [](const Statement &each) {
    return each.kind == StatementKind::Instruction && each.instruction.opcode == "cp" &&
           each.instruction.has("async") && !each.instruction.has("bulk");
  });
}

/// Facts of the code between the body and the next virtual block.
struct Meeting {
  bool meets = false, waits = false;
  std::optional<std::string_view> aligned; ///< a barrier in the aligned form
};

Meeting meetingIn(std::span<const Statement> statements) {
  Meeting result;
  for (const Statement &statement : statements) {
    if (statement.kind != StatementKind::Instruction)
      continue;
    const Instruction &instruction = statement.instruction;
    result.waits |= instruction.opcode == "cp" && instruction.has("wait_all");
    if (!isBlockBarrier(instruction))
      continue;
    result.meets = true;
    if (isAlignedBarrier(instruction))
      result.aligned = statement.text;
  }
  return result;
}

/// Returns the exits from the body that have code of their own, each up to the next.
std::vector<std::span<const Statement>> waysOut(const Function &function) {
  std::vector<std::span<const Statement>> result;
  for (unsigned way = 0;; ++way) {
    auto begin = labelOf(function, "$tally_way_" + std::to_string(way));
    if (!begin)
      return result;
    std::size_t end =
        labelOf(function, "$tally_way_" + std::to_string(way + 1)).value_or(function.body.size());
    result.emplace_back(function.body.data() + *begin, end - *begin);
  }
}

bool readsBlock(const Statement &statement) {
  return statement.kind == StatementKind::Instruction && statement.instruction.opcode == "ld" &&
         statement.text.find("[$tally_block") != std::string_view::npos;
}

/// Returns thread 0's own code for a worker that leaves with a saved block, if there is such code.
std::span<const Statement> departure(const Function &function) {
  std::size_t end = labelOf(function, "$tally_gone").value_or(0);
  std::size_t begin = labelOf(function, "$tally_depart").value_or(end);
  while (begin < end &&
         (!function.body[begin].instruction.guard ||
          function.body[begin].instruction.guard->predicate.symbol != "%tally_other"))
    ++begin;
  return std::span(function.body.data() + begin, end < begin ? 0 : end - begin);
}

bool names(const Statement &statement, std::string_view name) {
  return statement.kind == StatementKind::Instruction &&
         statement.text.find(name) != std::string_view::npos;
}

/// Checks two slots, in which thread 0 publishes in turn; `variant` then names %tally_ids. In each
/// round every thread meets before it reads a slot, and switches to the other slot right behind the
/// read.
std::optional<std::string> checkSlots(const Function &variant) {
  constexpr std::string_view ids = "%tally_ids", slot = "[%tally_ids";
  std::size_t reads = 0, barriers = 0, swaps = 0;
  for (const Statement &each : agreement(variant)) {
    barriers += each.kind == StatementKind::Instruction && isBlockBarrier(each.instruction);
    reads += each.instruction.opcode == "ld" && names(each, slot) && barriers == 1 && swaps == 0;
    swaps += reads == 1 && each.text == "xor.b32 %tally_ids, %tally_ids, 8;";
  }
  if (barriers != 1)
    return "the block does not meet at the loop's head";
  if (reads != 1 || swaps != 1)
    return "the slot of the next block may be the one that some still read";
  for (const Statement &each : variant.body) {
    std::span<const Operand> operands = each.instruction.operands;
    reads -= each.instruction.opcode == "ld" && names(each, slot);
    swaps -= names(each, ids) && !operands.empty() && operands[0].symbol == ids &&
             each.text != "mov.u32 %tally_ids, $tally_block;";
    if (names(each, "[$tally_block"))
      return "what thread 0 published is not where this looks: " + std::string(each.text);
  }
  if (reads != 0)
    return "the body reads what thread 0 may have published for the next block";
  if (swaps != 0)
    return "threads may go by different slots";
  return std::nullopt;
}

/// Returns the first barrier in the aligned form behind the agreement; with `meetsAgain` it skips
/// the block's second meeting right behind the agreement.
const Statement *alignedBehind(std::span<const Statement> agreed, const Function &variant,
                               bool meetsAgain) {
  for (std::size_t at = behind(agreed, variant) + (meetsAgain ? 2 : 1); at < variant.body.size();
       ++at)
    if (variant.body[at].kind == StatementKind::Instruction &&
        isAlignedBarrier(variant.body[at].instruction))
      return &variant.body[at];
  return nullptr;
}

/// Whether the block meets twice before it leaves, and the second meeting is not in the aligned
/// form.
bool meetsTwice(std::span<const Statement> agreed) {
  const Statement *last = nullptr;
  unsigned meetings = 0;
  for (const Statement &each : agreed)
    if (each.kind == StatementKind::Instruction && isBlockBarrier(each.instruction)) {
      last = &each;
      ++meetings;
    }
  return meetings >= 2 && !isAlignedBarrier(last->instruction);
}

/// Where a warp of the user's kernel may diverge ahead of a barrier, no barrier may promise ptxas
/// that the warp is whole, or ptxas may not reconverge it (docs/design/transforms.md, persistent).
/// pause: no barrier has the aligned form, except the block's second meeting where the body calls
/// nothing that may have barriers. checkpoint: the block meets once more, not in that form, right
/// ahead of the branch by which its workers leave.
std::optional<std::string> checkWarpsMeet(const Function &user, Kind kind,
                                          const Function &variant) {
  if (kind != Kind::Pause && kind != Kind::Checkpoint)
    return std::nullopt;
  Cfg cfg(user);
  ControlDependence dependence(cfg);
  if (!mayPartWarps(cfg, dependence, Uniformity(cfg, dependence)))
    return std::nullopt;
  std::span<const Statement> agreed = agreement(variant);
  const Statement *promise = nullptr;
  if (kind == Kind::Pause) {
    bool calls = std::ranges::any_of(
        user.body, [](const Statement &each) { return each.instruction.opcode == "call"; });
    promise = alignedBehind(agreed, variant, !takesOneBlock(kind, variant) && !calls);
  } else if (!agreed.empty() && !meetsTwice(agreed)) {
    promise = &agreed.back();
  }
  if (!promise)
    return std::nullopt;
  return "ptxas may take warps for whole that come apart in the body: " +
         std::string(promise->text);
}

/// Where thread 0 may take the next block while others are in the last block: checks that all
/// threads meet before they read its publication, and again behind the read; and that only thread 0
/// reads it elsewhere.
std::optional<std::string> checkOverlap(const Function &variant) {
  if (std::ranges::any_of(variant.body,
                          [](const Statement &each) { return names(each, "%tally_ids"); }))
    return checkSlots(variant);
  std::span<const Statement> agreed = agreement(variant);
  std::size_t reads = 0, barriers = 0;
  for (const Statement &statement : agreed) {
    if (readsBlock(statement)) {
      if (barriers != 1)
        return "what thread 0 publishes is read where it may be writing it: " +
               std::string(statement.text);
      ++reads;
    }
    barriers += isBlockBarrier(statement.instruction);
  }
  // The second barrier may stand behind the branch by which the worker leaves.
  if (std::size_t next = behind(agreed, variant) + 1; next < variant.body.size())
    barriers += isBlockBarrier(variant.body[next].instruction);
  if (barriers != 2)
    return "the block does not meet at the loop's head";
  reads += static_cast<std::size_t>(std::ranges::count_if(departure(variant), readsBlock));
  if (static_cast<std::size_t>(std::ranges::count_if(variant.body, readsBlock)) != reads)
    return "the body reads what thread 0 may have published for the next block";
  return std::nullopt;
}

std::optional<std::string> checkLoopHead(const Module &module, const Function &user,
                                         const Function &variant) {
  Meeting head = meetingIn(loopHead(variant)), agreed = meetingIn(agreement(variant));
  if (agreed.aligned && !head.aligned)
    head.aligned = agreed.aligned;
  std::vector<Meeting> all = {head};
  for (std::span<const Statement> way : waysOut(variant)) {
    all.push_back(meetingIn(way));
    all.back().meets |= head.meets;
    all.back().waits |= head.waits;
  }
  bool overlaps = all.size() == 1 && !head.meets;
  if (overlaps) {
    if (auto broken = checkOverlap(variant))
      return broken;
    all[0].meets = true;
  }
  if (all.size() > 1)
    all.erase(all.begin()); // control reaches the head only by an exit
  for (const Meeting &meeting : all) {
    if (module.versionMajor() >= 6 && (meeting.aligned || head.aligned))
      return "the block meets at the loop's head in the aligned form: " +
             std::string(meeting.aligned ? *meeting.aligned : *head.aligned);
    if (!meeting.meets)
      return "the block does not meet at the loop's head";
    if (copiesAsync(user) && !meeting.waits)
      return "copies may be in flight when the next virtual block starts";
  }
  return std::nullopt;
}

bool isOwn(const Statement &statement) {
  return statement.text.find("%tally_") != std::string_view::npos ||
         statement.text.find("$tally_") != std::string_view::npos;
}

/// Where a block agrees at the user's own barrier: checks that the variant executes everything
/// before that barrier as the user's kernel does, that a block leaves before any visible effect,
/// and that it waits for its copies.
std::optional<std::string> checkOwnBarrier(const Function &user, const OwnBarrier &own,
                                           const Function &variant, std::size_t agreed) {
  std::size_t meets = agreed + 1;
  while (meets < variant.body.size() && variant.body[meets].kind != StatementKind::Instruction)
    ++meets;
  if (meets == variant.body.size() || variant.body[meets].text != user.body[own.barrier].text)
    return "the block does not agree at the user's barrier";
  std::size_t users = 0;
  for (const Statement &each : std::span(variant.body).subspan(meets + 1)) {
    const Guard *guard = each.instruction.guard;
    if (guard && guard->predicate.symbol == "%tally_leave")
      break;
    users += each.kind == StatementKind::Instruction && !isOwn(each);
  }
  if (users > own.leave - own.barrier - 1)
    return "a block that leaves goes on behind the barrier";
  std::size_t left = labelOf(variant, "$tally_left").value_or(variant.body.size());
  if (own.copies &&
      (left + 1 >= variant.body.size() || variant.body[left + 1].text != "cp.async.wait_all;"))
    return "copies may be in flight when a block leaves";
  return std::nullopt;
}

bool isText(const Function &function, std::size_t at, std::string_view text) {
  return at < function.body.size() && function.body[at].text == text;
}

/// Where each warp runs the prelude on its own poll: checks that no warp diverges by that, and that
/// the block leaves if any warp has seen that it should.
std::optional<std::string> checkEveryWarp(const Function &variant, std::size_t vote,
                                          std::size_t agreed) {
  constexpr std::string_view one = "vote.sync.any.pred %tally_any, %tally_yield, -1;";
  if (!isText(variant, vote, one))
    return "lanes of one warp may go by what each has seen";
  for (std::size_t i = 1; i < agreed; ++i) {
    const Statement &each = variant.body[i];
    if (each.kind != StatementKind::Instruction || !isOwn(each))
      continue;
    if (each.instruction.guard && i != vote + 1)
      return "not all threads do this: " + std::string(each.text);
    if (i > vote + 1)
      return "a warp may not come by this: " + std::string(each.text);
  }
  if (!isText(variant, agreed + 1, "bar.red.or.pred %tally_leave, 0, %tally_any;") ||
      !isText(variant, agreed + 2, "@%tally_leave bra $tally_left;"))
    return "a warp that has not been through may stay";
  return std::nullopt;
}

std::ptrdiff_t meetingsIn(const Function &function) {
  return std::ranges::count_if(function.body, [](const Statement &each) {
    return each.kind == StatementKind::Instruction &&
           (isBlockBarrier(each.instruction) || each.instruction.has("cluster"));
  });
}

/// Returns the first of the user's statements before `to` in the variant that is not, verbatim, the
/// next statement before `end` in the user's kernel. `at`: index of that next statement.
const Statement *strangerBefore(std::size_t to, const Function &variant, const Function &user,
                                std::uint32_t end, std::uint32_t &at) {
  for (const Statement &each : std::span(variant.body.data(), to)) {
    if (each.kind != StatementKind::Instruction || isOwn(each) ||
        each.text == "bar.warp.sync -1;" || each.instruction.opcode == "nanosleep")
      continue;
    while (at < end && user.body[at].kind != StatementKind::Instruction)
      ++at;
    if (at >= end || user.body[at++].text != each.text)
      return &each;
  }
  return nullptr;
}

/// Checks that a block of a guard can repeat the code that it runs before it has agreed: an
/// opening, everything before a barrier of the user's at which it agrees, or, where each warp polls
/// behind an opening, a prelude.
std::optional<std::string> checkOpening(const Function &user, const Function &variant) {
  auto again = [](const Statement &each) {
    return "a block may do this and then leave: " + std::string(each.text);
  };
  std::optional<OwnBarrier> own = ownBarrierOf(user);
  std::uint32_t at = 1, openingEnd = openingOf(user).end, end = own ? own->barrier : openingEnd;
  std::size_t agreed = labelOf(variant, "$tally_agree").value_or(0);
  auto past = std::ranges::find(variant.body, "@%tally_any bra $tally_agree;", &Statement::text);
  if (past != variant.body.end()) {
    auto branch = static_cast<std::size_t>(past - variant.body.begin());
    std::optional<Prelude> prelude = preludeOf(user);
    if (const Statement *each = strangerBefore(branch, variant, user, openingEnd, at))
      return again(*each);
    at = 1;
    if (const Statement *each =
            strangerBefore(agreed, variant, user, prelude ? prelude->end : 1, at))
      return again(*each);
    return checkEveryWarp(variant, branch - 1, agreed);
  }
  if (const Statement *each = strangerBefore(agreed, variant, user, end, at))
    return again(*each);
  if (at <= openingEnd && meetingsIn(variant) > meetingsIn(user))
    return std::nullopt;
  return own ? checkOwnBarrier(user, *own, variant, agreed)
             : std::optional<std::string>("the block does not meet to agree");
}

/// Checks a worker of one block: the block meets before it reads which block it is, and code that
/// may run before that does not read it.
std::optional<std::string> checkOneBlock(const Function &user, const Function &variant) {
  std::span<const Statement> agreed = agreement(variant);
  bool met = false;
  for (const Statement &each : agreed) {
    met |= each.kind == StatementKind::Instruction && isBlockBarrier(each.instruction);
    if (!met && readsBlock(each))
      return "what thread 0 publishes is read before the block has met: " + std::string(each.text);
  }
  if (!met)
    return "the block does not meet to agree";
  for (const Statement &each : std::span(variant.body.data(), agreed.data()))
    if (each.kind == StatementKind::Instruction && !isTallys(each.instruction) &&
        each.text.find("%tally_ctaid") != std::string_view::npos)
      return "an id is read before the block has met: " + std::string(each.text);
  return checkOpening(user, variant);
}

} // namespace

bool takesOneBlock(Kind kind, const Function &variant) {
  return hasWorkers(kind) && kind != Kind::Checkpoint && !labelOf(variant, "$tally_next");
}

std::optional<std::string> checkProtocol(const Module &module, const Function &user, Kind kind,
                                         const Function &variant) {
  if (kind == Kind::Slice)
    return std::nullopt;
  bool polls = std::ranges::any_of(variant.body, [](const Statement &each) {
    return each.kind == StatementKind::Instruction && isStrongPoll(each.instruction);
  });
  if (!polls)
    return "the control word is not read by a strong load";
  if (auto broken = checkWarpsMeet(user, kind, variant))
    return broken;
  if (kind == Kind::Checkpoint)
    return checkCheckpoint(user, variant);
  if (takesOneBlock(kind, variant))
    return checkOneBlock(user, variant);
  return hasWorkers(kind) ? checkLoopHead(module, user, variant) : checkOpening(user, variant);
}

} // namespace tally::ptx
