// Clusters: the positions of their blocks, their barrier, access to other blocks' shared memory,
// and mbarriers that other blocks and copies complete; and the faults of wrong uses.
#include "harness.h"

using namespace tally;
using namespace tally::emulator;
using U32 = std::uint32_t;

namespace {

std::string kernel(const std::string &body, const std::string &directives = "") {
  return header + ".visible .entry k(.param .u64 out)\n" + directives +
         "{\n.reg .pred %p<4>; .reg .b32 %r<16>; .reg .b64 %d<8>; .reg .b64 %out;\n"
         ".reg .b32 %lane, %rank, %block; .shared .align 16 .u32 s[64]; .shared .b64 bar;\n"
         "ld.param.u64 %out, [out]; mov.u32 %lane, %tid.x; mov.u32 %rank, %cluster_ctarank;\n"
         "mov.u32 %block, %ctaid.x; mov.u32 %r15, %ntid.x;\n"
         "mad.lo.u32 %r15, %block, %r15, %lane; mad.wide.u32 %out, %r15, 4, %out;\n" +
         body + "\nret;\n}\n";
}

LaunchShape inClusters(U32 blocks, U32 threads, Dim3 cluster) {
  LaunchShape shape = shapeOf(blocks, threads);
  shape.cluster = cluster;
  return shape;
}

std::vector<U32> run(const std::string &body, const LaunchShape &shape, std::uint64_t seed = 0) {
  Harness h(kernel(body));
  auto words = static_cast<std::size_t>(shape.grid.count() * shape.block.count());
  DevicePtr out = h.upload(std::vector<U32>(words, 99));
  auto fault = h.run("k", shape, {seed, 4}, out);
  REQUIRE_MESSAGE(!fault, fault->message);
  return h.download<U32>(out, words);
}

Fault faultOf(const std::string &body, const LaunchShape &shape,
              const std::string &directives = "") {
  Harness h(kernel(body, directives));
  h.machine.setStepLimit(100000);
  auto fault = h.run("k", shape, {}, h.upload(std::vector<U32>(4096)));
  REQUIRE(fault);
  return *fault;
}

bool says(const Fault &fault, std::string_view text) {
  return fault.message.find(text) != std::string::npos;
}

const std::uint64_t seeds[] = {0, 1, 2, 3, 4, 5};
const std::string meet = "barrier.cluster.arrive; barrier.cluster.wait;\n";
/// Sets %r1 to the address of s[lane] in the block of rank %r0.
const std::string remote = "mov.u32 %r1, s; mad.lo.u32 %r1, %lane, 4, %r1;\n"
                           "mapa.shared::cluster.u32 %r1, %r1, %r0;\n";
const std::string storeOwn = "mov.u32 %r2, s; mad.lo.u32 %r2, %lane, 4, %r2;\n"
                             "mad.lo.u32 %r3, %block, 100, %lane; st.shared.u32 [%r2], %r3;\n";

} // namespace

TEST_CASE("registers of a cluster in three dimensions") {
  const std::string body = R"(
    mov.u32 %r1, %ctaid.y; mov.u32 %r2, %nctaid.x; mov.u32 %r3, %ctaid.z; mov.u32 %r4, %nctaid.y;
    mad.lo.u32 %r1, %r3, %r4, %r1; mad.lo.u32 %r1, %r1, %r2, %block;
    ld.param.u64 %out, [out]; mad.wide.u32 %out, %r1, 4, %out;
    mov.u32 %r1, %clusterid.x; mov.u32 %r2, %clusterid.y; mov.u32 %r3, %clusterid.z;
    mov.u32 %r4, %nclusterid.x; mov.u32 %r5, %nclusterid.y;
    mad.lo.u32 %r6, %r3, %r5, %r2; mad.lo.u32 %r6, %r6, %r4, %r1; // the cluster's linear id
    mov.u32 %r7, %cluster_ctaid.x; mov.u32 %r8, %cluster_ctaid.y; mov.u32 %r9, %cluster_ctaid.z;
    mov.u32 %r10, %cluster_nctaid.x; mov.u32 %r11, %cluster_nctaid.y;
    mad.lo.u32 %r12, %r9, %r11, %r8; mad.lo.u32 %r12, %r12, %r10, %r7; // rank from the position
    mov.u32 %r13, %cluster_nctarank; mov.pred %p1, %is_explicit_cluster; selp.u32 %r14, 1, 0, %p1;
    mad.lo.u32 %r6, %r6, 100, %rank; mad.lo.u32 %r6, %r6, 100, %r12;
    mad.lo.u32 %r6, %r6, 100, %r13; mad.lo.u32 %r6, %r6, 10, %r14;
    st.global.u32 [%out], %r6;)";
  LaunchShape shape{{4, 6, 2}, {1, 1, 1}, 0, {2, 3, 1}};
  auto out = run(body, shape);
  for (U32 z = 0; z < 2; ++z)
    for (U32 y = 0; y < 6; ++y)
      for (U32 x = 0; x < 4; ++x) {
        U32 id = x / 2 + 2 * (y / 3 + 2 * z), rank = x % 2 + 2 * (y % 3);
        CHECK(out[x + 4 * (y + 6 * z)] == (((id * 100 + rank) * 100 + rank) * 100 + 6) * 10 + 1);
      }
  shape.cluster = {0, 0, 0};
  out = run(body, shape);
  CHECK(out[5] == (5 * 100 * 100 * 100 + 1) * 10);
}

TEST_CASE("blocks of a cluster read each other's shared memory") {
  const std::string body = storeOwn + meet + "xor.b32 %r0, %rank, 1;\n" + remote +
                           "ld.shared::cluster.u32 %r4, [%r1]; st.global.u32 [%out], %r4;\n" + meet;
  for (std::uint64_t seed : seeds) {
    auto out = run(body, inClusters(6, 40, {2, 1, 1}), seed);
    for (U32 block = 0; block < 6; ++block)
      for (U32 lane = 0; lane < 40; ++lane)
        CHECK(out[block * 40 + lane] == (block ^ 1) * 100 + lane);
  }
}

TEST_CASE("generic addresses reach the cluster, and atomics do") {
  const std::string body = "mov.u32 %r2, s; mad.lo.u32 %r2, %lane, 4, %r2;\n"
                           "st.shared.u32 [%r2], %lane;\n" +
                           meet + R"(
    mov.u32 %r0, 0; cvt.u64.u32 %d1, %r2; cvta.shared.u64 %d1, %d1; mapa.u64 %d2, %d1, %r0;
    getctarank.u64 %r3, %d2; add.u32 %r4, %block, %r3; atom.add.u32 %r5, [%d2], %r4;
    isspacep.shared::cta %p1, %d2; isspacep.shared::cluster %p2, %d2;
    selp.u32 %r6, 1, 0, %p1; selp.u32 %r7, 2, 0, %p2; add.u32 %r6, %r6, %r7;)" +
                           meet +
                           "ld.shared.u32 %r8, [%r2]; mad.lo.u32 %r8, %r8, 10, %r6;\n"
                           "st.global.u32 [%out], %r8;";
  for (std::uint64_t seed : seeds) {
    auto out = run(body, inClusters(4, 32, {4, 1, 1}), seed);
    CHECK(out[7] == (7 + 0 + 1 + 2 + 3) * 10 + 3); // its own: in both windows
    CHECK(out[32 + 7] == 7 * 10 + 2);
  }
}

TEST_CASE("the cluster's barrier: late waits, exited threads and blocks, phases") {
  // Block 2 exits at once, and so does lane 3 of block 0. The other threads go around three times,
  // and wait late.
  const std::string body = R"(
    setp.eq.u32 %p1, %rank, 2; @%p1 exit;
    setp.eq.u32 %p1, %rank, 0; setp.eq.and.u32 %p1, %lane, 3, %p1; @%p1 ret;
    mov.u32 %r5, 0; mov.u32 %r9, 0;
again:)" + storeOwn + R"(
    barrier.cluster.arrive.release;
    add.u32 %r5, %r5, 1;
    barrier.cluster.wait.acquire;
    setp.eq.u32 %p1, %rank, 0; selp.u32 %r0, 1, 0, %p1;)" +
                           remote + R"(
    ld.shared::cluster.u32 %r4, [%r1]; add.u32 %r9, %r9, %r4;
    barrier.cluster.arrive.relaxed; barrier.cluster.wait;
    setp.lt.u32 %p2, %r5, 3; @%p2 bra again;
    st.global.u32 [%out], %r9;)";
  for (std::uint64_t seed : seeds) {
    auto out = run(body, inClusters(3, 33, {3, 1, 1}), seed);
    CHECK(out[0] == 3 * 100);
    CHECK(out[3] == 99);
    CHECK(out[33 + 5] == 3 * 5);
    CHECK(out[66 + 5] == 99);
  }
}

TEST_CASE("misuse of a cluster is told with its place") {
  LaunchShape two = inClusters(2, 32, {2, 1, 1});
  // The two halves of one block wait at two barriers for each other, so the block never arrives.
  Fault fault = faultOf("setp.eq.u32 %p1, %rank, 1; @%p1 bra other;\n" + meet +
                            "ret;\nother: setp.lt.u32 %p2, %lane, 16; @%p2 bra rest;\n"
                            "barrier.sync 1; ret;\nrest: barrier.sync 2;",
                        two);
  CHECK(fault.kind == FaultKind::Deadlock);
  CHECK(fault.line > 0);
  CHECK(fault.block == Dim3{1, 0, 0});
  // Half of it comes.
  fault = faultOf("setp.eq.u32 %p1, %rank, 1; setp.lt.and.u32 %p1, %lane, 16, %p1;\n"
                  "@%p1 bra rest;\n" +
                      meet + "ret;\nrest: barrier.sync 2;",
                  two);
  CHECK(fault.kind == FaultKind::Deadlock);
  CHECK(says(fault, "waiting at the barrier of the cluster"));
  fault = faultOf("barrier.cluster.wait;", two);
  CHECK(fault.kind == FaultKind::BarrierMisuse);
  CHECK(says(fault, "without an arrive"));
  fault = faultOf("barrier.cluster.arrive; barrier.cluster.arrive;", two);
  CHECK(says(fault, "a second arrive"));
  fault =
      faultOf("setp.lt.u32 %p1, %lane, 5; @%p1 bra skip; barrier.cluster.arrive.aligned; "
              "barrier.cluster.wait.aligned; bra end;\nskip: bar.warp.sync 0x1f; bar.sync 3;\nend:",
              two);
  CHECK(fault.kind == FaultKind::BarrierMisuse);
  fault = faultOf("mov.u32 %r0, 2;\n" + remote, two);
  CHECK(says(fault, "rank 2 in a cluster of 2 blocks"));
  fault = faultOf("mov.u32 %r0, 1;\n" + remote + "ld.shared::cluster.u32 %r4, [%r1];", two);
  CHECK(says(fault, "rank 1 has not started"));
  fault = faultOf(meet +
                      "xor.b32 %r0, %rank, 1; setp.eq.u32 %p1, %rank, 1; @%p1 ret; "
                      "nanosleep.u32 1; mov.u32 %r9, 0;\nspin: add.u32 %r9, %r9, 1; "
                      "setp.lt.u32 %p1, %r9, 60000; @%p1 bra spin;\n" +
                      remote + "ld.shared::cluster.u32 %r4, [%r1];",
                  two);
  CHECK(says(fault, "rank 1 has exited"));
  fault = faultOf("mov.u32 %r0, 1;\n" + meet + remote + "ld.shared.u32 %r4, [%r1];" + meet, two);
  CHECK(fault.kind == FaultKind::OutOfBounds); // .shared is the block's own
}

TEST_CASE("launches that no cluster fits") {
  LaunchShape three = inClusters(3, 32, {2, 1, 1});
  CHECK(says(faultOf("", three), "no whole number of clusters"));
  CHECK(says(faultOf("", inClusters(32, 32, {32, 1, 1})), "clusters of 32 blocks where 16"));
  CHECK(says(faultOf("", inClusters(8, 32, {4, 1, 1}), ".maxclusterrank 2\n"),
             "clusters of 4 blocks where 2"));
  CHECK(says(faultOf("", inClusters(4, 32, {4, 1, 1}), ".reqnctapercluster 2\n"),
             ".reqnctapercluster"));
  CHECK(says(faultOf("", shapeOf(4, 32), ".explicitcluster\n"), "names no cluster"));
  CHECK(says(faultOf("", inClusters(4, 32, {2, 0, 1})), "is 0"));
}

TEST_CASE("an mbarrier waits for arrivals and bytes") {
  // A phase of two arrivals and 24 bytes, where the bytes may come first; then a phase with one
  // arrival fewer.
  const std::string body = R"(
    setp.ne.u32 %p1, %lane, 0; @%p1 ret;
    mov.u32 %r9, 0;
    mbarrier.init.shared.b64 [bar], 3;
    mbarrier.complete_tx.relaxed.cta.shared.b64 [bar], 8;
    mbarrier.arrive.expect_tx.shared.b64 %d1, [bar], 24;
    mbarrier.pending_count.b64 %r1, %d1; add.u32 %r9, %r9, %r1;           // 3
    mbarrier.arrive_drop.shared.b64 _, [bar];
    mbarrier.arrive.noComplete.shared.b64 %d2, [bar], 1;)";
  CHECK(says(faultOf(body, shapeOf(1, 32)), ".noComplete"));
  const std::string rest = R"(
    setp.ne.u32 %p1, %lane, 0; @%p1 ret;
    mov.u32 %r9, 0;
    mbarrier.init.shared.b64 [bar], 3;
    mbarrier.complete_tx.relaxed.cta.shared.b64 [bar], 8;
    mbarrier.arrive.expect_tx.shared.b64 %d1, [bar], 24;
    mbarrier.pending_count.b64 %r1, %d1; add.u32 %r9, %r9, %r1;           // 3
    mbarrier.arrive_drop.shared.b64 _, [bar];
    mbarrier.arrive.shared.b64 _, [bar];
    mbarrier.test_wait.shared.b64 %p2, [bar], %d1; @%p2 add.u32 %r9, %r9, 1000; // bytes are missing
    mbarrier.complete_tx.relaxed.cta.shared.b64 [bar], 16;
    mbarrier.test_wait.shared.b64 %p2, [bar], %d1; @%p2 add.u32 %r9, %r9, 10;
    mbarrier.test_wait.parity.shared.b64 %p2, [bar], 0; @%p2 add.u32 %r9, %r9, 20;
    mbarrier.expect_tx.relaxed.cta.shared.b64 [bar], 4;
    mbarrier.arrive.shared.b64 _, [bar], 2;                                // all there are now
    mbarrier.try_wait.parity.shared.b64 %p2, [bar], 1; @%p2 add.u32 %r9, %r9, 1000;
    mbarrier.complete_tx.relaxed.cta.shared.b64 [bar], 4;
    mbarrier.try_wait.parity.shared.b64 %p2, [bar], 1, 100; @%p2 add.u32 %r9, %r9, 100;
    mbarrier.inval.shared.b64 [bar];
    st.global.u32 [%out], %r9;)";
  CHECK(run(rest, shapeOf(1, 32))[0] == 133);
  CHECK(says(faultOf("mbarrier.arrive.shared.b64 _, [bar];", shapeOf(1, 1)), "not initialised"));
  CHECK(says(faultOf("mbarrier.init.shared.b64 [bar], 1; mbarrier.inval.shared.b64 [bar]; "
                     "mbarrier.expect_tx.relaxed.cta.shared.b64 [bar], 4;",
                     shapeOf(1, 1)),
             "is invalid"));
  CHECK(says(faultOf("mbarrier.init.shared.b64 [bar], 1; mov.u32 %r1, 0x100000; "
                     "mbarrier.complete_tx.relaxed.cta.shared.b64 [bar], %r1;",
                     shapeOf(1, 1)),
             "leaves its range"));
}

TEST_CASE("bulk copies go where they say and complete their mbarriers") {
  const std::string setUp = R"(
    mov.u32 %r4, s; mad.lo.u32 %r5, %lane, 4, %r4; mad.lo.u32 %r6, %block, 100, %lane;
    ld.param.u64 %d3, [out]; mad.wide.u32 %d3, %block, 64, %d3; // 16 words a block
    setp.lt.u32 %p3, %lane, 16;
    setp.eq.u32 %p1, %lane, 0;
    @%p1 mbarrier.init.shared.b64 [bar], 1;
    @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 64;
    mov.u32 %r8, bar;)";
  const std::string waitFull = "wait: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0;\n"
                               "@!%p2 bra wait;\n";
  // One bulk copy moves each block's words to shared memory, and another copies the doubled words
  // back.
  const std::string there = setUp + R"(
    st.global.u32 [%out], %r6; bar.sync 0;
    @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r4], [%d3], 64, [%r8];
)" + waitFull + R"(
    ld.shared.u32 %r7, [%r5]; add.u32 %r7, %r7, %r7; st.shared.u32 [%r5], %r7; bar.sync 0;
    @%p1 cp.async.bulk.global.shared::cta.bulk_group [%d3], [%r4], 64;
    cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;)";
  auto out = run(there, shapeOf(3, 16));
  CHECK(out[2 * 16 + 5] == 2 * 205);
  // A copy moves the first block's words to all four blocks of the cluster.
  const std::string toAll = setUp + "st.global.u32 [%out], %r6;\n" + meet + R"(
    setp.eq.and.u32 %p1, %rank, 0, %p1; .reg .b16 %all; mov.u16 %all, 15;
    @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r4], [%d3], 64, [%r8], %all;
)" + waitFull + "ld.shared.u32 %r7, [%r5]; add.u32 %r7, %r7, 1; bar.sync 0;\n" +
                            meet + "st.global.u32 [%out], %r7;";
  for (std::uint64_t seed : seeds) {
    out = run(toAll, inClusters(4, 16, {4, 1, 1}), seed);
    CHECK(out[3 * 16 + 5] == 6);
  }
  // A copy moves one block's shared memory to the next block's.
  const std::string across = setUp + "st.shared.u32 [%r5+64], %r6;\n" + meet + R"(
    xor.b32 %r0, %rank, 1; mapa.shared::cluster.u32 %r10, %r4, %r0; mapa.shared::cluster.u32 %r11, %r8, %r0;
    @%p1 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r10], [%r4+64], 64, [%r11];
)" + waitFull + "ld.shared.u32 %r7, [%r5]; st.global.u32 [%out], %r7;\n" +
                             meet;
  out = run(across, inClusters(2, 16, {2, 1, 1}));
  CHECK(out[5] == 105);
  CHECK(out[16 + 5] == 5);
  CHECK(faultOf("cp.async.bulk.global.shared::cta.bulk_group [%out], [%lane], 8;", shapeOf(1, 1))
            .kind == FaultKind::Misaligned);
  CHECK(says(
      faultOf("cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
              "[%r1], [%d1, {%r2}], [%r3];",
              shapeOf(1, 1)),
      "tensor map"));
}

TEST_CASE("asynchronous stores and sums complete another block's mbarrier") {
  const std::string body = R"(
    setp.eq.u32 %p1, %lane, 0; mov.u32 %r4, s; mov.u32 %r8, bar;
    @%p1 st.shared.u32 [s+252], 0;
    @%p1 mbarrier.init.shared.b64 [bar], 1;
    @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 192; // 16 times 8 and 4
)" + meet + R"(
    xor.b32 %r0, %rank, 1; mad.lo.u32 %r5, %lane, 8, %r4;
    mapa.shared::cluster.u32 %r10, %r5, %r0; mapa.shared::cluster.u32 %r11, %r8, %r0;
    mapa.shared::cluster.u32 %r12, %r4, %r0;
    st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.u32 [%r10], {%block, %lane}, [%r11];
    red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r12+252], %lane, [%r11];
wait: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0; @!%p2 bra wait;
    ld.shared.v2.u32 {%r6, %r7}, [%r5]; ld.shared.u32 %r9, [s+252];
    mad.lo.u32 %r7, %r6, 100, %r7; mad.lo.u32 %r7, %r9, 1000, %r7; st.global.u32 [%out], %r7;
)" + meet;
  for (std::uint64_t seed : seeds) {
    auto out = run(body, inClusters(2, 16, {2, 1, 1}), seed);
    CHECK(out[5] == 120 * 1000 + 105);
    CHECK(out[16 + 5] == 120 * 1000 + 5);
  }
}

TEST_CASE("non-bulk copies arrive at an mbarrier") {
  const std::string body = R"(
    setp.eq.u32 %p1, %lane, 0; mov.u32 %r4, s; mad.lo.u32 %r5, %lane, 4, %r4;
    @%p1 mbarrier.init.shared.b64 [bar], 8;
    st.global.u32 [%out], %lane; bar.sync 0;
    cp.async.ca.shared.global [%r5], [%out], 4;
    cp.async.mbarrier.arrive.shared.b64 [bar];
    mbarrier.test_wait.parity.shared.b64 %p2, [bar], 0; selp.u32 %r7, 1000, 0, %p2;
    bar.sync 0;
    cp.async.mbarrier.arrive.noinc.shared.b64 [bar];
wait: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0; @!%p2 bra wait;
    ld.shared.u32 %r6, [%r5]; add.u32 %r6, %r6, %r7; add.u32 %r6, %r6, 1; st.global.u32 [%out], %r6;)";
  auto out = run(body, shapeOf(1, 8));
  CHECK(out[5] == 6);
}
