// Which loops poll, how often, and what tells the turn.
#include "kernels.h"

#include "tally/ptx/analysis/poll_sites.h"

#include <string>
#include <vector>

using namespace tally::ptx;

namespace {

/// What is looked at of a site: the text of its first instruction, its turns, the register's mask.
struct Seen {
  std::string first;
  std::uint32_t turns, mask;
};

std::vector<Seen> sitesOf(const std::string &body, std::uint64_t period = 8192) {
  Module module = parsed(moduleWith(body));
  const Function &function = *module.function("k");
  Cfg cfg(function);
  std::vector<Seen> seen;
  for (const PollSite &site : findPollSites(cfg, {period}))
    seen.push_back({std::string(function.body[site.statement].text), site.turns,
                    site.turn.reg == noRegister ? 0 : site.turn.mask});
  return seen;
}

std::string times(unsigned count, const std::string &text) {
  std::string all;
  for (unsigned i = 0; i != count; ++i)
    all += text;
  return all;
}

const std::string fma = "fma.rn.f32 %f1,%f1,%f2,%f3;\n"; // 8 cycles

} // namespace

TEST_CASE("a loop of unknown length polls, told by its counter") {
  // 8 cycles each: 3 fma, the step, the comparison and the branch: 48.
  auto sites = sitesOf("mov.u32 %r1,%tid.x;\nL: fma.rn.f32 %f1,%f1,%f2,%f3;\n" + times(2, fma) +
                       "add.s32 %r1,%r1,4; setp.lt.s32 %p1,%r1,%r2; @%p1 bra L; ret;");
  REQUIRE(sites.size() == 1);
  CHECK(sites[0].first == "fma.rn.f32 %f1,%f1,%f2,%f3;");
  CHECK(sites[0].turns == 256); // 8192 / 48, rounded down to a power of two; a strip is two periods
  CHECK(sites[0].mask == 127 * 4);
}

TEST_CASE("the counter may be a copy of what the step makes") {
  std::string step = "add.s32 %r3,%r1,-1; setp.ne.s32 %p1,%r3,0; mov.u32 %r1,%r3; @%p1 bra L; ret;";
  auto sites = sitesOf("mov.u32 %r1,%ntid.x;\nL: fma.rn.f32 %f1,%f1,%f2,%f3;\n" + step);
  REQUIRE(sites.size() == 1);
  CHECK(sites[0].turns == 256); // the copy stands between the comparison and the branch
  CHECK(sites[0].mask == 127);
}

TEST_CASE("no register tells the turn where") {
  auto maskOf = [](const std::string &body) {
    auto sites = sitesOf(body);
    REQUIRE(sites.size() == 1);
    CHECK(sites[0].turns > 1);
    return sites[0].mask;
  };
  SUBCASE("the step is no power of two") {
    CHECK(maskOf("L: add.s32 %r1,%r1,3; setp.lt.s32 %p1,%r1,%r2; @%p1 bra L; ret;") == 0);
  }
  SUBCASE("the step is not constant") {
    CHECK(maskOf("L: add.s32 %r1,%r1,%r2; setp.lt.s32 %p1,%r1,%r3; @%p1 bra L; ret;") == 0);
  }
  SUBCASE("a turn may leave it out") {
    CHECK(
        maskOf("L: @%p2 bra M; add.s32 %r1,%r1,4; M: setp.lt.s32 %p1,%r3,%r2; @%p1 bra L; ret;") ==
        0);
  }
  SUBCASE("it is guarded") {
    CHECK(maskOf("L: @%p2 add.s32 %r1,%r1,4; setp.lt.s32 %p1,%r3,%r2; @%p1 bra L; ret;") == 0);
  }
  SUBCASE("it stands in a loop further in") {
    CHECK(maskOf("L: mov.u32 %r5,0; M: add.s32 %r1,%r1,4; add.s32 %r5,%r5,1;\n"
                 "setp.lt.s32 %p2,%r5,3; @%p2 bra M; setp.lt.s32 %p1,%r3,%r2; @%p1 bra L; ret;") ==
          0);
  }
  SUBCASE("it is assigned elsewhere too") {
    CHECK(maskOf("L: add.s32 %r1,%r1,4; and.b32 %r1,%r1,%r4; setp.lt.s32 %p1,%r3,%r2;\n"
                 "@%p1 bra L; ret;") == 0);
  }
}

TEST_CASE("a limit that a turn may load") {
  auto turnsOf = [](const std::string &body) {
    auto sites = sitesOf(body);
    REQUIRE(sites.size() == 1);
    return sites[0].turns;
  };
  std::string turn = "add.s32 %r1,%r1,1; setp.lt.s32 %p1,%r1,%r2; @%p1 bra L; ret;";
  CHECK(turnsOf("L: ld.param.u32 %r2,[n];\n" + turn) == 512); // two periods: a strip
  // What else is compared with, before the load is come by.
  CHECK(turnsOf("mov.u32 %r2,%tid.x;\nL: @%p2 bra M; ld.param.u32 %r2,[n];\nM: " + turn) == 128);
}

TEST_CASE("a loop of few turns does not poll") {
  auto loop = [](const std::string &limit) {
    return "mov.u32 %r1,0;\nL: fma.rn.f32 %f1,%f1,%f2,%f3;\nadd.s32 %r1,%r1,1; setp.lt.s32 "
           "%p1,%r1," +
           limit + "; @%p1 bra L; ret;";
  };
  CHECK(sitesOf(loop("100")).empty()); // 100 turns of 32 cycles
  CHECK(sitesOf(loop("256")).size() == 1);
  // From a thread's id up.
  CHECK(sitesOf("mov.u32 %r1,%tid.x;\nL: add.s32 %r1,%r1,64; setp.lt.s32 %p1,%r1,1024;\n"
                "@%p1 bra L; ret;")
            .empty());
  CHECK(sitesOf("ret;").empty());
}

TEST_CASE("of nested loops the innermost long one polls") {
  auto nest = [](const std::string &inner) {
    return "O: mov.u32 %r5,%r6;\nI: xor.b32 %r7,%r7,%r5;\n" + inner +
           "add.s32 %r5,%r5,1; setp.lt.s32 %p2,%r5,%r8; @%p2 bra I;\n"
           "add.s32 %r1,%r1,1; setp.lt.s32 %p1,%r1,%r2; @%p1 bra O; ret;";
  };
  SUBCASE("the inner one is long") {
    auto sites = sitesOf(nest(times(60, fma)));
    REQUIRE(sites.size() == 1);
    CHECK(sites[0].first == "xor.b32 %r7,%r7,%r5;");
    CHECK(sites[0].turns == 16);
    CHECK(sites[0].mask == 0); // it may be entered for less than 16 turns, again and again
  }
  SUBCASE("the inner one is short") {
    auto sites = sitesOf(nest(""));
    REQUIRE(sites.size() == 1);
    CHECK(sites[0].first == "mov.u32 %r5,%r6;");
    CHECK(sites[0].turns == 16); // twice 8: 5 instructions, and 16 turns of 4
    CHECK(sites[0].mask == 7);
  }
  SUBCASE("neither is, but the outer one turns as often as it likes") {
    CHECK(sitesOf(nest(""), 1 << 20).size() == 1);
  }
}

TEST_CASE("a loop around one that polls polls too") {
  std::string inner = "I: xor.b32 %r7,%r7,%r5;\n" + times(60, fma) +
                      "add.s32 %r5,%r5,1; setp.lt.s32 %p2,%r5,%r8; @%p2 bra I;\n";
  std::string latch = "J: add.s32 %r1,%r1,1; setp.lt.s32 %p1,%r1,%r2; @%p1 bra O; ret;";
  SUBCASE("where it may turn without") {
    auto sites = sitesOf("O: mov.u32 %r5,%r6; @%p3 bra J;\n" + inner + latch);
    REQUIRE(sites.size() == 2);
    CHECK(sites[0].first == "mov.u32 %r5,%r6;");
    CHECK(sites[0].turns == 256); // 5 instructions without the inner loop
  }
  SUBCASE("where it is long without") {
    CHECK(sitesOf("O: mov.u32 %r5,%r6;\n" + times(1100, fma) + inner + latch).size() == 2);
  }
  SUBCASE("where another inner loop does not, but not for that one") {
    std::string other = "mov.u32 %r9,0; X: add.s32 %r9,%r9,1; setp.lt.s32 %p4,%r9,5; @%p4 bra X;\n";
    CHECK(sitesOf("O: mov.u32 %r5,%r6;\n" + other + inner + latch).size() == 1);
  }
  SUBCASE("not elsewhere") { CHECK(sitesOf("O: mov.u32 %r5,%r6;\n" + inner + latch).size() == 1); }
}

TEST_CASE("a loop without a single header has no site, one around it has") {
  std::string irreducible = "@%p3 bra B;\nA: xor.b32 %r7,%r7,%r5; @%p4 bra C;\n"
                            "B: add.s32 %r5,%r5,1; bra A;\nC: ";
  CHECK(sitesOf(irreducible + "ret;").empty());
  auto sites = sitesOf("O: mov.u32 %r5,%r6;\n" + irreducible +
                       "add.s32 %r1,%r1,1; setp.lt.s32 %p1,%r1,%r2; @%p1 bra O; ret;");
  REQUIRE(sites.size() == 1);
  CHECK(sites[0].first == "mov.u32 %r5,%r6;");
}
