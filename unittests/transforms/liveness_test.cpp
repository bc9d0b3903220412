// Live registers at each place: by hand on small bodies, and compared with a search of all paths on
// random bodies.
#include "kernels.h"

#include "tally/ptx/analysis/liveness.h"
#include "tally/ptx/analysis/opcodes.h"

#include <random>
#include <sstream>

using namespace tally::ptx;

namespace {

std::string nameOf(const Function &function, RegisterId reg) {
  const RegisterDeclaration &declaration = function.declarationOf(reg);
  return std::string(declaration.name) +
         (declaration.isRange ? std::to_string(reg - declaration.first) : "");
}

using Names = std::set<std::string>;

Names namesOf(const Function &function, const std::vector<RegisterId> &registers) {
  Names names;
  for (RegisterId reg : registers)
    names.insert(nameOf(function, reg));
  return names;
}

/// Returns the index of the statement of `body` whose text begins with `text`.
std::uint32_t statementOf(const Function &function, std::string_view text) {
  for (std::uint32_t i = 0; i != function.body.size(); ++i)
    if (function.body[i].text.starts_with(text))
      return i;
  FAIL("no such statement: " << text);
  return 0;
}

/// Returns the registers that are live before the statement of kernel `k` that begins with `text`.
Names liveBefore(std::string_view body, std::string_view text) {
  Module module = parsed(moduleWith(body));
  const Function &function = *module.function("k");
  Cfg cfg(function);
  return namesOf(function, Liveness(cfg).liveBefore(statementOf(function, text)));
}

/// Returns the registers that are live where the body begins: they may be read before they are
/// written.
Names liveAtEntry(std::string_view body) {
  Module module = parsed(moduleWith(body));
  const Function &function = *module.function("k");
  Cfg cfg(function);
  return namesOf(function, Liveness(cfg).liveIn(cfg.front()));
}

} // namespace

TEST_CASE("a value lives from its write to its last read") {
  const char *body =
      "mov.u32 %r1,%tid.x; mov.u32 %r2,7; add.u32 %r3,%r1,%r2; add.u32 %r4,%r3,%r3;\n"
      "st.global.u32 [%rd1],%r4; ret;";
  CHECK(liveBefore(body, "mov.u32 %r1") == Names{"%rd1"});
  CHECK(liveBefore(body, "add.u32 %r3") == Names{"%r1", "%r2", "%rd1"});
  CHECK(liveBefore(body, "add.u32 %r4") == Names{"%r3", "%rd1"});
  CHECK(liveBefore(body, "ret") == Names{});
}

TEST_CASE("a write under a guard keeps what was there; the guard is read") {
  CHECK(liveAtEntry("@%p1 mov.u32 %r1,1; st.global.u32 [%rd1],%r1; ret;") ==
        Names{"%p1", "%r1", "%rd1"});
  CHECK(liveAtEntry("mov.u32 %r1,1; st.global.u32 [%rd1],%r1; ret;") == Names{"%rd1"});
}

TEST_CASE("one of two ways writes: it lives where they part") {
  CHECK(liveAtEntry("@%p1 bra L; mov.u32 %r1,1; L: st.global.u32 [%rd1],%r1; ret;") ==
        Names{"%p1", "%r1", "%rd1"});
  CHECK(liveAtEntry("@%p1 bra L; mov.u32 %r1,1; bra M; L: mov.u32 %r1,2; M:\n"
                    "st.global.u32 [%rd1],%r1; ret;") == Names{"%p1", "%rd1"});
}

TEST_CASE("what a loop carries lives on its back edge") {
  const char *body = "mov.u32 %r1,0; mov.f32 %f1,0f00000000;\n"
                     "L: ld.global.f32 %f2,[%rd1]; add.f32 %f1,%f1,%f2; add.u32 %r1,%r1,1;\n"
                     "setp.lt.u32 %p1,%r1,9; @%p1 bra L; st.global.f32 [%rd2],%f1; ret;";
  CHECK(liveBefore(body, "ld.global.f32") == Names{"%r1", "%f1", "%rd1", "%rd2"});
  CHECK(liveAtEntry(body) == Names{"%rd1", "%rd2"});
}

TEST_CASE("vectors, pairs, addresses and calls") {
  CHECK(
      liveAtEntry("ld.global.v2.u32 {%r1,%r2},[%rd1+4]; st.global.v2.u32 [%rd2],{%r1,%r3}; ret;") ==
      Names{"%rd1", "%rd2", "%r3"});
  CHECK(liveAtEntry("setp.lt.u32 %p1|%p2,%r1,%r2; @!%p2 st.global.u32 [%rd1],%r3; ret;") ==
        Names{"%r1", "%r2", "%r3", "%rd1"});
  CHECK(liveAtEntry("atom.global.add.u32 %r1,[%rd1],%r2; st.global.u32 [%rd1],%r1; ret;") ==
        Names{"%rd1", "%r2"});
}

TEST_CASE("a part of a vector register does not end the others; an accumulator is read") {
  CHECK(
      liveAtEntry(".reg .v2 .f32 %v; mov.f32 %v.x,%f1; mov.f32 %f2,%v.y; st.global.f32 [%rd1],%f2;"
                  "ret;") == Names{"%v", "%f1", "%rd1"});
  CHECK(
      liveAtEntry("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0,%f1,%f2,%f3}, %rd1, %rd2,"
                  "1, 1, 1, 0, 0; ret;") == Names{"%f0", "%f1", "%f2", "%f3", "%rd1", "%rd2"});
}

TEST_CASE("nothing is known of an unknown opcode: it reads and does not end") {
  CHECK(liveAtEntry("frobnicate.b32 %r1,%r2; st.global.u32 [%rd1],%r1; ret;") ==
        Names{"%r1", "%r2", "%rd1"});
}

TEST_CASE("a shadowed register is another one") {
  CHECK(liveAtEntry(
            "mov.u32 %r1,1; { .reg .b32 %r1; mov.u32 %r1,2; } st.global.u32 [%rd1],%r1; ret;") ==
        Names{"%rd1"});
  CHECK(liveAtEntry("{ .reg .b32 %r1; mov.u32 %r1,2; } st.global.u32 [%rd1],%r1; ret;") ==
        Names{"%r1", "%rd1"});
}

TEST_CASE("what only a way that traps reads is left out") {
  CHECK(liveAtEntry("@%p1 bra L; ret; L: st.global.u32 [%rd1],%r1; trap;") == Names{"%p1"});
}

TEST_CASE("the condition code lives between add.cc and addc") {
  Module module = parsed(moduleWith("add.u32 %r5,%r1,%r3; add.cc.u32 %r1,%r1,%r3;\n"
                                    "addc.u32 %r2,%r2,%r4; sub.u32 %r6,%r1,%r2; ret;"));
  const Function &function = *module.function("k");
  Cfg cfg(function);
  Liveness liveness(cfg);
  CHECK(!liveness.carryLiveBefore(statementOf(function, "add.u32 %r5")));
  CHECK(!liveness.carryLiveBefore(statementOf(function, "add.cc")));
  CHECK(liveness.carryLiveBefore(statementOf(function, "addc")));
  CHECK(!liveness.carryLiveBefore(statementOf(function, "sub.u32")));
}

namespace {

/// Returns whether some path from before `statement` reads `reg` before it writes it; walks every
/// path.
bool isReadFrom(const Cfg &cfg, const CfgBlock &block, std::uint32_t statement, RegisterId reg,
                std::vector<bool> &seen) {
  for (std::uint32_t each : block.instructions) {
    if (each < statement)
      continue;
    const Instruction &instruction = cfg.instruction(each);
    bool reads = instruction.guard && instruction.guard->predicate.reg == reg, writes = false;
    forEachReadRegister(instruction, [&](const Operand &read) { reads |= read.reg == reg; });
    forEachWrittenRegister(instruction,
                           [&](const Operand &written) { writes |= written.reg == reg; });
    if (reads)
      return true;
    if (writes && !instruction.guard)
      return false;
  }
  for (const CfgBlock *next : block.successors)
    if (!seen[next->number]) {
      seen[next->number] = true;
      if (isReadFrom(cfg, *next, 0, reg, seen))
        return true;
    }
  return false;
}

std::string randomBody(std::mt19937 &random) {
  std::ostringstream body;
  auto below = [&](unsigned limit) { return random() % limit; };
  auto maybeGuard = [&](bool guarded) {
    if (guarded)
      body << "@%p" << below(4) << ' ';
  };
  for (int i = 0; i != 12; ++i) {
    body << 'L' << i << ":\n";
    for (unsigned j = below(4); j != 0; --j) {
      maybeGuard(below(4) == 0);
      body << "add.u32 %r" << below(12) << ",%r" << below(12) << ",%r" << below(12) << ";\n";
    }
    if (below(3) == 0)
      body << "setp.lt.u32 %p" << below(4) << ",%r" << below(12) << ",%r" << below(12) << ";\n";
    if (below(2)) {
      maybeGuard(below(4) != 0);
      body << "bra L" << below(12) << ";\n";
    } else if (below(8) == 0) {
      body << "ret;\n";
    }
  }
  body << "ret;";
  return body.str();
}

} // namespace

TEST_CASE("random graphs: the same as a search of every way") {
  std::mt19937 random(3);
  for (int round = 0; round != 200; ++round) {
    std::string body = randomBody(random);
    CAPTURE(body);
    Module module = parsed(moduleWith(body));
    const Function &function = *module.function("k");
    Cfg cfg(function);
    Liveness liveness(cfg);
    for (const auto &block : cfg.blocks()) {
      std::vector<std::uint32_t> places = block->instructions;
      for (std::uint32_t statement : places) {
        std::vector<RegisterId> expected;
        for (RegisterId reg = 0; reg != function.registerCount; ++reg) {
          std::vector<bool> seen(cfg.size());
          if (isReadFrom(cfg, *block, statement, reg, seen))
            expected.push_back(reg);
        }
        REQUIRE(liveness.liveBefore(statement) == expected);
        if (statement == places.front())
          REQUIRE(liveness.liveIn(*block) == expected);
      }
    }
  }
}
