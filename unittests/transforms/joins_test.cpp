// Where threads come together behind loops.
#include "kernels.h"

#include "tally/ptx/analysis/joins.h"

using namespace tally::ptx;

namespace {

/// Each join's instruction and, behind `->`, its next one's; those of the heads, which are the
/// first instructions behind the labels HEADn.
std::string joinsOf(std::string_view body) {
  Module module = parsed(moduleWith(body));
  const Function &kernel = *module.function("k");
  std::vector<std::uint32_t> heads;
  for (std::uint32_t i = 0; i != kernel.body.size(); ++i)
    if (kernel.body[i].kind == StatementKind::Label && kernel.body[i].label.starts_with("HEAD"))
      heads.push_back(i + 1);
  Cfg cfg(kernel);
  Joins joins = findJoins(cfg, heads);
  auto textOf = [&](std::optional<unsigned> join) {
    return join ? std::string(kernel.body[joins.joins[*join].statement].text) : "end";
  };
  std::string text;
  for (unsigned i = 0; i != joins.joins.size(); ++i)
    text += textOf(i) + " -> " + textOf(joins.joins[i].next) + "\n";
  for (std::optional<unsigned> each : joins.ofHeads)
    text += textOf(each) + "\n";
  return text;
}

} // namespace

TEST_CASE("threads meet behind each loop, from the innermost out") {
  CHECK(joinsOf("HEAD1: mov.u32 %r1,1; HEAD2: mov.u32 %r1,2; HEAD3: mov.u32 %r1,3; "
                "@%p3 bra HEAD3; mov.u32 %r2,3; @%p2 bra HEAD2; mov.u32 %r2,2; "
                "@%p1 bra HEAD1; mov.u32 %r2,1; ret;") ==
        "mov.u32 %r2,3; -> mov.u32 %r2,2;\n"
        "mov.u32 %r2,2; -> mov.u32 %r2,1;\n"
        "mov.u32 %r2,1; -> end\n"
        "mov.u32 %r2,1;\nmov.u32 %r2,2;\nmov.u32 %r2,3;\n");
}

TEST_CASE("and behind the branch that leads around a loop") {
  CHECK(joinsOf("@%p1 bra ELSE; HEAD1: mov.u32 %r1,1; @%p2 bra HEAD1; mov.u32 %r2,1; bra BEHIND; "
                "ELSE: mov.u32 %r1,2; BEHIND: mov.u32 %r2,2; ret;") ==
        "mov.u32 %r2,1; -> mov.u32 %r2,2;\n"
        "mov.u32 %r2,2; -> end\n"
        "mov.u32 %r2,1;\n");
}

TEST_CASE("break and continue behind the inner loop") {
  CHECK(joinsOf("HEAD1: mov.u32 %r1,1; @%p1 bra BEHIND; HEAD2: mov.u32 %r1,2; @%p2 bra HEAD2; "
                "mov.u32 %r2,2; @%p3 bra HEAD1; mov.u32 %r2,3; @%p4 bra BEHIND; bra HEAD1; "
                "BEHIND: mov.u32 %r2,1; ret;") == "mov.u32 %r2,2; -> mov.u32 %r2,1;\n"
                                                  "mov.u32 %r2,1; -> end\n"
                                                  "mov.u32 %r2,1;\nmov.u32 %r2,2;\n");
}

TEST_CASE("a way out of two loops leads to behind both, one out of the body nowhere") {
  CHECK(joinsOf("HEAD1: mov.u32 %r1,1; HEAD2: mov.u32 %r1,2; @%p3 bra BEHIND; @%p2 bra HEAD2; "
                "mov.u32 %r2,2; @%p1 bra HEAD1; BEHIND: mov.u32 %r2,1; ret;") ==
        "mov.u32 %r2,1; -> end\nmov.u32 %r2,1;\nmov.u32 %r2,1;\n");
  CHECK(joinsOf("HEAD1: mov.u32 %r1,1; @%p3 ret; @%p2 bra HEAD1; mov.u32 %r2,2; ret;") == "end\n");
  CHECK(joinsOf("HEAD1: mov.u32 %r1,1; @%p2 bra HEAD1; mov.u32 %r2,2; @%p1 ret; EVER: bra EVER;") ==
        "end\n");
}

TEST_CASE("a place that has no name in the outer scope is left out") {
  CHECK(joinsOf("HEAD1: mov.u32 %r1,1; HEAD2: mov.u32 %r1,2; @%p2 bra HEAD2; "
                "{ mov.u32 %r2,2; } @%p1 bra HEAD1; mov.u32 %r2,1; ret;") ==
        "mov.u32 %r2,1; -> end\nmov.u32 %r2,1;\nmov.u32 %r2,1;\n");
}
