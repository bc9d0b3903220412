// How many turns of a loop a request to pause waits for, in each way to poll between strips.
#include "work_grid.h"

#include <optional>

using namespace tally;

namespace {

/// Each turn tells its number.
constexpr const char *kernel = R"(.version 8.0
.target sm_80
.address_size 64
.visible .entry work(.param .u64 done, .param .u64 count)
{
	.reg .pred %p<2>;
	.reg .b32 %r<4>;
	.reg .b64 %rd<3>;
	ld.param.u64 %rd1, [done];
	ld.param.u64 %rd2, [count];
	mov.u32 %r1, 0;
AGAIN:
	add.u32 %r1, %r1, 1;
	st.volatile.global.u32 [%rd2], %r1;
	setp.lt.u32 %p1, %r1, 4000;
	@%p1 bra AGAIN;
	red.global.add.u32 [%rd1], 1;
	ret;
}
)";
constexpr std::uint64_t pollPeriod = 256;

struct Delay {
  std::uint32_t strip = 0;                ///< turns from one look to the next
  std::optional<std::uint32_t> untilSeen; ///< turns from the request to the nap
};

/// The word changes right before it is read the `told`-th time in the body.
Delay delayOf(const std::string &coding, std::uint64_t told) {
  verify::WorkGrid grid(kernel, Kind::Pause, 1, 0, pollPeriod, coding);
  Delay delay;
  std::uint32_t last = 0, asked = 0;
  std::uint64_t reads = 0, naps = 0;
  grid.machine.watchReads(grid.control, [&](std::uint64_t) {
    std::uint32_t turn = grid.read(grid.count, 0);
    if (turn == 0 || turn >= 4000)
      return;
    if (turn != last)
      delay.strip = turn - last;
    else if (++naps == 10) // the second read there may be that which the next poll looks at
      delay.untilSeen = turn - asked;
    last = turn;
    if (++reads == told) {
      asked = turn;
      grid.tell({.epoch = 0, .mode = TALLY_CONTROL_PAUSE});
    }
    if (naps == 20)
      grid.tell({.epoch = 0, .mode = TALLY_CONTROL_RUN});
  });
  grid.run(1, {1, 1});
  grid.checkEnd(1, 1);
  return delay;
}

} // namespace

TEST_CASE("who looks a strip late sees a request as soon as who waits between two") {
  for (std::uint64_t told : {1, 2, 5}) {
    Delay waits = delayOf({}, told), looksLate = delayOf("late-look", told);
    CHECK(waits.strip > 1);
    CHECK(2 * looksLate.strip <= waits.strip);
    CHECK(2 * looksLate.strip >= waits.strip - 1);
    CHECK(waits.untilSeen == 0);
    CHECK(looksLate.untilSeen == looksLate.strip);
  }
}
