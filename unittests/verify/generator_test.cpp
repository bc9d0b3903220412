// The generator is deterministic, uses all its features, and its kernels agree with their variants.
// The reducer keeps a failure and removes nearly everything else.
#include "generator/campaign.h"
#include "generator/reduce.h"

#include <doctest/doctest.h>

#include <set>
#include <string>

using namespace tally;
using namespace tally::verify;

namespace {

std::string textOf(std::uint64_t seed) { return emit(generate(seed)).text; }

/// Removes the barrier at the head of the persistent loop.
void dropHeadBarrier(std::string &text) {
  const std::string label = "$tally_agree:\n", barrier = label + "\tbarrier.sync 0;\n";
  for (std::size_t at = text.find(barrier); at != std::string::npos; at = text.find(barrier, at))
    text.replace(at, barrier.size(), label);
}

} // namespace

TEST_CASE("a seed names one kernel") {
  std::set<std::string> texts;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    CHECK(textOf(seed) == textOf(seed));
    texts.insert(textOf(seed));
  }
  CHECK(texts.size() == 50);
}

TEST_CASE("generated kernels hold what real ones do") {
  std::string all;
  std::set<std::string> shapes;
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    GeneratedKernel kernel = emit(generate(seed));
    all += kernel.text;
    const Dim3 &grid = kernel.shape.grid, &block = kernel.shape.block;
    shapes.insert(grid.z > 1 ? "grid 3D" : grid.y > 1 ? "grid 2D" : "grid 1D");
    shapes.insert(block.z > 1 ? "block 3D" : block.y > 1 ? "block 2D" : "block 1D");
    if (block.count() % 32 != 0)
      shapes.insert("part of a warp");
    if (kernel.shape.dynamicSharedBytes != 0)
      shapes.insert("dynamic shared memory");
    if (kernel.arguments.empty())
      shapes.insert("no parameters");
  }
  CHECK(shapes.size() == 9);
  for (const char *each : {"bar.sync 0;",
                           "barrier.sync 0;",
                           "barrier.sync.aligned",
                           "barrier.cta.sync",
                           "bar.sync 3;",
                           "bar.red.popc",
                           "bar.red.and",
                           "barrier.red.or",
                           "bar.arrive 1",
                           "barrier.sync 8, ",
                           "bar.warp.sync %x",
                           "shfl.sync.bfly",
                           "shfl.sync.idx",
                           "vote.sync.ballot",
                           "match.any",
                           "match.all",
                           "redux.sync",
                           "red.shared",
                           "atom.shared",
                           "red.global",
                           "atom.global.inc",
                           "ld.acquire.gpu",
                           "call.uni (retval0)",
                           ".callprototype",
                           "brx.idx.uni",
                           ".branchtargets",
                           "\t{\n\t.reg .b32 %v",
                           ".loc 1 ",
                           ".pragma \"nounroll\"",
                           "addc.cc",
                           "subc",
                           "st.local",
                           "ld.global.v4",
                           "st.global.v2",
                           "ld.param.u8",
                           "mov.b64 %w",
                           ", p_bytes;",
                           " exit;",
                           " ret;",
                           "bra $done;",
                           "bra $return",
                           "selp",
                           "cvt.u64.u32 %w",
                           ".reqntid",
                           ".minnctapersm",
                           ".extern .shared",
                           "$S1_0",
                           "$S2_0"})
    CHECK_MESSAGE(all.find(each) != std::string::npos, each);
}

TEST_CASE("generated kernels agree with their variants") {
  CampaignOptions options;
  options.count = 60;
  options.seed = 70000;
  auto report = runCampaign(options);
  REQUIRE_MESSAGE(report, report.error().message);
  CHECK_MESSAGE(report->failures.empty(), toText(*report));
  CHECK(report->kernels == 60);
  // For kernels with a loop; checkpoint: for loops where blocks can be saved.
  auto least = [](Kind kind) {
    return kind == Kind::Checkpoint ? 10u : kind == Kind::Pause ? 20u : 35u;
  };
  for (Kind kind : allKinds)
    CHECK(report->kinds.at(kind).emitted >= least(kind));
  CHECK(report->kinds.at(Kind::Guard).yields > 500);
  CHECK(report->kinds.at(Kind::Persistent).yields > 500);
  CHECK(report->kinds.at(Kind::Pause).yields > 500);
  CHECK(report->kinds.at(Kind::Checkpoint).yields > 500);
}

TEST_CASE("a planted bug is found and reduced to what shows it") {
  CheckOptions options;
  options.kinds = {Kind::Persistent};
  options.plant = dropHeadBarrier;
  std::size_t found = 0;
  for (std::uint64_t seed = 0; seed < 300 && found < 3; ++seed) {
    Program program = generate(seed);
    auto fails = [&](const Program &candidate) {
      KernelCheck result = check(emit(candidate), seed, options);
      return result.failure && result.failure->stage == Stage::Variant;
    };
    if (!fails(program))
      continue;
    ++found;
    std::size_t before = countStatements(program);
    Program small = reduce(program, fails, {1500});
    CAPTURE(emit(small).text);
    CHECK(fails(small));
    CHECK(countStatements(small) <= 3);
    CHECK(countStatements(small) < before);
    CHECK(small.shape.grid.count() <= 4);
    // Without the planted bug the kernel is right, as all generated kernels are.
    CHECK(!check(emit(small), seed, {}).failure);
  }
  CHECK(found == 3);
}

TEST_CASE("whatever a reducer leaves is still a right kernel") {
  for (std::uint64_t seed = 1000; seed < 1012; ++seed) {
    // "Fails" by a number that no statement decides, so the removals take an arbitrary path.
    std::uint64_t asked = 0;
    auto fails = [&](const Program &candidate) {
      CHECK(!check(emit(candidate), seed, {{Kind::Guard}, 0, 1, {}}).failure);
      return ++asked % 3 != 0;
    };
    static_cast<void>(reduce(generate(seed), fails, {60}));
  }
}
