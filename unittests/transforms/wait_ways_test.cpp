// Kernels that wait, with every way in which a value of memory reaches a branch; and similar
// kernels that do not wait.
#include "kernels.h"
#include "tally/ptx/analysis/opcodes.h"
#include "wait_ways.h"

#include <algorithm>

using namespace tally;
using namespace tally::ptx;

namespace {

const std::string nap = "nanosleep.u32 20; ";

KernelAnalysis analysed(const Module &module, ModuleFacts &facts) {
  return analyzeKernel(facts, *module.function("k"), betweenBlocks);
}

/// Returns whether the analysis finds no reason and no class of waits in the kernel, so that
/// variants could run it in part.
bool seemsToWaitForNobody(const std::string &body) {
  Module module = parsed(moduleOfWays(body));
  ModuleFacts facts(module);
  KernelAnalysis analysis = analysed(module, facts);
  bool refused = std::any_of(analysis.findings.begin(), analysis.findings.end(),
                             [](const auto &each) { return each.reason == Reason::WaitsOnBlocks; });
  return !refused && analysis.waits <= bundle::Waits::OwnBlock;
}

std::string loopOf(const LoopShape &shape, std::string_view inside, std::string_view carrying) {
  std::string text(shape.before);
  return text.append(inside).append(carrying).append(shape.after);
}

/// Returns a loop with the same instructions that ends by its count.
std::string countedLoop(std::string_view inside, std::string_view carrying) {
  return loopOf(
      {"", "mov.u32 %r14,0; L: ", "add.u32 %r14,%r14,1; setp.lt.u32 %p7,%r14,4; @%p7 bra L; ret;"},
      inside, carrying);
}

std::string read(const Reading &reading) {
  return (reading.needsAid ? nap : "") + std::string(reading.text);
}

} // namespace

TEST_CASE("a kernel that waits is seen, by whatever it reads, carries it and turns") {
  std::size_t count = 0;
  for (const Reading &reading : foreignReadings())
    for (const Carrying &carrying : carryings())
      for (const LoopShape &shape : loopShapes()) {
        CAPTURE(reading.text);
        CAPTURE(carrying.what);
        CAPTURE(shape.what);
        CHECK_FALSE(seemsToWaitForNobody(loopOf(shape, read(reading), carrying.text)));
        ++count;
      }
  CHECK(count >= 40);
}

TEST_CASE("what is read of others and carried anywhere but to the loop's end is no wait") {
  for (const Reading &reading : foreignReadings())
    for (const Carrying &carrying : carryings()) {
      // An unknown opcode may write the loop's count too, through its operands or otherwise.
      if (reading.opcode.starts_with("new") || carrying.text.starts_with("new"))
        continue;
      CAPTURE(reading.text);
      CAPTURE(carrying.what);
      CHECK(seemsToWaitForNobody(countedLoop(read(reading), carrying.text)));
    }
}

TEST_CASE("what no other block writes may decide a loop's end in every way") {
  for (const Reading &reading : ownReadings())
    for (const Carrying &carrying : carryings())
      for (const LoopShape &shape : loopShapes()) {
        // These instructions themselves read memory that all blocks share.
        if (carrying.what == "a surface" || carrying.what == "a copy" ||
            carrying.text.starts_with("new"))
          continue;
        CAPTURE(reading.text);
        CAPTURE(carrying.what);
        CAPTURE(shape.what);
        CHECK(seemsToWaitForNobody(loopOf(shape, reading.text, carrying.text)));
      }
}

TEST_CASE("a read that ptxas takes out of the loop is a poll beside whatever keeps it there") {
  for (const char *aid :
       {"nanosleep.u32 20; ", "membar.gl; ", "membar.sys; ", "fence.acq_rel.gpu; ",
        "fence.sc.sys; ", "ld.acquire.gpu.global.u32 %r5,[%rd1+128]; ",
        "atom.acq_rel.gpu.global.add.u32 %r5,[%rd1+128],1; "})
    for (const Reading &reading : foreignReadings()) {
      CAPTURE(aid);
      CAPTURE(reading.text);
      std::string inside = aid + std::string(reading.text);
      CHECK_FALSE(seemsToWaitForNobody(loopOf(loopShapes()[0], inside, "setp.eq.u32 %p1,%r1,0;")));
    }
  for (const Reading &reading : foreignReadings())
    if (reading.needsAid) {
      CAPTURE(reading.text);
      CHECK(seemsToWaitForNobody(loopOf(loopShapes()[0], reading.text, "setp.eq.u32 %p1,%r1,0;")));
    }
}

TEST_CASE("a function that calls itself waits by what it reads") {
  std::string module = moduleOfWays("call recurs, (%rd1); ret;");
  module.insert(module.find(".visible"),
                ".func recurs (.reg .b64 a) { .reg .b32 x; .reg .pred q; ld.volatile.u32 x,[a];"
                "setp.ne.u32 q,x,0; @q ret; call recurs, (a); ret; }\n");
  Module parsedModule = parsed(module);
  ModuleFacts facts(parsedModule);
  CHECK(analysed(parsedModule, facts).waits == bundle::Waits::Unknown);
}

TEST_CASE("each opcode's intake is known, and each that reads memory is in a kernel that waits") {
  for (std::string_view opcode : knownOpcodes()) {
    CAPTURE(opcode);
    Instruction instruction;
    instruction.opcode = opcode;
    CHECK(resultKindOf(instruction) != ResultKind::Unknown);
    Intake intake = intakeOf(instruction);
    CHECK((intake == Intake::Anything) == (opcode == "call"));
    if (intake != Intake::Cached && intake != Intake::Renewed && intake != Intake::Anything)
      continue;
    CHECK(std::any_of(foreignReadings().begin(), foreignReadings().end(),
                      [&](const Reading &each) { return each.opcode == opcode; }));
  }
  Instruction unknown;
  unknown.opcode = "newld";
  CHECK(intakeOf(unknown) == Intake::Anything);
  CHECK(resultKindOf(unknown) == ResultKind::Unknown);
}
