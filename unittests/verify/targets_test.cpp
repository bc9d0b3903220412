// Every PTX version from 6.0 on with each of its targets: own kernels parse, print back and are
// rewritten, and the variants use no form that the version or the target lacks.
#include "table.h"

#include "tally/ptx/syntax/parser.h"
#include "tally/ptx/syntax/printer.h"
#include "tally/ptx/transforms/rewriter.h"
#include "tally/ptx/transforms/verify.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>

using namespace tally;
using namespace tally::verify;

namespace {

struct Target {
  const char *name;
  int since; ///< 78 for PTX 7.8 (PTX ISA, "Release Notes")
};
constexpr Target targets[] = {
    {"sm_60", 50},   {"sm_61", 50},   {"sm_70", 60},   {"sm_72", 61},   {"sm_75", 63},
    {"sm_80", 70},   {"sm_86", 71},   {"sm_87", 74},   {"sm_88", 90},   {"sm_89", 78},
    {"sm_90", 78},   {"sm_90a", 80},  {"sm_100", 86},  {"sm_100a", 86}, {"sm_100f", 88},
    {"sm_101", 86},  {"sm_101a", 86}, {"sm_101f", 88}, {"sm_103", 88},  {"sm_103a", 88},
    {"sm_103f", 88}, {"sm_110", 90},  {"sm_110a", 90}, {"sm_110f", 90}, {"sm_120", 87},
    {"sm_120a", 87}, {"sm_120f", 88}, {"sm_121", 88},  {"sm_121a", 88}, {"sm_121f", 88}};
constexpr int versions[] = {50, 60, 61, 62, 63, 64, 65, 70, 71, 72, 73, 74, 75,
                            76, 77, 78, 80, 81, 82, 83, 84, 85, 86, 87, 88, 90};

/// Returns the text with its version and target replaced.
std::string retargeted(std::string text, int version, const std::string &target) {
  auto replaceLine = [&](const std::string &directive, const std::string &value) {
    std::size_t at = text.find("\n" + directive + " ");
    if (at == std::string::npos && text.starts_with(directive))
      at = 0;
    else
      REQUIRE(at != std::string::npos);
    std::size_t begin = text.find(directive, at), end = text.find('\n', begin);
    text.replace(begin, end - begin, directive + " " + value);
  };
  replaceLine(".version", std::to_string(version / 10) + "." + std::to_string(version % 10));
  replaceLine(".target", target);
  return text;
}

bool contains(const std::string &text, const char *part) {
  return text.find(part) != std::string::npos;
}

/// Returns the number of emitted variants.
std::size_t checkRewrite(const std::string &text, int version, int arch) {
  auto parsed = ptx::parse(text);
  REQUIRE(std::holds_alternative<ptx::Module>(parsed));
  const auto &module = std::get<ptx::Module>(parsed);
  CHECK(ptx::print(module) == text);
  CHECK(module.targetArch() == static_cast<std::uint32_t>(arch));
  auto kernels = ptx::rewrite(module, {});
  auto broken = ptx::verifyVariants(module, kernels);
  CHECK_MESSAGE(!broken, *broken);
  std::size_t emitted = 0;
  for (const ptx::RewrittenKernel &kernel : kernels)
    for (const ptx::Variant &variant : kernel.variants) {
      emitted += variant.verdict.status == Status::Emitted;
      for (const ptx::EditedText &each : variant.entries) {
        std::string entry = each.str();
        bool polls = variant.verdict.kind != Kind::Slice;
        bool relaxed = version >= 60 && arch >= 70;
        CHECK(contains(entry, "ld.relaxed.gpu.global") == (polls && relaxed));
        CHECK(contains(entry, "ld.volatile.global") == (polls && !relaxed));
        CHECK((version >= 60 || !contains(entry, "barrier.sync")));
      }
    }
  return emitted;
}

} // namespace

TEST_CASE("every version with every target that it has") {
  struct Subject {
    const char *file;
    std::size_t emitted, longLoops; ///< longLoops: kernels emitted as pause and checkpoint, where
                                    ///< the target allows these
  };
  const Subject subjects[] = {{"grid_3d.ptx", 3, 0},
                              {"barrier_tiles.ptx", 3, 1},
                              {"early_return.ptx", 0, 0},
                              {"directives.ptx", 6, 0}};
  std::size_t pairs = 0;
  for (const auto &[file, emitted, longLoops] : subjects) {
    std::string text = readText(sourceRoot() / "test/kernels" / file);
    for (const Target &target : targets)
      for (int version : versions) {
        if (version < target.since)
          continue;
        CAPTURE(file);
        CAPTURE(target.name);
        CAPTURE(version);
        int arch = std::stoi(std::string(target.name).substr(3));
        std::size_t count = checkRewrite(retargeted(text, version, target.name), version, arch);
        std::size_t kinds = arch < 70 ? 0 : (version >= 63) + (version >= 62);
        std::size_t wanted = emitted + kinds * longLoops;
        CHECK((emitted == 0 || count == wanted));
        ++pairs;
      }
  }
  CHECK(pairs > 1000);
}

TEST_CASE("clusters and mbarriers on every target from sm_90 on") {
  for (const char *file : {"clusters.ptx", "bulk_pipeline.ptx"}) {
    std::string text = readText(sourceRoot() / "test/kernels" / file);
    for (const Target &target : targets)
      for (int version : versions)
        if (int arch = std::stoi(std::string(target.name).substr(3));
            arch >= 90 && version >= target.since)
          CHECK(checkRewrite(retargeted(text, version, target.name), version, arch) >= 14);
  }
}
