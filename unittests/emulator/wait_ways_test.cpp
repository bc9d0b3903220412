// The kernels that test the analysis of waits do wait, as far as the emulator has their
// instructions: block 0 alone loops for ever, and with block 1 it ends.
#include "../transforms/wait_ways.h"
#include "harness.h"

using namespace tally;
using namespace tally::emulator;
using ptx::carryings;
using ptx::foreignReadings;
using ptx::loopShapes;

namespace {

/// Block 0 loops; block 1 fills 2 KiB with ones.
std::string kernelOf(const ptx::LoopShape &shape, std::string_view reading,
                     std::string_view carrying) {
  std::string body = "mov.u32 %r12,%ctaid.x; setp.ne.u32 %p7,%r12,0; @%p7 bra W;\n";
  body.append(shape.before).append(reading).append(carrying).append(shape.after);
  return ptx::moduleOfWays(body +
                           "\nW: mov.u32 %r12,0; F: st.volatile.global.u32 [%rd1],1;"
                           "add.u64 %rd1,%rd1,4; add.u32 %r12,%r12,1; setp.lt.u32 %p7,%r12,512;"
                           "@%p7 bra F; ret;");
}

/// Returns how the kernel ends with that many resident blocks; BadLaunch where it cannot be loaded.
std::optional<FaultKind> endOf(const std::string &text, std::uint32_t residentBlocks) {
  Machine machine;
  machine.setStepLimit(residentBlocks == 1 ? 20000 : 1u << 20);
  auto parsed = ptx::parse(text);
  if (std::holds_alternative<ptx::Diagnostic>(parsed))
    return FaultKind::BadLaunch;
  auto program = machine.load(std::get<ptx::Module>(parsed));
  auto buffer = machine.allocate(2048);
  if (!program || !buffer)
    return FaultKind::BadLaunch;
  auto view = machine.view(*buffer, 2048);
  REQUIRE(bool(view));
  std::memset(view->data(), 0, view->size());
  std::vector<std::byte> parameters;
  Harness::append(parameters, *buffer);
  Harness::append(parameters, std::uint32_t{1});
  Harness::append(parameters, std::uint64_t{0});
  Harness::append(parameters, std::uint64_t{0});
  auto fault = machine.run(**program, "k", shapeOf(2, 32), parameters, {1, residentBlocks});
  return fault ? std::optional(fault->kind) : std::nullopt;
}

/// Returns whether block 0 waited for block 1; both runs took place.
bool waits(const ptx::LoopShape &shape, std::string_view reading, std::string_view carrying) {
  std::string text = kernelOf(shape, reading, carrying);
  return endOf(text, 1) == FaultKind::StepLimit && !endOf(text, 2);
}

} // namespace

TEST_CASE("the kernels that are taken for waiting ones wait") {
  std::string_view compare = carryings().front().text;
  std::string_view load = foreignReadings().front().text;
  std::size_t readings = 0, carried = 0;
  // The emulator lacks the other instructions, or those kernels end alone in some lane.
  for (const ptx::Reading &each : foreignReadings())
    readings += waits(loopShapes().front(), each.text, compare);
  for (const ptx::Carrying &each : carryings())
    carried += waits(loopShapes().front(), load, each.text);
  for (const ptx::LoopShape &each : loopShapes()) {
    if (each.what == "traps when it takes too long" || each.what == "or a time has passed")
      continue;
    CAPTURE(each.what);
    CHECK(waits(each, load, compare));
  }
  CHECK(readings >= 27);
  CHECK(carried >= 41);
}
