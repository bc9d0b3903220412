// Barriers of the block and operations of the warp: their results, and the faults of wrong uses.
#include "harness.h"

using namespace tally;
using namespace tally::emulator;
using U32 = std::uint32_t;

namespace {

std::string kernel(const std::string &body) {
  return header +
         ".visible .entry k(.param .u64 out)\n{\n.reg .pred %p<4>; .reg .b32 %r<12>; "
         ".reg .b64 %d<8>; .reg .b64 %out;\n.reg .b32 %lane; .shared .u32 s[256];\n"
         "ld.param.u64 %out, [out]; mov.u32 %lane, %tid.x;\n"
         "mad.wide.u32 %out, %lane, 4, %out;\n" +
         body + "\nret;\n}\n";
}

std::vector<U32> run(const std::string &body, U32 threads, std::uint64_t seed = 0) {
  Harness h(kernel(body));
  DevicePtr out = h.upload(std::vector<U32>(threads, 99));
  auto fault = h.run("k", shapeOf(1, threads), {seed, 1}, out);
  REQUIRE_MESSAGE(!fault, fault->message);
  return h.download<U32>(out, threads);
}

Fault faultOf(const std::string &body, U32 threads, std::uint64_t seed = 0) {
  Harness h(kernel(body));
  auto fault = h.run("k", shapeOf(1, threads), {seed, 1}, h.upload(std::vector<U32>(threads)));
  REQUIRE(fault);
  return *fault;
}

const std::uint64_t seeds[] = {0, 1, 2, 3};

} // namespace

TEST_CASE("a barrier waits for every thread of the block that has not left") {
  // Warp 2 exits early, and so does one lane of warp 1; the other threads exchange values through
  // shared memory.
  const std::string body = R"(
    setp.ge.u32 %p1, %lane, 64; @%p1 ret;
    setp.eq.u32 %p1, %lane, 40; @%p1 exit;
    mov.u32 %r1, s; mad.lo.u32 %r2, %lane, 4, %r1;
    add.u32 %r3, %lane, 1000; st.shared.u32 [%r2], %r3;
    bar.sync 0;
    xor.b32 %r4, %lane, 32; mad.lo.u32 %r2, %r4, 4, %r1; ld.shared.u32 %r5, [%r2];
    setp.eq.u32 %p1, %lane, 8; @!%p1 st.global.u32 [%out], %r5;)";
  for (std::uint64_t seed : seeds) {
    auto out = run(body, 96, seed);
    CHECK(out[0] == 1032);
    CHECK(out[33] == 1001);
    CHECK(out[8] == 99);
    CHECK(out[40] == 99);
    CHECK(out[70] == 99);
  }
}

TEST_CASE("named barriers with counts, at run-time ids; producers arrive, consumers wait") {
  const std::string body = R"(
    shr.u32 %r1, %lane, 5;
    mov.u32 %r9, s; mov.u32 %r8, 3;
    setp.eq.u32 %p1, %r1, 0; @%p1 bra consumer;
    and.b32 %r2, %lane, 31; mad.lo.u32 %r3, %r1, 32, %r2; mad.lo.u32 %r3, %r3, 4, %r9;
    st.shared.u32 [%r3], %r1;
    mov.u32 %r4, 96; barrier.arrive.aligned %r8, %r4;
    bra.uni end;
    consumer:
    barrier.sync.aligned %r8, 96;
    mad.lo.u32 %r3, %lane, 4, %r9; ld.shared.u32 %r5, [%r3+128]; ld.shared.u32 %r6, [%r3+256];
    add.u32 %r5, %r5, %r6; st.global.u32 [%out], %r5;
    end:)";
  for (std::uint64_t seed : seeds)
    CHECK(run(body, 96, seed)[5] == 3);
}

TEST_CASE("barrier reductions count, and join by and and or") {
  const std::string body = R"(
    setp.lt.u32 %p1, %lane, 10;
    bar.red.popc.u32 %r1, 0, %p1;
    bar.red.and.pred %p2, 0, %p1;
    barrier.red.or.pred %p3, 1, !%p1;
    selp.u32 %r2, 1000, 0, %p2; selp.u32 %r3, 100, 0, %p3;
    add.u32 %r1, %r1, %r2; add.u32 %r1, %r1, %r3; st.global.u32 [%out], %r1;)";
  for (std::uint64_t seed : seeds) {
    CHECK(run(body, 70, seed) == std::vector<U32>(70, 110));
    CHECK(run(body, 10, seed) == std::vector<U32>(10, 1010));
  }
}

TEST_CASE("barrier.sync without .aligned may be reached on divergent paths") {
  const std::string body = R"(
    and.b32 %r1, %lane, 1; setp.eq.u32 %p1, %r1, 0;
    mov.u32 %r2, s; mad.lo.u32 %r2, %lane, 4, %r2;
    @%p1 bra even;
    st.shared.u32 [%r2], 1; barrier.sync 0; bra.uni join;
    even: st.shared.u32 [%r2], 2; barrier.sync 0;
    join: mov.u32 %r3, s; xor.b32 %r4, %lane, 1; mad.lo.u32 %r3, %r4, 4, %r3;
    ld.shared.u32 %r5, [%r3]; st.global.u32 [%out], %r5;)";
  for (std::uint64_t seed : seeds) {
    auto out = run(body, 64, seed);
    CHECK(out[0] == 1);
    CHECK(out[63] == 2);
  }
}

TEST_CASE("an aligned barrier met by part of a warp is misuse that names both places") {
  const std::string body = R"(
    and.b32 %r1, %lane, 1; setp.eq.u32 %p1, %r1, 0;
    @%p1 bra even;
    bar.sync 0; bra.uni join;
    even: bar.sync 0;
    join:)";
  for (std::uint64_t seed : seeds) {
    Fault fault = faultOf(body, 32, seed);
    CHECK(fault.kind == FaultKind::BarrierMisuse);
    CHECK((fault.line == 13 || fault.line == 14));
    CHECK(fault.message.find("others of the block are at an aligned barrier") != std::string::npos);
  }
  // One lane waits elsewhere.
  CHECK(faultOf("setp.eq.u32 %p1, %lane, 0; @%p1 bar.sync 0; bar.sync 1;", 32).kind ==
        FaultKind::BarrierMisuse);
}

TEST_CASE("lanes of a warp arrive at a reduction by different instructions") {
  const std::string body = R"(
    mov.pred %p2, 1; mov.pred %p3, 0;
    and.b32 %r1, %lane, 3; setp.eq.u32 %p1, %r1, 0; @%p1 bra fourth;
    barrier.red.popc.u32 %r5, 4, %p2; bra.uni join;
    fourth: barrier.red.popc.u32 %r5, 4, %p3;
    join: setp.eq.u32 %p1, %lane, 50; @%p1 ret; @!%p1 barrier.red.or.pred %p1, 4, %p3;
    selp.u32 %r6, 100, 0, %p1; add.u32 %r5, %r5, %r6; st.global.u32 [%out], %r5;)";
  for (std::uint64_t seed : seeds) {
    auto out = run(body, 64, seed);
    CHECK(out[0] == 48);
    CHECK(out[63] == 48);
    CHECK(out[50] == 99);
  }
}

TEST_CASE("a barrier that some reduce at, in one way, and others in another or not, is misuse") {
  for (const char *other : {"barrier.sync 0;", "barrier.red.and.pred %p2, 0, %p1;",
                            "barrier.red.popc.u32 %r5, 0, %p1;"})
    for (std::uint64_t seed : seeds) {
      Fault fault = faultOf(std::string("setp.lt.u32 %p1, %lane, 32; @%p1 bra first;\n") + other +
                                "\nbra.uni end;\nfirst: barrier.red.or.pred %p2, 0, %p1;\nend:",
                            64, seed);
      CHECK(fault.kind == FaultKind::BarrierMisuse);
      CHECK(fault.message.find("reduces in another way") != std::string::npos);
    }
}

TEST_CASE("warps at different barriers are a deadlock") {
  const std::string body = R"(
    setp.lt.u32 %p1, %lane, 32; @%p1 bra first;
    bar.sync 2; bra.uni end;
    first: bar.sync 1;
    end:)";
  for (std::uint64_t seed : seeds) {
    Fault fault = faultOf(body, 64, seed);
    CHECK(fault.kind == FaultKind::Deadlock);
    CHECK(fault.message.find("deadlock: waiting at a barrier") == 0);
    CHECK(fault.message.find("others of the block are waiting at a barrier (line") !=
          std::string::npos);
  }
}

TEST_CASE("wrong ids and counts are misuse") {
  CHECK(faultOf("mov.u32 %r1, 16; barrier.sync %r1;", 32).kind == FaultKind::BarrierMisuse);
  CHECK(faultOf("mov.u32 %r1, 33; bar.sync 0, %r1;", 64).kind == FaultKind::BarrierMisuse);
  CHECK(faultOf("bar.sync 0, 128;", 64).kind == FaultKind::BarrierMisuse);
  Fault fault = faultOf(R"(setp.lt.u32 %p1, %lane, 32; @%p1 bra first;
    bar.sync 1, 64; bra.uni end;
    first: bar.sync 1, 96;
    end:)",
                        96);
  CHECK(fault.kind == FaultKind::BarrierMisuse);
  CHECK(fault.message.find("barrier 1 expects") != std::string::npos);
  // No other thread arrives at the barrier.
  CHECK(faultOf("bar.sync 0, 64;", 32).kind == FaultKind::BarrierMisuse);
  CHECK(faultOf("setp.lt.u32 %p1, %lane, 32; @%p1 ret; bar.sync 0, 64;", 64).kind ==
        FaultKind::Deadlock);
}

TEST_CASE("shuffles by index, up, down and butterfly, in segments") {
  auto shuffled = [](const std::string &form) {
    return run("shfl.sync." + form +
                   ", 0xffffffff; selp.u32 %r2, 100, 0, %p1;"
                   " add.u32 %r1, %r1, %r2; st.global.u32 [%out], %r1;",
               32);
  };
  auto up = shuffled("up.b32 %r1|%p1, %lane, 3, 0");
  CHECK(up[2] == 2);
  CHECK(up[3] == 100);
  CHECK(up[31] == 128);
  auto down = shuffled("down.b32 %r1|%p1, %lane, 2, 31");
  CHECK(down[0] == 102);
  CHECK(down[29] == 131);
  CHECK(down[30] == 30);
  auto butterfly = shuffled("bfly.b32 %r1|%p1, %lane, 5, 31");
  CHECK(butterfly[0] == 105);
  CHECK(butterfly[31] == 126);
  auto index = shuffled("idx.b32 %r1|%p1, %lane, 1, 0x181f"); // segments of 8
  CHECK(index[0] == 101);
  CHECK(index[15] == 109);
  auto segmented = shuffled("down.b32 %r1|%p1, %lane, 4, 0x181f");
  CHECK(segmented[3] == 107);
  CHECK(segmented[4] == 4);
}

TEST_CASE("votes, matches, reductions, elections and active masks") {
  auto value = [](const std::string &body, U32 lane) {
    return run(body + " st.global.u32 [%out], %r1;", 32)[lane];
  };
  const std::string odd = "and.b32 %r2, %lane, 1; setp.eq.u32 %p1, %r2, 1; ";
  CHECK(value(odd + "vote.sync.ballot.b32 %r1, %p1, -1;", 0) == 0xaaaaaaaau);
  CHECK(value(odd + "vote.sync.ballot.b32 %r1, !%p1, -1;", 0) == 0x55555555u);
  CHECK(value(odd + "vote.sync.any.pred %p2, %p1, -1; selp.u32 %r1, 1, 0, %p2;", 0) == 1);
  CHECK(value(odd + "vote.sync.all.pred %p2, %p1, -1; selp.u32 %r1, 1, 0, %p2;", 0) == 0);
  CHECK(value(odd + "vote.sync.uni.pred %p2, %p1, -1; selp.u32 %r1, 1, 0, %p2;", 0) == 0);
  CHECK(value("and.b32 %r2, %lane, 3; match.any.sync.b32 %r1, %r2, -1;", 1) == 0x22222222u);
  CHECK(value("match.all.sync.b32 %r1|%p1, 5, -1;", 1) == 0xffffffffu);
  CHECK(value("match.all.sync.b32 %r1|%p1, %lane, -1;", 1) == 0);
  CHECK(value("cvt.u64.u32 %d1, %lane; match.any.sync.b64 %r1, %d1, -1;", 4) == 16);
  CHECK(value("redux.sync.add.s32 %r1, %lane, -1;", 3) == 496);
  CHECK(value("redux.sync.max.u32 %r1, %lane, -1;", 3) == 31);
  CHECK(value("sub.u32 %r2, %lane, 7; redux.sync.min.s32 %r1, %r2, -1;", 3) == U32(-7));
  CHECK(value("redux.sync.xor.b32 %r1, %lane, -1;", 3) == 0);
  CHECK(value("elect.sync %r1|%p1, -1; selp.u32 %r2, 50, 0, %p1; add.u32 %r1, %r1, %r2;", 0) == 50);
  CHECK(value("elect.sync %r1|%p1, -1; selp.u32 %r2, 50, 0, %p1; add.u32 %r1, %r1, %r2;", 1) == 0);
  CHECK(value("mov.u32 %r1, 0; setp.lt.u32 %p1, %lane, 3; @%p1 activemask.b32 %r1;", 2) == 7);
}

TEST_CASE("a warp operation waits for the lanes that its mask names, on whatever path they come") {
  // Odd and even lanes execute one shuffle at two instructions; lanes 8 and up take no part.
  const std::string body = R"(
    setp.ge.u32 %p1, %lane, 8; @%p1 bra end;
    and.b32 %r1, %lane, 1; setp.eq.u32 %p1, %r1, 0; mov.u32 %r2, 0;
    @%p1 bra even;
    spin: add.u32 %r2, %r2, 1; setp.lt.u32 %p2, %r2, 20; @%p2 bra spin;
    shfl.sync.bfly.b32 %r3, %lane, 1, 31, 0xff; bra.uni store;
    even: shfl.sync.bfly.b32 %r3, %lane, 1, 31, 0xff;
    store: st.global.u32 [%out], %r3;
    end:)";
  for (std::uint64_t seed : seeds) {
    auto out = run(body, 32, seed);
    for (U32 i = 0; i < 8; ++i)
      CHECK(out[i] == (i ^ 1));
    CHECK(out[8] == 99);
  }
}

TEST_CASE("exited lanes are not waited for; strangers to the mask are misuse") {
  CHECK(run("setp.lt.u32 %p1, %lane, 30; @%p1 ret; vote.sync.ballot.b32 %r1, 1, -1;"
            " st.global.u32 [%out], %r1;",
            32)[31] == 0xc0000000u);
  CHECK(faultOf("shfl.sync.idx.b32 %r1, %lane, 0, 31, 0xff;", 32).kind == FaultKind::BarrierMisuse);
  Fault fault = faultOf("setp.lt.u32 %p1, %lane, 5; @%p1 bar.sync 1; bar.warp.sync -1;", 32);
  CHECK((fault.kind == FaultKind::Deadlock || fault.kind == FaultKind::BarrierMisuse));
  fault = faultOf("setp.lt.u32 %p1, %lane, 5; @%p1 bra a; bar.warp.sync -1; ret;"
                  " a: vote.sync.any.pred %p2, 1, -1;",
                  32);
  CHECK(fault.kind == FaultKind::Deadlock);
}
