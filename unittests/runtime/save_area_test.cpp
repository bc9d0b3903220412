// Save areas: the launches for which a lane allocates one, and the behaviour where it cannot.
#include "kind_launches.h"

using namespace tally;
using namespace tally::runtime;
using namespace tally::test;
using namespace std::chrono_literals;

TEST_CASE("in the lane: where a save area cannot be had, blocks are run to their ends") {
  for (int stoppedBehind : {0, 7}) {
    CAPTURE(stoppedBehind);
    // The device does not tell the capacity of its SMs, so the lane allocates no area in advance.
    Launches launches(4, everyKind, 32, {24, 1, 1}, nullptr, {}, 0);
    launches.eachBlock = 200us;
    launches.device.mostBytes = 0; // all memory that is needed otherwise is allocated
    if (stoppedBehind != 0)
      launches.stopBehind(stoppedBehind);
    REQUIRE(launches.submit(launches.program, 0));
    for (int i = 0; i < 400; ++i)
      launches.turn();
    if (stoppedBehind != 0) {
      CHECK(!launches.allFinished());
      REQUIRE(launches.high->endRequest());
    }
    for (int i = 0; i < 10000 && !launches.allFinished(); ++i)
      launches.turn();
    REQUIRE(launches.allFinished());
    CHECK(launches.blocks == Blocks{{Kind::Persistent, 24}});
    for (std::size_t n = 1; n < 4; ++n)
      CHECK(launches.run(n) == Blocks{{Kind::Persistent, 24}});
    CHECK(launches.statistics().saveAreasRefused == 1);
    CHECK((launches.outcome() == runInOrder(launches.program)));
  }
}

TEST_CASE("in the lane: no stream of kernels begins with clearing a save area") {
  for (std::uint32_t registersPerSm : {65536u, 0u}) { // in advance, and for the first launch
    CAPTURE(registersPerSm);
    Launches launches(2, {Kind::Checkpoint, Kind::Persistent}, 32, {24, 1, 1}, nullptr, {},
                      registersPerSm);
    launches.eachBlock = 200us;
    CHECK(launches.runAll() == Blocks{{Kind::Checkpoint, 24}});
    CHECK(launches.device.mostFilledFirst < std::size_t{1} << 20);
    CHECK(launches.device.waits() != 0); // the fake device makes no progress by itself
  }
}

TEST_CASE("in the lane: a save area that cannot be cleared is none") {
  Launches launches(4, everyKind, 32, {24, 1, 1}, nullptr, {}, 0);
  launches.eachBlock = 200us;
  CHECK(launches.run(0) == Blocks{{Kind::Persistent, 24}});
  launches.device.refusesFills = true;
  CHECK(launches.run(1) == Blocks{{Kind::Persistent, 24}});
  CHECK(launches.statistics().saveAreasRefused == 1);
}

TEST_CASE("in the lane: no memory is asked for while requests may wait") {
  Launches launches(4);
  launches.eachBlock = 200us;
  launches.device.mostBytes = 0;
  CHECK(launches.run(0) == Blocks{{Kind::Persistent, 24}});
  CHECK(launches.run(1) == Blocks{{Kind::Checkpoint, 24}});
  CHECK(launches.statistics().saveAreasRefused == 0);
}
