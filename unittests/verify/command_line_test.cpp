// tally-verify as a program: its exit codes and its output.
#include "../support/files.h"
#include "input.h"
#include "table.h"

#include "tally/bundle/bundle_writer.h"

#include <doctest/doctest.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <sys/wait.h>

using namespace tally;
using namespace tally::verify;

namespace {

struct Ran {
  int status = -1;
  std::string output; ///< both streams
};

Ran run(const std::string &arguments) {
  Ran ran;
  std::FILE *pipe =
      popen((std::string(TALLY_VERIFY_PROGRAM " ") + arguments + " 2>&1").c_str(), "r");
  REQUIRE(pipe);
  char buffer[4096];
  while (std::size_t got = std::fread(buffer, 1, sizeof buffer, pipe))
    ran.output.append(buffer, got);
  int status = pclose(pipe);
  REQUIRE(WIFEXITED(status));
  ran.status = WEXITSTATUS(status);
  return ran;
}

std::string kernelFile(const char *name) {
  std::string quoted = "'";
  quoted += (sourceRoot() / "test/kernels" / name).string();
  quoted += "'";
  return quoted;
}

/// A file for one test; the destructor removes it.
struct TemporaryFile : test::TemporaryFolder {
  explicit TemporaryFile(const std::string &content) {
    std::ofstream(name(), std::ios::binary) << content;
  }
  std::string name() const { return file("input"); }
};

const std::string flatLaunch =
    " --kernel=grid_2d --grid=3,2 --block=32 --arg=ptr:u32:192:zero --arg=ptr:u32:6:zero ";

void checkOutput(const Ran &ran, int status, std::initializer_list<std::string_view> parts) {
  CAPTURE(ran.output);
  CHECK(ran.status == status);
  for (std::string_view part : parts) {
    CAPTURE(part);
    CHECK(ran.output.find(part) != std::string::npos);
  }
}

} // namespace

TEST_CASE("a kernel whose variants are right") {
  Ran ran = run(kernelFile("grid_2d.ptx") + flatLaunch);
  checkOutput(ran, 0,
              {"grid_2d user's kernel: 6 runs, bitwise stable, compared exactly\n",
               "grid_2d slice: ok, 27 runs", "grid_2d guard: ok, 37 runs",
               "grid_2d persistent: ok, "});
  checkOutput(run(kernelFile("grid_2d.ptx") + flatLaunch + "--variants=guard --yield=2"), 0,
              {"grid_2d guard: ok, 2 runs, 3 launches, 1 of them yielded"});
  checkOutput(run(kernelFile("grid_2d.ptx") + flatLaunch + "--yield=random:4"), 0,
              {"slice: ok, 2 runs", "persistent: ok, 2 runs"});
}

TEST_CASE("refusals are reported and are no failure") {
  checkOutput(run(kernelFile("grid_sync.ptx") + " --kernel=grid_sync --grid=1 --block=1 "
                                                "--arg=ptr:u32:4:zero --arg=ptr:u32:4:zero"),
              0,
              {"user's kernel: not run", "slice: refused: grid-barrier at line ",
               "guard: refused: ", "persistent: refused: "});
  checkOutput(run(kernelFile("bar_arrive.ptx") +
                  " --kernel=bar_arrive --grid=4 --block=64 --arg=ptr:u32:128:zero "
                  "--arg=ptr:u32:128:random:12 --yield=0"),
              0, {"persistent: refused: barrier-form at line "});
  // The analysis proves the order of blocks for one dimension only.
  checkOutput(run(kernelFile("look_back.ptx") +
                  " --kernel=look_back --grid=3,2 --block=4 --arg=ptr:u32:7:zero "
                  "--arg=ptr:u32:7:zero"),
              0,
              {"guard: refused: for this grid: ", "persistent: refused: for this grid: ",
               "grids of up to 1 dimensions"});
}

TEST_CASE("order-dependent results are said to be") {
  std::string slots = kernelFile("atomic_slot.ptx") +
                      " --kernel=atomic_slot --grid=4 --block=32 --arg=ptr:u32:128:zero "
                      "--arg=ptr:u32:1:zero --arg=ptr:u32:128:random:3 ";
  checkOutput(run(slots), 0, {"order-dependent, compared by default"});
  checkOutput(run(slots + "--compare=sorted"), 0, {"order-dependent, compared sorted"});
  // This shows that the order does differ, and that tally-verify finds a difference.
  checkOutput(run(slots + "--compare=exact"), 2, {"WRONG in run ", "argument 0 element "});
}

TEST_CASE("a fault names the line of the PTX") {
  checkOutput(run(kernelFile("grid_2d.ptx") + " --kernel=grid_2d --grid=3,2 --block=32 "
                                              "--arg=ptr:u32:100:zero --arg=ptr:u32:6:zero"),
              2, {"grid_2d user's kernel: WRONG: grid_2d: out-of-bounds", "at line "});
}

TEST_CASE("a kernel that turns for ever is given up") {
  TemporaryFile endless(".version 8.0\n.target sm_80\n.address_size 64\n"
                        ".visible .entry k(.param .u64 p)\n{\n"
                        ".reg .b64 %d; .reg .b32 %r; .reg .pred %q;\nld.param.u64 %d, [p];\n"
                        "L: ld.relaxed.cta.global.u32 %r, [%d];\nsetp.eq.u32 %q, %r, 0;\n"
                        "@%q bra L;\nret;\n}\n");
  std::string launch = endless.name() + " --kernel=k --grid=2 --block=1 --variants=guard ";
  checkOutput(run(launch + "--arg=ptr:u32:1:zero --step-limit=1000"), 2,
              {"k user's kernel: WRONG: k: the step limit is reached (an endless loop?), at line ",
               "given up after 1000 warp-instructions (--step-limit)"});
  checkOutput(run(launch + "--arg=ptr:u32:1:random:1"), 0, {"k guard: ok"});

  // Only the variant loops: by default the limit follows from the user's kernel.
  auto bundle = rewriteToBundle(readText(sourceRoot() / "test/kernels/grid_2d.ptx"), "grid_2d.ptx");
  REQUIRE(bundle);
  std::string &text = bundle->images.front().bytes;
  std::size_t body = text.find('{', text.find(".entry grid_2d$tally_guard("));
  REQUIRE(body != std::string::npos);
  text.insert(body + 1, "\n$turn:\n\tbra $turn;\n");
  TemporaryFile stuck(bundle::write(*bundle));
  checkOutput(run(stuck.name() + flatLaunch + "--variants=guard"), 2,
              {"grid_2d user's kernel: 6 runs",
               "grid_2d guard: WRONG in run 1: grid_2d$tally_guard: "
               "the step limit is reached",
               "bra", "warp-instructions (--step-limit); no request"});
}

TEST_CASE("a bundle is taken as it is, planted bugs and all") {
  auto bundle = rewriteToBundle(readText(sourceRoot() / "test/kernels/grid_2d.ptx"), "grid_2d.ptx");
  REQUIRE(bundle);
  TemporaryFile good(bundle::write(*bundle));
  checkOutput(run(good.name() + flatLaunch), 0, {"persistent: ok"});

  std::string &text = bundle->images.front().bytes;
  std::string offset = "add.u32 %tally_ctaid_y, %tally_ctaid_y, %tally_offset_y;";
  for (std::size_t at = text.find(offset); at != std::string::npos; at = text.find(offset))
    text.erase(at, offset.size());
  TemporaryFile wrong(bundle::write(*bundle));
  checkOutput(run(wrong.name() + flatLaunch), 2,
              {"grid_2d slice: WRONG in run ", "argument 0 element ", ": expected ", ", got ",
               "slices of about ", "grid_2d guard: ok"});

  std::string damaged = bundle::write(*bundle);
  damaged[damaged.size() / 2] ^= 1;
  TemporaryFile broken(damaged);
  checkOutput(run(broken.name() + flatLaunch), 1, {"error: ", "damaged bundle"});
}

TEST_CASE("wrong input and usage") {
  checkOutput(run("--help"), 0, {"usage: tally-verify FILE --kernel=K", "Exit status:"});
  checkOutput(run("--version"), 0, {"tally-verify "});
  checkOutput(run(""), 1, {"error: no FILE"});
  checkOutput(run("/nonexistent.ptx --kernel=k --grid=1 --block=1"), 1,
              {"error: cannot read '/nonexistent.ptx'"});
  checkOutput(run(kernelFile("grid_2d.ptx") + " --kernel=nobody --grid=1 --block=1"), 1,
              {"has no kernel 'nobody'"});
  checkOutput(run(kernelFile("grid_2d.ptx") + " --kernel=grid_2d --grid=1 --block=1"), 1,
              {"takes 2 arguments, not 0"});
  checkOutput(run(kernelFile("grid_2d.ptx") + " --kernel=grid_2d --grid=1 --block=1 --arg=u32:1 "
                                              "--arg=u32:1"),
              1, {"argument 0 of kernel 'grid_2d' is 8 bytes, not 4"});
  checkOutput(run(kernelFile("grid_2d.ptx") + flatLaunch + "--block=2000"), 1,
              {"a block of 2000 threads"});
  TemporaryFile text(".version 7.0\n.target sm_80\n.entry k( {\n");
  checkOutput(run(text.name() + " --kernel=k --grid=1 --block=1"), 1, {"input:3:"});
}
