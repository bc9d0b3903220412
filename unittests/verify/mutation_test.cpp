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
  for (const Subject *subject : {&tiles, &rows, &flat})
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
