// Dependent kernels on one stream, all sent ahead under one epoch, with the request raised and
// withdrawn at every poll. CMake builds the test twice. With the runtime's control word the results
// are right. With a word that is set and cleared, a kernel yields in part, the cleared word lets
// the next kernel run on the half result, and this test must see the wrong result.
#include "input.h"
#include "ptx_text.h"
#include "table.h"
#include "verify.h"

#include <doctest/doctest.h>

#include <memory>
#include <string>

using namespace tally;
using namespace tally::verify;

namespace {

constexpr std::uint32_t blocks = 5, threads = 32, elements = blocks * threads;

Buffer wordBuffer(const char *name, Fill fill) {
  BufferSpec spec{ElementType::U32, elements, fill, 17, {}};
  return {name, spec.type, *initialBytes(spec)};
}

Argument pointerTo(std::size_t buffer) { return {{}, buffer}; }

/// first: a -> b; second: b -> c; third: c -> d.
Workload chainOf(const bundle::Bundle &bundle) {
  Workload chain;
  chain.buffers = {wordBuffer("a", Fill::Random), wordBuffer("b", Fill::Zero),
                   wordBuffer("c", Fill::Zero), wordBuffer("d", Fill::Iota)};
  LaunchShape shape{{blocks, 1, 1}, {threads, 1, 1}, 0};
  std::size_t from = 0;
  for (const char *name : {"chain_first", "chain_second", "chain_third"}) {
    const bundle::Kernel *kernel = bundle.kernel(name);
    REQUIRE(kernel);
    chain.launches.push_back({kernel, shape, {pointerTo(from + 1), pointerTo(from)}});
    ++from;
  }
  return chain;
}

VerifyReport verifyChain(Kind kind) {
  auto bundle = rewriteToBundle(readText(sourceRoot() / "test/kernels/chain.ptx"), "chain.ptx");
  REQUIRE_MESSAGE(bundle, bundle.error().message);
  auto target = openMicroscope(*bundle);
  REQUIRE_MESSAGE(target, target.error().message);
  VerifyOptions options;
  options.kinds = {kind};
  VerifyReport report = verify::verify(**target, chainOf(*bundle), {}, options);
  REQUIRE_MESSAGE(!report.userTrouble, *report.userTrouble);
  REQUIRE(report.kinds.size() == 1);
  return report;
}

} // namespace

#ifndef TALLY_PLANT_CLEARED_CONTROL_WORD

TEST_CASE("a chain of dependent kernels is right whatever yields and whenever") {
  for (Kind kind : {Kind::Slice, Kind::Guard, Kind::Persistent}) {
    VerifyReport report = verifyChain(kind);
    CHECK_MESSAGE(report.good(), name(kind), ": ", report.kinds[0].message);
    CHECK(report.kinds[0].runs > 2 * blocks);
    if (kind != Kind::Slice) {
      CHECK(report.kinds[0].polls >= 3 * blocks);
      CHECK(report.kinds[0].yields > report.kinds[0].runs);
    }
  }
}

#else

TEST_CASE("a control word that is cleared lets a kernel run on a half result") {
  for (Kind kind : {Kind::Guard, Kind::Persistent}) {
    VerifyReport report = verifyChain(kind);
    const KindReport &found = report.kinds[0];
    CAPTURE(found.message);
    CHECK(found.outcome == Outcome::Wrong);
    CHECK(found.message.find("ran blocks though it was asked to yield") != std::string::npos);
    CHECK(found.message.find("withdrawn at poll") != std::string::npos);
  }
}

#endif
