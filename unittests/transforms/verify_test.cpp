// The verifier reports each defect that the tests plant in a variant, and accepts variants without
// defects.
#include "kernels.h"

#include "tally/ptx/transforms/rewriter.h"
#include "tally/ptx/transforms/verify.h"

using namespace tally;
using namespace tally::ptx;

namespace {

const std::string callees =
    ".func g() { .reg .b32 %x; mov.u32 %x,%nctaid.y; ret; }\n"
    ".func f() { .reg .b32 %x; mov.u32 %x,%ctaid.x; call.uni g; add.u32 %x,%x,1; ret; }\n"
    ".func h() { ret; }\n"
    ".global .u64 table[2] = {f, h};\n";

const std::string body = "mov.u32 %r1,%ctaid.x; st.shared.u32 [%r2],%r1; bar.sync 0; "
                         "ld.shared.u32 %r3,[%r2]; call.uni f; @%p1 ret; "
                         "{ proto: .callprototype _ (); call %rd1,(),proto; } exit;";

/// One text of the variants: an entry, or, with `clone`, a clone.
struct Place {
  Kind kind;
  std::size_t entry = 0;
  const char *clone = nullptr;
};

/// Returns the verifier's report when `to` replaces `from` at one place.
std::string damaged(const Place &place, std::string_view from, std::string_view to) {
  Module module = parsed(moduleWith(body, callees));
  auto kernels = rewrite(module, {});
  Variant &variant = kernels[0].variants[static_cast<std::size_t>(place.kind)];
  REQUIRE(variant.verdict.status == Status::Emitted);
  auto replace = [&](std::string text) {
    std::size_t at = text.find(from);
    REQUIRE_MESSAGE(at != std::string::npos, from << " in " << text);
    return text.replace(at, from.size(), to);
  };
  if (!place.clone) {
    variant.entries[place.entry] = replace(variant.entries[place.entry].str());
    return verifyVariants(module, kernels).value_or("");
  }
  for (Variant &each : kernels[0].variants)
    for (auto &clone : each.clones)
      if (clone->name == place.clone)
        clone = std::make_shared<const Clone>(
            Clone{clone->name, clone->declaration, replace(clone->definition)});
  return verifyVariants(module, kernels).value_or("");
}

/// Returns the same report for a kernel with this body, whose variants are written in `coding`;
/// changes the first entry of `kind`.
std::string damagedIn(std::string_view body, Kind kind, std::string_view coding,
                      std::string_view from, std::string_view to, std::string_view before = "") {
  Module module = parsed(moduleWith(body, before));
  RewriteOptions options;
  options.coding = coding;
  auto kernels = rewrite(module, options);
  EditedText &edited = kernels[0].variants[static_cast<std::size_t>(kind)].entries[0];
  std::string entry = edited.str();
  std::size_t at = entry.find(from);
  REQUIRE_MESSAGE(at != std::string::npos, from << " in " << entry);
  edited = entry.replace(at, from.size(), to);
  return verifyVariants(module, kernels).value_or("");
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

constexpr Place slice{Kind::Slice}, guard{Kind::Guard}, resume{Kind::Guard, 1},
    persistent{Kind::Persistent};

} // namespace

TEST_CASE("what has no defect passes") {
  // Only the entry has an exit, so every kind is emitted.
  Module module = parsed(moduleWith(body, callees));
  CHECK(verifyVariants(module, rewrite(module, {})).value_or("") == "");
}

TEST_CASE("grid registers") {
  for (const Place &place : {slice, resume, persistent}) {
    CHECK(contains(damaged(place, "mov.u32 %r1,%tally_ctaid_x", "mov.u32 %r1,%ctaid.x"),
                   "physical grid register"));
    // The entry reads the wrong register, which is not set there.
    CHECK(contains(damaged(place, "mov.u32 %r1,%tally_ctaid_x", "mov.u32 %r1,%tally_ctaid_y"),
                   "is not set before"));
  }
  CHECK(contains(damaged(guard, "mov.u32 %r1,%ctaid.x", "mov.u32 %r1,%tally_ctaid_x"),
                 "lost a statement"));
}

TEST_CASE("statements of the user's") {
  constexpr const char *lost = "lost a statement of the user's: bar.sync 0;";
  for (const Place &place : {slice, resume, persistent})
    CHECK(contains(damaged(place, "[%r2],%r1; bar.sync 0;", "[%r2],%r1;"), lost));
  CHECK(contains(damaged(guard, "$tally_agree:\n\tbar.sync 0;", "$tally_agree:"), lost));
  for (const Place &place : {slice, guard, resume, persistent}) {
    CHECK(
        contains(damaged(place, "st.shared.u32 [%r2]", "st.shared.u32 [%r3]"), "lost a statement"));
    CHECK(contains(damaged(place, ".reg .f32 %f<8>;", ""), "lost a statement"));
  }
}

TEST_CASE("a guard agrees before anything that shows") {
  CHECK(contains(damaged(guard, "\n$tally_agree:", "\nmembar.gl;\n$tally_agree:"),
                 "a block may do this and then leave: membar.gl;"));
}

TEST_CASE("a guard that agrees at the user's barrier") {
  constexpr const char *tile =
      "mov.u32 %r1,%tid.x; cp.async.ca.shared.global [%r2],[%rd1],4; bar.sync 0; "
      "ld.shared.u32 %r3,[%r2]; st.global.u32 [%rd1],%r3; ret;";
  auto damagedTile = [](std::string_view from, std::string_view to) {
    return damagedIn(tile, Kind::Guard, "", from, to);
  };
  CHECK(damagedTile("ret;", "ret;") == "");
  CHECK(contains(damagedTile("$tally_left:\n\tcp.async.wait_all;", "$tally_left:"),
                 "copies may be in flight when a block leaves"));
  CHECK(contains(damagedTile("\n$tally_agree:", "\nmembar.gl;\n$tally_agree:"),
                 "a block may do this and then leave: membar.gl;"));
  CHECK(contains(damagedTile("$tally_agree:\n", "$tally_agree:\n\tmembar.cta;\n"),
                 "does not agree at the user's barrier"));
  const char *leaves = "@%tally_leave bra $tally_left;\n";
  std::string late = damagedTile(leaves, "");
  CHECK(contains(late, "goes on behind the barrier"));
}

TEST_CASE("a guard whose warps poll") {
  constexpr const char *turns =
      "ld.param.u64 %rd1,[p]; ld.global.u32 %r1,[%rd1]; mov.u32 %r2,%tid.x; again: "
      "add.u32 %r1,%r1,1; add.u32 %r2,%r2,-1; setp.gt.s32 %p1,%r2,0; @%p1 bra again; "
      "st.global.u32 [%rd1],%r1; ret;";
  auto damagedTurns = [](std::string_view from, std::string_view to) {
    return damagedIn(turns, Kind::Guard, "every-warp", from, to);
  };
  CHECK(damagedTurns("ret;", "ret;") == "");
  constexpr const char *vote = "vote.sync.any.pred %tally_any, %tally_yield, -1;\n",
                       *leave = "@%tally_leave bra $tally_left;";
  CHECK(contains(damagedTurns(vote, ""), "lanes of one warp may go by what each has seen"));
  CHECK(contains(damagedTurns("ld.relaxed", "@%p1 ld.relaxed"), "not all threads do this"));
  CHECK(contains(damagedTurns("\n$tally_agree:", "setp.ne.u32 %tally_any, %r1, 0;\n$tally_agree:"),
                 "a warp may not come by this"));
  constexpr const char *stays = "a warp that has not been through may stay";
  CHECK(contains(damagedTurns("bar.red.or.pred %tally_leave", "bar.red.and.pred %tally_leave"),
                 stays));
  CHECK(contains(damagedTurns("\tbar.red.or.pred %tally_leave, 0, %tally_any;", ""), stays));
  CHECK(contains(damagedTurns(leave, ""), stays));
  CHECK(contains(damagedTurns("\n$tally_agree:", "\nmembar.gl;\n$tally_agree:"),
                 "a block may do this and then leave: membar.gl;"));
}

TEST_CASE("where the ids are read once") {
  auto damagedOnce = [](std::string_view from, std::string_view to) {
    return damagedIn("mov.u32 %r1,%ctaid.x; ret;", Kind::Persistent, "early-ids", from, to);
  };
  CHECK(damagedOnce("ret;", "ret;") == "");
  const char *meeting = "$tally_agree:\n\tbarrier.sync 0;";
  CHECK(contains(damagedOnce(meeting, "$tally_agree:\n\tbar.sync 0;"),
                 "in the aligned form: bar.sync 0;"));
  CHECK(contains(damagedOnce(meeting, "$tally_agree:"), "read where it may be writing"));
  CHECK(contains(damagedOnce("@%tally_leave ret;\n\tbar.sync 0;", "@%tally_leave ret;"),
                 "does not meet at the loop's head"));
  CHECK(
      contains(damagedOnce("mov.u32 %r1,", "ld.shared.u32 %tally_r0, [$tally_block]; mov.u32 %r1,"),
               "may have published for the next block"));
  CHECK(contains(damagedOnce("mov.u32 %r1,", "mov.u32 %tally_ctaid_x, 0; mov.u32 %r1,"),
                 "sets again what the block has agreed on"));
}

TEST_CASE("where a warp may come apart ahead of a barrier") {
  constexpr const char *body = "ld.param.u32 %r2,[n]; mov.u32 %r1,%tid.x; L: add.u32 %r1,%r1,9;"
                               "setp.lt.u32 %p1,%r1,%r2; @%p1 bra L; bar.sync 0; ret;";
  constexpr const char *broken = "ptxas may take warps for whole that come apart in the body";
  constexpr const char *barrier = "@%p1 bra L; barrier.sync 0;";
  for (const char *coding : {"", "zeroed"}) {
    auto damaged = [&](std::string_view to) {
      return damagedIn(body, Kind::Pause, coding, barrier, to);
    };
    CHECK(damaged(barrier) == "");
    CHECK(contains(damaged("@%p1 bra L; bar.sync 0;"), broken));
  }
  SUBCASE("ahead of where workers leave to code of their own") {
    constexpr const char *meeting = "barrier.sync 0;\n\tsetp.ne.u32 %tally_leave";
    auto damaged = [&](std::string_view to) {
      return damagedIn("ld.param.u32 %r2,[n]; mov.u32 %r3,0; H: mov.u32 %r1,%tid.x;"
                       "L: add.u32 %r1,%r1,9; setp.lt.u32 %p1,%r1,%r2; @%p1 bra L; bar.sync 0;"
                       "add.u32 %r3,%r3,1; setp.lt.u32 %p2,%r3,%r2; @%p2 bra H; ret;",
                       Kind::Checkpoint, "", meeting, to);
    };
    CHECK(damaged(meeting) == "");
    CHECK(contains(damaged("bar.sync 0;\n\tsetp.ne.u32 %tally_leave"), broken));
    CHECK(contains(damaged("setp.ne.u32 %tally_leave"), broken));
  }
  SUBCASE("in what is called, too") {
    auto damaged = [&](std::string_view to) {
      return damagedIn("mov.u32 %r1,%tid.x; ld.param.u32 %r2,[n]; L: add.u32 %r1,%r1,9;"
                       "setp.lt.u32 %p1,%r1,%r2; @%p1 bra L; call.uni f; ret;",
                       Kind::Pause, "", "@%tally_leave ret;\n\tbarrier.sync 0;", to,
                       ".func f() { bar.sync 0; ret; }\n");
    };
    CHECK(damaged("@%tally_leave ret;\n\tbarrier.sync 0;") == "");
    CHECK(contains(damaged("@%tally_leave ret;\n\tbar.sync 0;"), broken));
  }
}

TEST_CASE("where the ids stand in two slots") {
  auto damagedSlots = [](std::string_view from, std::string_view to) {
    return damagedIn("mov.u32 %r1,%ctaid.x; mov.u32 %r2,%ctaid.y; ret;", Kind::Persistent, "", from,
                     to);
  };
  CHECK(damagedSlots("ret;", "ret;") == "");
  const char *meeting = "$tally_agree:\n\tbarrier.sync 0;";
  const char *swap = "\txor.b32 %tally_ids, %tally_ids, 8;\n";
  CHECK(contains(damagedSlots(meeting, "$tally_agree:\n\tbar.sync 0;"),
                 "in the aligned form: bar.sync 0;"));
  CHECK(contains(damagedSlots(meeting, "$tally_agree:"), "does not meet at the loop's head"));
  constexpr const char *same = "the slot of the next block may be the one that some still read";
  CHECK(contains(damagedSlots(swap, ""), same));
  CHECK(contains(damagedSlots(swap, "\t@%tally_other xor.b32 %tally_ids, %tally_ids, 8;\n"), same));
  CHECK(contains(damagedSlots(swap, "\txor.b32 %tally_ids, %tally_ids, 4;\n"), same));
  CHECK(
      contains(damagedSlots("mov.u32 %r1,", "ld.shared.u32 %tally_r0, [%tally_ids]; mov.u32 %r1,"),
               "may have published for the next block"));
  CHECK(contains(
      damagedSlots("mov.u32 %r1,", "ld.shared.u32 %tally_r0, [$tally_block]; mov.u32 %r1,"),
      "is not where this looks"));
  CHECK(contains(damagedSlots("mov.u32 %r1,", "mov.u32 %tally_ids, %tally_r0; mov.u32 %r1,"),
                 "threads may go by different slots"));
  CHECK(contains(damagedSlots("mov.u32 %r1,", "mov.u32 %tally_ctaid_y, 0; mov.u32 %r1,"),
                 "sets again what the block has agreed on"));
}

TEST_CASE("ways out of a persistent body") {
  CHECK(contains(damaged(persistent, "@%p1 bra $tally_next;", "@%p1 ret;"), "lost a statement"));
  CHECK(contains(damaged(persistent, "@%p1 bra $tally_next;", "@!%p1 bra $tally_next;"),
                 "lost a statement"));
  CHECK(contains(damaged(persistent, "@%p1 bra $tally_next;", "@%p2 exit; @%p1 bra $tally_next;"),
                 "a way out does not lead to the loop's head"));
}

TEST_CASE("calls and clones") {
  for (const Place &place : {slice, resume, persistent})
    CHECK(contains(damaged(place, "call.uni f$tally_virtual", "call.uni f"),
                   "still calls the user's f"));
  CHECK(contains(damaged(guard, "call.uni f;", "call.uni f$tally_virtual;"), "lost a statement"));
  CHECK(contains(damaged(slice, "call.uni f$tally_virtual", "call.uni nobody$tally_virtual"),
                 "lost a statement"));
  Place f{Kind::Slice, 0, "f$tally_virtual"}, g{Kind::Slice, 0, "g$tally_virtual"};
  CHECK(contains(damaged(f, "call.uni g$tally_virtual", "call.uni g"), "still calls the user's g"));
  CHECK(contains(damaged(g, "%tally_nctaid_y;", "%nctaid.y;"), "physical grid register"));
  CHECK(contains(damaged(g, "mov.u32 %x,%tally_nctaid_y; ", ""), "lost a statement"));
  CHECK(contains(damaged(f, "add.u32 %x,%x,1;", "add.u32 %x,%x,2;"), "lost a statement"));
  CHECK(contains(damaged(g, "g$tally_virtual()", "g$tally_virtual(.param .b32 more)"),
                 "does not take the user's arguments"));
}

TEST_CASE("calls through pointers") {
  CHECK(contains(damaged(slice, "mov.u64 %tally_callee, f;", "mov.u64 %tally_callee, h;"),
                 "still calls the user's f"));
}

TEST_CASE("a clone that is called is there") {
  Module module = parsed(moduleWith(body, callees));
  auto kernels = rewrite(module, {});
  for (Variant &variant : kernels[0].variants)
    variant.clones.clear();
  CHECK(contains(verifyVariants(module, kernels).value_or(""), "a clone that is not there"));
}

TEST_CASE("parameters, names and text") {
  CHECK(contains(damaged(slice, ".param .u32 n", ".param .u64 n"), "parameter 1"));
  CHECK(contains(damaged(slice, "k$tally_slice", "k$tally_guard"), "do not parse: a second body"));
  CHECK(contains(damaged(slice, "bar.sync 0;", "bar.sync 0"), "do not parse"));
}

TEST_CASE("a counter that is kept is left by a strong store and counted up digit by digit") {
  auto damagedCounter = [](std::string_view from, std::string_view to) {
    return damagedIn(".shared .b32 s[32]; mov.u32 %r1,0; L: st.shared.u32 [s],%r1; bar.sync 0;\n"
                     "add.s32 %r1,%r1,1; setp.lt.s32 %p1,%r1,%r2; @%p1 bra L; ret;",
                     Kind::Checkpoint, "counted", from, to);
  };
  CHECK(damagedCounter("ret;", "ret;") == "");
  CHECK(contains(damagedCounter("st.relaxed.cta.shared.b32 [$tally_counter]",
                                "st.shared.b32 [$tally_counter]"),
                 "it saves before it has looked"));
  CHECK(contains(damagedCounter("st.relaxed.cta.shared.b32 [$tally_counter], %r1;", ""),
                 "saved that was not kept"));
  constexpr std::string_view lost = "a register is not restored at point 1";
  CHECK(contains(damagedCounter("add.s32 %r1, %r1, 16;", "add.s32 %r1, %r1, 15;"), lost));
  CHECK(contains(
      damagedCounter("shr.u32 %tally_r5, %tally_kept, 28;", "shr.u32 %tally_r5, %tally_kept, 24;"),
      lost));
  CHECK(contains(damagedCounter("add.s32 %r1, %r1, 268435456;", ""), lost));
}
