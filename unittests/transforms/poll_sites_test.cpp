// Loops that poll, the period of their polls, and the register that counts the turns.
#include "kernels.h"

#include "tally/ptx/analysis/poll_sites.h"

#include <string>
#include <vector>

using namespace tally::ptx;

namespace {

/// The tested facts of a site: the text of its first instruction, its turns, the register's mask,
/// the turns of a strip (0 where there are no strips), and the register that counts them.
struct Seen {
  std::string first;
  std::uint32_t turns, mask, strip;
  std::string counter;
};

std::string nameOf(const Function &function, RegisterId reg) {
  if (reg == noRegister)
    return "";
  const RegisterDeclaration &declaration = function.declarationOf(reg);
  return std::string(declaration.name) + std::to_string(reg - declaration.first);
}

std::vector<Seen> sitesOf(const std::string &body, std::uint64_t period = 8192) {
  Module module = parsed(moduleWith(body));
  const Function &function = *module.function("k");
  Cfg cfg(function);
  std::vector<Seen> seen;
  for (const PollSite &site : findPollSites(cfg, {period}))
    seen.push_back({std::string(function.body[site.statement].text), site.turns,
                    site.turn.reg == noRegister ? 0 : site.turn.mask,
                    site.strip.counter == noRegister ? 0 : site.strip.turns,
                    nameOf(function, site.strip.counter)});
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
  // Instructions of 8 cycles each: 3 fma, the step, the comparison and the branch, 48 cycles in
  // all.
  auto sites = sitesOf("mov.u32 %r1,%tid.x;\nL: fma.rn.f32 %f1,%f1,%f2,%f3;\n" + times(2, fma) +
                       "add.s32 %r1,%r1,4; setp.lt.s32 %p1,%r1,%r2; @%p1 bra L; ret;");
  REQUIRE(sites.size() == 1);
  CHECK(sites[0].first == "fma.rn.f32 %f1,%f1,%f2,%f3;");
  CHECK(sites[0].turns == 256); // 20480 / 48, rounded down to a power of two
  CHECK(sites[0].strip == 853); // five periods
  CHECK(sites[0].mask == 255 * 4);
}

TEST_CASE("the counter may be a copy of what the step makes") {
  std::string step = "add.s32 %r3,%r1,-1; setp.ne.s32 %p1,%r3,0; mov.u32 %r1,%r3; @%p1 bra L; ret;";
  auto sites = sitesOf("mov.u32 %r1,%ntid.x;\nL: fma.rn.f32 %f1,%f1,%f2,%f3;\n" + step);
  REQUIRE(sites.size() == 1);
  CHECK(sites[0].turns == 512);
  CHECK(sites[0].strip == 1024); // the copy stands between the comparison and the branch
  CHECK(sites[0].mask == 511);
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
  auto stripOf = [](const std::string &body) {
    auto sites = sitesOf(body);
    REQUIRE(sites.size() == 1);
    return sites[0].strip;
  };
  std::string turn = "add.s32 %r1,%r1,1; setp.lt.s32 %p1,%r1,%r2; @%p1 bra L; ret;";
  CHECK(stripOf("L: ld.param.u32 %r2,[n];\n" + turn) == 1280);
  // A turn may skip the load, and then compares with another value.
  CHECK(stripOf("mov.u32 %r2,%tid.x;\nL: @%p2 bra M; ld.param.u32 %r2,[n];\nM: " + turn) == 0);
}

TEST_CASE("strips of what moves on by a register") {
  auto stripOf = [](const std::string &turn, const std::string &test) {
    auto sites = sitesOf("L: " + turn + "setp." + test + " %p1,%r1,%r2; @%p1 bra L; ret;");
    REQUIRE(sites.size() == 1);
    return sites[0].strip;
  };
  CHECK(stripOf("add.s32 %r1,%r1,%r3;", "lt.s32") == 1706);
  CHECK(stripOf("add.s32 %r1,%r3,%r1;", "le.u32") == 1706);
  CHECK(stripOf("add.s32 %r4,%r1,%r3; mov.u32 %r1,%r4;", "lt.s32") == 1280);
  // The counter advances from a copy made before.
  CHECK(stripOf("mov.u32 %r4,%r1; add.s32 %r1,%r4,%r3;", "lt.s32") == 1280);
  CHECK(stripOf("mov.u32 %r4,%r1; add.s32 %r1,%r3,%r4;", "lt.s32") == 1280);
  CHECK(stripOf("mov.u32 %r4,%r1; add.s32 %r1,%r4,3;", "lt.s32") == 1280);
  CHECK(stripOf("mov.u32 %r4,%r1; @%p2 bra M; add.s32 %r5,%r5,1; M: add.s32 %r1,%r4,%r3;",
                "lt.s32") == 930); // instructions that a turn may skip count half
  // The copy may be skipped in a turn; it copies another register; another value is also put into
  // it; or it is made after the step, so that the first turn starts from another value.
  CHECK(stripOf("@%p2 bra M; add.s32 %r1,%r4,%r3; M: mov.u32 %r4,%r1;", "lt.s32") == 0);
  CHECK(stripOf("@%p2 bra M; mov.u32 %r4,%r1; M: add.s32 %r1,%r4,%r3;", "lt.s32") == 0);
  CHECK(stripOf("@%p2 mov.u32 %r4,%r1; add.s32 %r1,%r4,%r3;", "lt.s32") == 0);
  CHECK(stripOf("mov.u32 %r4,%r5; add.s32 %r1,%r4,%r3;", "lt.s32") == 0);
  CHECK(stripOf("mov.u32 %r4,%r1; mov.u32 %r4,%r5; add.s32 %r1,%r4,%r3;", "lt.s32") == 0);
  CHECK(stripOf("mov.u32 %r4,%r1; add.s32 %r1,%r4,%r4;", "lt.s32") == 0);
  // The counter may start past the limit, or its step may change.
  CHECK(stripOf("add.s32 %r1,%r1,%r3;", "ne.s32") == 0);
  CHECK(stripOf("add.s32 %r1,%r1,%r3;", "gt.s32") == 0);
  CHECK(stripOf("sub.s32 %r1,%r1,%r3;", "lt.s32") == 0);
  CHECK(stripOf("add.s32 %r1,%r1,%r1;", "lt.s32") == 0);
  CHECK(stripOf("add.s32 %r3,%r3,1; add.s32 %r1,%r1,%r3;", "lt.s32") == 0);
}

TEST_CASE("of a counter and its copy the one that the turn begins with counts a strip's turns") {
  auto counterOf = [](const std::string &turn) {
    auto sites = sitesOf("L: " + turn + "setp.lt.s32 %p1,%r1,%r2; @%p1 bra L; ret;");
    REQUIRE(sites.size() == 1);
    return sites[0].counter;
  };
  CHECK(counterOf("mov.u32 %r4,%r1; add.s32 %r1,%r4,%r3;") == "%r1");
  CHECK(counterOf("mov.u32 %r4,%r1; @%p2 bra M; add.s32 %r5,%r5,1; M: add.s32 %r1,%r4,%r3;") ==
        "%r1");
  CHECK(counterOf("add.s32 %r1,%r4,%r3; mov.u32 %r4,%r1;") == "%r4");
  CHECK(counterOf("add.s32 %r1,%r4,%r3; @%p2 bra M; add.s32 %r5,%r5,1; M: mov.u32 %r4,%r1;") ==
        "%r4");
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

TEST_CASE("a loop behind an unrolled one does not poll: low bits of something say how long it is") {
  auto count = [](const std::string &start, const std::string &turn) {
    return sitesOf(start + "L: fma.rn.f32 %f1,%f1,%f2,%f3;\n" + turn + "@%p1 bra L; ret;").size();
  };
  std::string down = "add.s32 %r1,%r1,-1; setp.ne.s32 %p1,%r1,0;";
  CHECK(count("and.b32 %r1,%r2,3;\n", down) == 0);
  CHECK(count("and.b32 %r3,%r2,3; mov.u32 %r1,%r3;\n", down) == 0);
  CHECK(count("and.b32 %r3,%r2,3; neg.s32 %r1,%r3;\n",
              "add.s32 %r1,%r1,1; setp.ne.s32 %p1,%r1,0;") == 0);
  // An upward count begins with no bit set: 256 turns of 32 cycles.
  CHECK(count("and.b32 %r1,%r2,7;\n", "add.s32 %r1,%r1,1; setp.lt.s32 %p1,%r1,256;") == 1);
  CHECK(count("and.b32 %r1,%r2,7;\n", "add.s32 %r1,%r1,1; setp.lt.s32 %p1,%r1,255;") == 0);
  // Another first value, many bits, high bits.
  CHECK(count("and.b32 %r1,%r2,3; @%p2 bra L; mov.u32 %r1,%r2;\n", down) == 1);
  CHECK(count("and.b32 %r1,%r2,1023;\n", down) == 1);
  CHECK(count("and.b32 %r1,%r2,-4;\n", down) == 1);
  CHECK(count("@%p2 and.b32 %r1,%r2,3;\n", down) == 1);
}

TEST_CASE("strips of one length, of two turns or more") {
  auto stripOf = [](unsigned fmas, const std::string &end, const std::string &start = "0") {
    auto sites = sitesOf("mov.u32 %r1," + start + ";\nL: fma.rn.f32 %f1,%f1,%f2,%f3;\n" +
                         times(fmas - 1, fma) + "add.s32 %r1,%r1,1; setp.lt.s32 %p1,%r1," + end +
                         "; @%p1 bra L; ret;");
    REQUIRE(sites.size() == 1);
    return sites[0].strip;
  };
  CHECK(stripOf(97, "%r2") == 51); // 800 cycles a turn, of 40,960
  CHECK(stripOf(97, "80") == 40);  // 80 turns cannot be split into strips of 51 and 29
  CHECK(stripOf(97, "32") == 32);
  CHECK(stripOf(1997, "%r2") == 2); // 16,000 cycles
  CHECK(stripOf(2097, "%r2") == 0); // a turn is longer than two periods: each turn polls
}

TEST_CASE("a loop of few turns, compared before the step") {
  // From a thread's id by 1,024 up to 1,024, in the form that compilers write: one turn.
  CHECK(sitesOf("mov.u32 %r1,%tid.x;\nL: fma.rn.f32 %f1,%f1,%f2,%f3;\n" + times(100, fma) +
                "add.s32 %r3,%r1,1024; setp.lt.s32 %p1,%r1,0; mov.u32 %r1,%r3; @%p1 bra L; ret;")
            .empty());
}

TEST_CASE("turns are as long as loads that ptxas joins, and as the warps that there is room for") {
  auto turnOf = [](const std::string &before, const std::string &turn) {
    auto cyclesOf = [&](const std::string &text) {
      Module module = parsed(
          moduleWith(".reg .f32 %v<100>; .reg .b32 %s; .shared .align 16 .b8 tile[64];\n" + before +
                     "L: " + text + "add.s32 %r1,%r1,1; setp.lt.s32 %p1,%r1,%r2; @%p1 bra L;\n" +
                     "st.global.f32 [%rd1],%f1; ret;"));
      Cfg cfg(*module.function("k"));
      auto sites = findPollSites(cfg, {});
      REQUIRE(sites.size() == 1);
      return sites[0].cycles;
    };
    return cyclesOf(turn) - cyclesOf("");
  };
  std::string four = "ld.shared.f32 %f1,[%s]; ld.shared.f32 %f2,[%s+4];\n"
                     "ld.shared.f32 %f3,[%s+8]; ld.shared.f32 %f4,[%s+12];\n";
  CHECK(turnOf("mov.u32 %s,tile;\n", four) == 32);   // one access, of all threads
  CHECK(turnOf("mov.u32 %s,%tid.x;\n", four) == 80); // as ld.shared.v4
  CHECK(turnOf("mov.u32 %s,tile;\n", "ld.shared.f32 %f1,[%s]; st.shared.f32 [%s],%f2;\n"
                                     "ld.shared.f32 %f1,[%s+4];\n") == 96);
  // 100 registers that are live through the loop leave space for three warps per scheduler, not
  // eight.
  std::string begin, end;
  for (unsigned i = 0; i != 100; ++i) {
    begin += "mov.f32 %v" + std::to_string(i) + ",0f00000000;\n";
    end += "fma.rn.f32 %v" + std::to_string(i) + ",%f1,%f2,%v" + std::to_string(i) + ";\n";
  }
  CHECK(turnOf(begin, end) == 103 * 3 - 3 * 8);
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
    CHECK(sites[0].turns == 40);
    CHECK(sites[0].mask == 0); // code may enter the loop for fewer than 32 turns, again and again
  }
  SUBCASE("the inner one is short") {
    auto sites = sitesOf(nest(""));
    REQUIRE(sites.size() == 1);
    CHECK(sites[0].first == "mov.u32 %r5,%r6;");
    CHECK(sites[0].turns == 32); // 5 instructions, and 16 turns of 4
    CHECK(sites[0].mask == 31);
    CHECK(sites[0].strip == 75);
  }
  SUBCASE("neither is, but the outer one turns as often as it likes") {
    CHECK(sitesOf(nest(""), 1 << 20).size() == 1);
  }
}

TEST_CASE("an inner loop is cut into strips only if these are not short") {
  auto sitesOfTurns = [](unsigned turns) {
    return sitesOf("O: mov.u32 %r5,0;\nI: xor.b32 %r7,%r7,%r5;\n" + times(1100, fma) +
                   "add.s32 %r5,%r5,1; setp.lt.s32 %p2,%r5," + std::to_string(turns) +
                   "; @%p2 bra I;\nadd.s32 %r1,%r1,1; setp.lt.s32 %p1,%r1,%r2; @%p1 bra O; ret;");
  };
  auto few = sitesOfTurns(2), many = sitesOfTurns(5);
  REQUIRE(few.size() == 1);
  CHECK(few[0].first == "xor.b32 %r7,%r7,%r5;");
  CHECK(few[0].turns == 2); // 8800 cycles each
  CHECK(few[0].strip == 0);
  REQUIRE(many.size() == 1);
  CHECK(many[0].strip == 3); // 5 turns in strips of at most 4, all strips alike
}

TEST_CASE("a loop around one that polls polls too") {
  std::string inner = "I: xor.b32 %r7,%r7,%r5;\n" + times(60, fma) +
                      "add.s32 %r5,%r5,1; setp.lt.s32 %p2,%r5,%r8; @%p2 bra I;\n";
  std::string latch = "J: add.s32 %r1,%r1,1; setp.lt.s32 %p1,%r1,%r2; @%p1 bra O; ret;";
  SUBCASE("where it may turn without") {
    auto sites = sitesOf("O: mov.u32 %r5,%r6; @%p3 bra J;\n" + inner + latch);
    REQUIRE(sites.size() == 2);
    CHECK(sites[0].first == "mov.u32 %r5,%r6;");
    CHECK(sites[0].turns == 512); // 5 instructions, without the inner loop
  }
  SUBCASE("where it is long without") {
    CHECK(sitesOf("O: mov.u32 %r5,%r6;\n" + times(2600, fma) + inner + latch).size() == 2);
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
