// Plants bugs into emitted variants, one at a time, and requires tally-verify to see each: what a
// checker does not find when it is there, it says nothing about when it is not.
#include "input.h"
#include "ptx_text.h"
#include "table.h"
#include "verify.h"
#include "workload.h"

#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

using namespace tally;
using namespace tally::verify;

namespace {

/// A kernel with its launch.
struct Subject {
  std::string file, kernel;
  LaunchShape shape;
  std::vector<std::string> arguments;
};

const Subject tiles{"barrier_tiles.ptx",
                    "barrier_tiles",
                    {{5}, {64}},
                    {"ptr:u32:320:zero", "ptr:u32:640:random:5", "i32:2"}};
const Subject rows{"shared_reuse.ptx",
                   "shared_reuse",
                   {{8}, {128}},
                   {"ptr:u32:1024:zero", "ptr:u32:1024:random:17"}};
const Subject flat{
    "grid_2d.ptx", "grid_2d", {{3, 2}, {64}}, {"ptr:u32:384:zero", "ptr:u32:6:zero"}};

const Subject leaving{"park.ptx",
                      "leave_in_rounds",
                      {{4}, {72}},
                      {"ptr:u32:288:zero", "ptr:u32:288:random:91", "u32:9"}};
const Subject reducing{"park.ptx",
                       "reduce_and_leave",
                       {{5}, {96}},
                       {"ptr:u32:480:zero", "ptr:u32:480:random:97", "u32:5"}};
const Subject counting{"park.ptx",
                       "counted_after_leaving",
                       {{5}, {96}},
                       {"ptr:u32:480:zero", "ptr:u32:480:random:99"}};
const Subject dividing{"spend.ptx",
                       "part_leaves",
                       {{6}, {96}},
                       {"ptr:u32:576:zero", "ptr:u32:576:random:100", "u32:20"}};
const Subject leading{
    "spend.ptx", "leader_spends", {{6}, {128}}, {"ptr:u32:768:zero", "ptr:u32:768:random:103"}};

/// A bug: `from` becomes `to` in the entries of `kind`, at every place, at least once.
struct Mutation {
  std::string name;
  Kind kind;
  const Subject &subject;
  std::string from, to;
};

std::vector<Mutation> allMutations() {
  return {
      {"persistent without the barrier at the loop's head", Kind::Persistent, rows,
       "$tally_next:\n\tbarrier.sync 0;", "$tally_next:"},
      {"persistent without the barrier behind the index", Kind::Persistent, tiles,
       "$tally_agree:\n\tbar.sync 0;", "$tally_agree:"},
      {"guard without the barrier behind the flag", Kind::Guard, flat,
       "$tally_agree:\n\tbar.sync 0;", "$tally_agree:"},
      {"slice forgets the offset in y", Kind::Slice, flat,
       "add.u32 %tally_ctaid_y, %tally_ctaid_y, %tally_offset_y;", ""},
      {"slice keeps the physical extent", Kind::Slice, flat,
       "ld.param.u32 %tally_nctaid_x, [$tally_launch+40];", "mov.u32 %tally_nctaid_x, %nctaid.x;"},
      {"persistent keeps the physical extent", Kind::Persistent, flat,
       "ld.param.u32 %tally_nctaid_y, [$tally_launch+44];", "mov.u32 %tally_nctaid_y, %nctaid.y;"},
      {"guard's resume entry swaps x and y", Kind::Guard, flat, "[$tally_block+4], %tally_r0",
       "[$tally_block+8], %tally_r0"},
      {"guard appends a block that yields twice", Kind::Guard, flat,
       "atom.global.add.u32 %tally_r0, [%tally_d2+8], 1;",
       "atom.global.add.u32 %tally_r0, [%tally_d2+8], 2;"},
      {"guard's list begins one block later", Kind::Guard, flat,
       "st.global.u32 [%tally_d3], %tally_id;", "st.global.u32 [%tally_d3+4], %tally_id;"},
      {"persistent loses the block whose index it holds when it yields", Kind::Persistent, tiles,
       "@%tally_yield bra $tally_last;\n\tand.b32",
       "@%tally_yield atom.global.inc.u32 %tally_id, [%tally_d2+0], 4294967294;\n\t"
       "@%tally_yield bra $tally_last;\n\tand.b32"},
      {"guard yields whenever the epochs differ", Kind::Guard, flat, "setp.gt.u64 %tally_yield",
       "setp.ne.u64 %tally_yield"},
      {"persistent yields whenever the epochs differ", Kind::Persistent, flat,
       "setp.gt.u64 %tally_yield", "setp.ne.u64 %tally_yield"},
      {"guard never yields", Kind::Guard, flat, "setp.gt.u64 %tally_yield",
       "setp.lt.u64 %tally_yield"},
      {"persistent parks in the aligned form", Kind::Persistent, leaving, "barrier.red.or.pred",
       "barrier.red.or.aligned.pred"},
      {"persistent parks but in one of the barriers", Kind::Persistent, leaving,
       "mov.pred %tally_here, 1;\n\tbarrier.red.or.pred %tally_any, 0, %tally_here;",
       "barrier.sync 0;"},
      {"persistent does not park those who leave", Kind::Persistent, leaving,
       "@%tally_any bra $tally_park;", ""},
      {"persistent's threads in the body say that nobody is", Kind::Persistent, leaving,
       "mov.pred %tally_here, 1;", "mov.pred %tally_here, 0;"},
      {"persistent has a barrier of its own behind the parked ones", Kind::Persistent, leaving,
       "@%tally_any bra $tally_park;", "barrier.sync 0;\n\t@%tally_any bra $tally_park;"},
      {"persistent counts threads that left in a reduction", Kind::Persistent, reducing,
       "%tally_count, 0, %tally_here;\n\tbra.uni $tally_park;",
       "%tally_count, 0, !%tally_here;\n\tbra.uni $tally_park;"},
      {"persistent takes all for any", Kind::Persistent, reducing,
       "setp.eq.u32 %p2, %tally_count, 0", "setp.ne.u32 %p2, %tally_count, 0"},
      {"persistent shares a barrier with one that has a thread count", Kind::Persistent, counting,
       "barrier.sync 2;", "barrier.sync 0;"},
      {"persistent takes part of a warp for all of it", Kind::Persistent, dividing,
       "@%tally_leave bra $tally_spend;", ""},
      {"persistent takes what is not the last warp for it", Kind::Persistent, leading,
       "and.b32 %tally_r1, %tally_r1, -32;\n\tmov.u32 %tally_r3, %ntid.z;",
       "mov.u32 %tally_r1, 123;\n\tmov.u32 %tally_r3, %ntid.z;"},
      {"persistent's worker goes on though part of it has exited", Kind::Persistent, dividing,
       "@%tally_leave bra $tally_leave;", ""},
      {"persistent does not say that part of it has exited", Kind::Persistent, dividing,
       "st.shared.u16 [$tally_block+2], %tally_flag;\n\tmembar.cta;", "membar.cta;"},
      {"persistent leaves a block that it took, as part of it has exited", Kind::Persistent,
       dividing, "ld.shared.u16 %tally_flag, [$tally_block];",
       "ld.shared.u32 %tally_flag, [$tally_block];"},
      {"persistent is not taken off the count when it leaves", Kind::Persistent, flat,
       "red.global.dec.u32 [%tally_d2+4]", "red.global.and.b32 [%tally_d2+4]"},
      {"persistent is not counted in", Kind::Persistent, flat, "red.global.inc.u32 [%tally_d2+4]",
       "red.global.or.b32 [%tally_d2+4]"},
      {"persistent is counted in before each block", Kind::Persistent, flat,
       "@!%tally_joins bra $tally_poll;", ""},
      {"persistent's last worker leaves by the width", Kind::Persistent, flat,
       "max.u32 %tally_word, %tally_word, 1;", ""},
      {"persistent leaves when as many are live as wanted", Kind::Persistent, flat,
       "setp.le.u32 %tally_yield, %tally_r0, %tally_word;",
       "setp.lt.u32 %tally_yield, %tally_r0, %tally_word;"},
      {"persistent never polls", Kind::Persistent, flat, "ld.relaxed.gpu.global.u64 %tally_d0",
       "mov.u64 %tally_d0, 0; //"},
  };
}

/// Replaces at every place from `start` on; how often.
std::size_t replaceAll(std::string &text, std::size_t start, std::string_view from,
                       std::string_view to) {
  std::size_t count = 0;
  for (std::size_t at = text.find(from, start); at != std::string::npos;
       at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
    ++count;
  }
  return count;
}

bundle::Bundle rewritten(const Subject &subject) {
  auto bundle =
      rewriteToBundle(readText(sourceRoot() / "test/kernels" / subject.file), subject.file);
  REQUIRE_MESSAGE(bundle, bundle.error().message);
  return *bundle;
}

KindReport verifyKind(const bundle::Bundle &bundle, const Subject &subject, Kind kind) {
  std::vector<ArgumentSpec> arguments;
  for (const std::string &spec : subject.arguments)
    arguments.push_back(*parseArgument(spec));
  auto workload = workloadOf(*bundle.kernel(subject.kernel), subject.shape, arguments);
  REQUIRE_MESSAGE(workload, workload.error().message);
  auto target = openMicroscope(bundle);
  REQUIRE_MESSAGE(target, target.error().message);
  VerifyOptions options;
  options.kinds = {kind};
  VerifyReport report = verify::verify(**target, *workload, {}, options);
  REQUIRE_MESSAGE(!report.userTrouble, *report.userTrouble);
  REQUIRE(report.kinds.size() == 1);
  return report.kinds[0];
}

} // namespace

TEST_CASE("the subjects are right as long as nothing is planted") {
  for (const Subject *subject :
       {&tiles, &rows, &flat, &leaving, &reducing, &counting, &dividing, &leading})
    for (Kind kind : allKinds) {
      KindReport report = verifyKind(rewritten(*subject), *subject, kind);
      CHECK_MESSAGE(report.outcome == Outcome::Ok, subject->kernel, " ", name(kind), ": ",
                    report.message);
    }
}

TEST_CASE("every planted bug is found") {
  for (const Mutation &mutation : allMutations()) {
    CAPTURE(mutation.name);
    bundle::Bundle bundle = rewritten(mutation.subject);
    std::string &text = bundle.images.front().bytes;
    // Only in the variants: they stand behind the user's own text.
    std::size_t variants = text.find(bundle::entryName(mutation.subject.kernel, Kind::Slice));
    REQUIRE(variants != std::string::npos);
    REQUIRE(replaceAll(text, variants, mutation.from, mutation.to) > 0);
    KindReport report = verifyKind(bundle, mutation.subject, mutation.kind);
    CAPTURE(report.message);
    CHECK(report.outcome == Outcome::Wrong);
  }
}
