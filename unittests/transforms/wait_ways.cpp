#include "wait_ways.h"

namespace tally::ptx {

const std::vector<Reading> &foreignReadings() {
  static const std::vector<Reading> all = {
      {"ld", "ld.volatile.global.u32 %r1,[%rd1];"},
      {"ld", "ld.volatile.u32 %r1,[%rd1];"},
      {"ld", "ld.volatile.global.v2.u32 {%r1,%r2},[%rd1];"},
      {"ld", "ld.relaxed.gpu.global.u32 %r1,[%rd1];"},
      {"ld", "ld.relaxed.sys.u32 %r1,[%rd1];"},
      {"ld", "ld.relaxed.cluster.global.u32 %r1,[%rd1];"},
      {"ld", "ld.acquire.gpu.global.u32 %r1,[%rd1];"},
      {"ld", "ld.acquire.sys.u32 %r1,[%rd1];"},
      {"ld", "ld.mmio.relaxed.sys.global.u32 %r1,[%rd1];"},
      {"ld", "ld.global.cv.u32 %r1,[%rd1];"},
      {"ld", "ld.global.cg.u32 %r1,[%rd1];"},
      {"ld", "ld.global.u32 %r1,[%rd1];", true},
      {"ld", "ld.u32 %r1,[%rd1];", true},
      {"ld", "ld.weak.global.u32 %r1,[%rd1];", true},
      {"ld", "ld.global.L1::no_allocate.u32 %r1,[%rd1];", true},
      {"ld", "ld.global.nc.u32 %r1,[%rd1];", true},
      {"ld", "ld.global.v4.u32 {%r2,%r3,%r4,%r1},[%rd1];", true},
      {"ldu", "ldu.global.u32 %r1,[%rd1];", true},
      {"atom", "atom.global.add.u32 %r1,[%rd1],0;"},
      {"atom", "atom.or.b32 %r1,[%rd1],0;"},
      {"atom", "atom.global.exch.b32 %r1,[%rd1],1;"},
      {"atom", "atom.global.cas.b32 %r1,[%rd1],0,1;"},
      {"atom", "atom.relaxed.sys.global.max.u32 %r1,[%rd1],0;"},
      {"atom", "atom.acquire.gpu.global.inc.u32 %r1,[%rd1],7;"},
      {"multimem", "multimem.ld_reduce.relaxed.gpu.global.add.u32 %r1,[%rd1];"},
      {"multimem", "multimem.ld_reduce.acquire.sys.global.or.b32 %r1,[%rd1];"},
      {"multimem", "multimem.ld_reduce.weak.global.min.u32 %r1,[%rd1];"},
      {"suld", "suld.b.1d.b32.trap %r1,[%rd2,{%r0}];"},
      {"suld", "suld.b.2d.v2.b32.cv.clamp {%r1,%r2},[%rd2,{%r0,%r0}];"},
      {"tex", "tex.1d.v4.u32.s32 {%r1,%r2,%r3,%r4},[%rd2,{%r0}];", true},
      {"tex", "tex.level.2d.v4.u32.f32 {%r1,%r2,%r3,%r4},[%rd2,{%f0,%f0}],%f0;", true},
      {"tld4", "tld4.r.2d.v4.u32.f32 {%r1,%r2,%r3,%r4},[%rd2,{%f0,%f0}];", true},
      {"wmma",
       "wmma.load.c.sync.aligned.row.m16n16k16.global.f32 {%f0,%f1,%f2,%f3,%f4,%f5,%f6,%f7},[%rd1];"
       "mov.b32 %r1,%f3;",
       true},
      {"wmma",
       "wmma.load.a.sync.aligned.row.m16n16k16.f16 {%r1,%r2,%r3,%r4,%r5,%r6,%r7,%r8},[%rd1];",
       true},
      {"cp", "cp.async.ca.shared.global [%r9],[%rd1],4; cp.async.wait_all;"
             "ld.shared.u32 %r1,[%r9];"},
      {"cp", "cp.async.cg.shared::cta.global.L2::128B [%r9],[%rd1],16; cp.async.commit_group;"
             "cp.async.wait_group 0; bar.sync 0; ld.shared.u32 %r1,[s+4];"},
      {"cp", "cp.async.ca.shared.global [%r9],[%rd1],4;"
             "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r10];"
             "CW: mbarrier.test_wait.parity.shared::cta.b64 %p6,[%r10],0; @!%p6 bra CW;"
             "ld.u32 %r1,[%rd9];"},
      {"cp", "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
             " [%r9],[%rd1],16,[%r10];"
             "CW: mbarrier.try_wait.parity.shared::cta.b64 %p6,[%r10],0; @!%p6 bra CW;"
             "ld.shared::cta.u32 %r1,[%r9];"},
      {"cp", "cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
             " [%r9],[%rd3,{%r0}],[%r10];"
             "CW: mbarrier.try_wait.parity.shared::cta.b64 %p6,[%r10],0; @!%p6 bra CW;"
             "ld.volatile.shared.u32 %r1,[%r9];"},
      {"cp", "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes"
             " [%r9],[%rd1],16,[%r10]; ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1},[%r9];"},
      // Opcodes that the table of opcodes lacks.
      {"newld", "newld.global.u32 %r1,[%rd1];"},
      {"call", "call (%r1), reads_strongly, (%rd1);"},
      {"call", "call (%r1), reads_plainly, (%rd1);", true},
      {"call", "{ .param .b64 a; .param .b32 x; st.param.b64 [a],%rd1;"
               "call (x), reads_in_parameters, (a); ld.param.b32 %r1,[x]; }"},
      {"call", "mov.u64 %rd4,reads_strongly; call (%r1), %rd4, (%rd1), prototype;"},
      // The result of malloc tells whether other blocks have freed memory.
      {"call", "{ .param .b64 a; .param .b64 x; st.param.b64 [a],64; call (x), malloc, (a);"
               "ld.param.b64 %rd4,[x]; } cvt.u32.u64 %r1,%rd4;"},
  };
  return all;
}

const std::vector<Reading> &ownReadings() {
  static const std::vector<Reading> all = {
      {"ld", "ld.volatile.shared.u32 %r1,[%r9];"},
      {"ld", "ld.acquire.gpu.shared.u32 %r1,[%r9];"},
      {"ld", "ld.shared::cluster.u32 %r1,[%r9];"},
      {"ld", "ld.const.u32 %r1,[c];"},
      {"ld", "ld.local.u32 %r1,[l];"},
      {"ld", "ld.param.u32 %r1,[n];"},
      {"ld", "ld.relaxed.cta.global.u32 %r1,[%rd1];"},
      {"ld", "ld.global.nc.u32 %r1,[%rd1];"},
      {"ldu", "ldu.global.u32 %r1,[%rd1];"},
      {"tex", "tex.1d.v4.u32.s32 {%r1,%r2,%r3,%r4},[%rd2,{%r0}];"},
      {"atom", "atom.shared.or.b32 %r1,[%r9],0;"},
      {"atom", "atom.relaxed.cta.global.or.b32 %r1,[%rd1],0;"},
      {"wmma", "wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 "
               "{%r1,%r2,%r3,%r4,%r5,%r6,%r7,%r8},[%r9];"},
      {"ldmatrix", "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1},[%r9];"},
      {"mbarrier", "mbarrier.try_wait.parity.shared::cta.b64 %p6,[%r10],0; selp.u32 %r1,1,0,%p6;"},
      {"cp", "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
             " [%r9],[%r11],16,[%r10]; ld.shared.u32 %r1,[%r9];"},
      {"cp",
       "cp.async.bulk.global.shared::cta.bulk_group [%rd1],[%r9],16;"
       "cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0; ld.shared.u32 %r1,[%r9];"},
      {"cp", "cp.async.bulk.prefetch.L2.global [%rd1],16; ld.shared.u32 %r1,[%r9];"},
      {"mov", "mov.u32 %r1,%clock;"},
      {"activemask", "activemask.b32 %r1;"},
      {"call", "call (%r1), adds, (%r1);"},
  };
  return all;
}

const std::vector<Carrying> &carryings() {
  static const std::vector<Carrying> all = {
      {"compare", "setp.eq.u32 %p1,%r1,0;"},
      {"the second predicate of a comparison", "setp.ne.u32 %p2|%p1,%r1,0;"},
      {"a predicate combined", "setp.eq.u32 %p2,%r1,0; setp.eq.and.u32 %p1,%r0,0,%p2;"},
      {"a guard", "setp.eq.u32 %p2,%r1,0; mov.u32 %r2,1; @%p2 mov.u32 %r2,0;"
                  "setp.eq.u32 %p1,%r2,0;"},
      {"a selection", "setp.eq.u32 %p2,%r1,0; selp.u32 %r2,1,0,%p2; setp.eq.u32 %p1,%r2,1;"},
      {"a selection by sign",
       "sub.u32 %r3,%r1,1; slct.u32.s32 %r2,6,5,%r3; setp.eq.u32 %p1,%r2,5;"},
      {"a set", "set.eq.u32.u32 %r2,%r1,0; setp.ne.u32 %p1,%r2,0;"},
      {"the carry of add",
       "add.cc.u32 %r2,%r1,0xffffffff; addc.u32 %r3,0,0; setp.eq.u32 %p1,%r3,0;"},
      {"the borrow of sub", "sub.cc.u32 %r2,0,%r1; subc.u32 %r3,0,0; setp.eq.u32 %p1,%r3,0;"},
      {"the carry of mad",
       "mad.lo.cc.u32 %r2,%r1,1,0xffffffff; madc.hi.u32 %r3,0,0,0; setp.eq.u32 %p1,%r3,0;"},
      {"a chain of carries", "add.cc.u32 %r2,%r1,0xffffffff; addc.cc.u32 %r3,0,0xffffffff;"
                             "addc.u32 %r4,0,0; setp.eq.u32 %p1,%r4,0;"},
      {"the carry under a guard", "setp.eq.u32 %p2,%r1,0; add.cc.u32 %r2,0xffffffff,1;"
                                  "@%p2 add.cc.u32 %r2,0,0; addc.u32 %r3,0,0;"
                                  "setp.eq.u32 %p1,%r3,0;"},
      {"arithmetic", "shl.b32 %r2,%r1,1; mad.lo.u32 %r2,%r2,3,1; xor.b32 %r2,%r2,1;"
                     "setp.eq.u32 %p1,%r2,0;"},
      {"bits", "prmt.b32 %r2,%r1,0,0x3210; bfe.u32 %r2,%r2,0,8; popc.b32 %r2,%r2;"
               "dp4a.u32.u32 %r2,%r2,%r2,%r0;  setp.eq.u32 %p1,%r2,0;"},
      {"a predicate of lop3", "lop3.or.b32 %r2|%p2,%r1,0,0,0xf0,0; not.pred %p1,%p2;"},
      {"floats", "cvt.rn.f32.u32 %f1,%r1; fma.rn.f32 %f1,%f1,%f1,%f1; testp.subnormal.f32 %p2,%f1;"
                 "setp.eq.or.f32 %p1,%f1,0f00000000,%p2;"},
      {"a pair", "mov.b64 %rd4,{%r1,%r0}; mov.b64 {%r2,%r3},%rd4; setp.eq.u32 %p1,%r2,0;"},
      {"a vector register", "mov.v2.u32 v,{%r1,%r0}; mov.u32 %r2,v.x; setp.eq.u32 %p1,%r2,0;"},
      {"the space of an address",
       "cvt.u64.u32 %rd4,%r1; isspacep.shared %p2,%rd4; not.pred %p1,%p2;"},
      {"an address", "mul.wide.u32 %rd4,%r1,4; mov.u64 %rd5,c; add.u64 %rd5,%rd5,%rd4;"
                     "ld.const.u32 %r2,[%rd5]; setp.eq.u32 %p1,%r2,0;"},
      {"shared memory", "st.shared.u32 [s],%r1; bar.sync 0; ld.shared.u32 %r2,[s];"
                        "setp.eq.u32 %p1,%r2,0;"},
      {"local memory", "st.local.u32 [l],%r1; ld.local.u32 %r2,[l]; setp.eq.u32 %p1,%r2,0;"},
      {"global memory", "st.global.u32 [%rd1+64],%r1; ld.global.u32 %r2,[%rd1+64];"
                        "setp.eq.u32 %p1,%r2,0;"},
      {"local memory by a generic address",
       "st.local.u32 [l],%r1; mov.u64 %rd4,l; cvta.local.u64 %rd4,%rd4; ld.u32 %r2,[%rd4];"
       "setp.eq.u32 %p1,%r2,0;"},
      {"the place of a store", "st.local.u32 [l],0; mul.wide.u32 %rd4,%r1,4; mov.u64 %rd5,l;"
                               "add.u64 %rd5,%rd5,%rd4; st.local.u32 [%rd5],1;"
                               "ld.local.u32 %r2,[l]; setp.eq.u32 %p1,%r2,1;"},
      {"an atomic of shared memory",
       "st.shared.u32 [s],0; atom.shared.max.u32 %r2,[s],%r1; ld.shared.u32 %r2,[s];"
       "setp.eq.u32 %p1,%r2,0;"},
      {"a reduction into shared memory",
       "st.shared.u32 [s],0; red.shared.or.b32 [s],%r1; ld.shared.u32 %r2,[s];"
       "setp.eq.u32 %p1,%r2,0;"},
      {"a copy", "st.global.u32 [%rd1+64],%r1; cp.async.ca.shared.global [%r9],[%rd1+64],4;"
                 "cp.async.wait_all; ld.shared.u32 %r2,[%r9]; setp.eq.u32 %p1,%r2,0;"},
      {"a surface", "sust.b.1d.b32.trap [%rd2,{%r0}],%r1; suld.b.1d.b32.trap %r2,[%rd2,{%r0}];"
                    "setp.eq.u32 %p1,%r2,0;"},
      {"a matrix in shared memory",
       "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r9],{%r1};"
       "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r2},[%r9]; setp.eq.u32 %p1,%r2,0;"},
      {"a product of matrices",
       "mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%r2,%r3},{%r1,%r0},{%r0},{%r0,%r0};"
       "movmatrix.sync.aligned.m8n8.trans.b16 %r4,%r3; setp.eq.u32 %p1,%r4,0;"},
      {"a matrix of wmma",
       "wmma.store.d.sync.aligned.row.m16n16k16.shared.f16 [%r9],{%r1,%r1,%r1,%r1};"
       "wmma.load.c.sync.aligned.row.m16n16k16.shared.f16 {%r2,%r3,%r4,%r5},[%r9];"
       "setp.eq.u32 %p1,%r2,0;"},
      {"tensor memory", "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r0],{%r1};"
                        "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r2},[%r0];"
                        "tcgen05.wait::ld.sync.aligned; setp.eq.u32 %p1,%r2,0;"},
      {"a copy to tensor memory",
       "st.shared.u32 [s],%r1; tcgen05.cp.cta_group::1.128x256b [%r0],%rd4;"
       "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r2},[%r0];"
       "setp.eq.u32 %p1,%r2,0;"},
      {"an asynchronous product",
       "st.shared.u32 [s],%r1; wgmma.fence.sync.aligned;"
       "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0,%f1,%f2,%f3},%rd4,%rd5,1,1,1,0,0;"
       "wgmma.wait_group.sync.aligned 0; setp.eq.f32 %p1,%f0,0f00000000;"},
      {"a vote", "setp.eq.u32 %p2,%r1,0; vote.sync.all.pred %p1,%p2,0xffffffff;"},
      {"a ballot", "setp.eq.u32 %p2,%r1,0; vote.sync.ballot.b32 %r2,%p2,0xffffffff;"
                   "setp.ne.u32 %p1,%r2,0;"},
      {"a shuffle", "shfl.sync.idx.b32 %r2|%p2,%r1,0,31,0xffffffff; setp.eq.u32 %p1,%r2,0;"},
      {"a match", "mul.lo.u32 %r2,%r1,%r0; match.all.sync.b32 %r3|%p1,%r2,0xffffffff;"},
      {"a reduction over the warp", "redux.sync.or.b32 %r2,%r1,0xffffffff; setp.eq.u32 %p1,%r2,0;"},
      {"shuffles at two places",
       "setp.ne.u32 %p2,%r0,0; @%p2 bra CA; shfl.sync.idx.b32 %r2,%r1,0,31,0xffffffff; bra CB;"
       "CA: shfl.sync.idx.b32 %r3,%r0,0,31,0xffffffff; CB: setp.eq.u32 %p1,%r3,0;"},
      {"which lanes came by a branch",
       "setp.eq.u32 %p2,%r1,0; mov.u32 %r2,0; @%p2 bra CA; mov.u32 %r2,1;"
       "CA: activemask.b32 %r3; setp.ne.u32 %p1,%r3,0xffffffff;"},
      {"who is elected", "setp.eq.u32 %p2,%r1,0; selp.u32 %r2,1,3,%p2; elect.sync %r3|%p1,%r2;"},
      {"a barrier that reduces", "setp.eq.u32 %p2,%r1,0; bar.red.and.pred %p1,0,%p2;"},
      {"barriers at two places",
       "setp.eq.u32 %p2,%r1,0; setp.ne.u32 %p3,%r0,0; @%p3 bra CA; bar.red.and.pred %p4,0,%p2;"
       "bra CB; CA: bar.red.and.pred %p1,0,%p3; CB: mov.u32 %r2,0;"},
      {"an mbarrier", "{ .reg .b64 state; mbarrier.arrive.shared::cta.b64 state,[%r10],%r1;"
                      "mbarrier.test_wait.shared::cta.b64 %p2,[%r10],state; } not.pred %p1,%p2;"},
      {"a copy that is made or not",
       "setp.ne.u32 %p2,%r1,0; @%p2 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx"
       "::bytes [%r9],[%r11],16,[%r10];"
       "mbarrier.test_wait.parity.shared::cta.b64 %p3,[%r10],0; not.pred %p1,%p3;"},
      {"a branch", "setp.eq.u32 %p2,%r1,0; mov.u32 %r2,0; @%p2 bra CA; mov.u32 %r2,1;"
                   "CA: setp.eq.u32 %p1,%r2,0;"},
      {"a branch by an index", "mov.u32 %r2,0; and.b32 %r3,%r1,1; CT: .branchtargets CA, CB;"
                               "brx.idx %r3,CT; CB: mov.u32 %r2,1; CA: setp.eq.u32 %p1,%r2,0;"},
      {"an argument", "call (%r2), adds, (%r1); setp.eq.u32 %p1,%r2,1;"},
      {"an argument in parameter space",
       "{ .param .b32 a; .param .b32 x; st.param.b32 [a],%r1; call (x), adds_in_parameters, (a);"
       "ld.param.b32 %r3,[x]; } setp.eq.u32 %p1,%r3,1;"},
      {"which function is called",
       "setp.eq.u32 %p2,%r1,0; mov.u64 %rd4,adds; mov.u64 %rd5,adds_more;"
       "selp.u64 %rd4,%rd4,%rd5,%p2; call (%r2), %rd4, (%r0), adder; setp.eq.u32 %p1,%r2,1;"},
      {"memory that a callee copies", "st.global.u32 [shared_by_all],%r1; call copies;"
                                      "ld.shared.u32 %r2,[s]; setp.eq.u32 %p1,%r2,0;"},
      {"an opcode that nobody knows", "newop.u32 %r2,%r1; setp.eq.u32 %p1,%r2,0;"},
      {"a state that nobody knows", "newput.u32 %r1; newget.u32 %r2; setp.eq.u32 %p1,%r2,0;"},
  };
  return all;
}

const std::vector<LoopShape> &loopShapes() {
  static const std::vector<LoopShape> all = {
      {"turns while it holds", "L: ", "@%p1 bra L; ret;"},
      {"leaves by a branch", "L: ", "@!%p1 bra E; bra L; E: ret;"},
      {"leaves by ret", "L: ", "@!%p1 ret; bra L;"},
      {"leaves by exit", "L: ", "@!%p1 exit; bra L;"},
      {"traps when it takes too long", "L: ",
       "@!%p1 bra E; mov.u32 %r13,%clock; setp.gt.u32 %p7,%r13,9999; @%p7 bra X; bra L;"
       "X: trap; E: ret;"},
      {"leaves by an index",
       "T: .branchtargets E, L; L: ", "selp.u32 %r13,1,0,%p1; brx.idx %r13,T; E: ret;"},
      {"in a loop that counts", "mov.u32 %r14,0; O: L: ",
       "@%p1 bra L; add.u32 %r14,%r14,1; setp.lt.u32 %p7,%r14,4; @%p7 bra O; ret;"},
      {"counts what it has found", "mov.u32 %r14,0; L: ",
       "@%p1 bra L; add.u32 %r14,%r14,1; setp.lt.u32 %p7,%r14,4; @%p7 bra L; ret;"},
      {"skips its count", "mov.u32 %r14,0; L: ",
       "@%p1 bra N; add.u32 %r14,%r14,1; setp.ge.u32 %p7,%r14,4; @%p7 ret; N: bra L;"},
      {"decided in the turn before", "mov.u32 %r14,1; L: setp.eq.u32 %p7,%r14,0; @%p7 bra E; ",
       "selp.u32 %r14,1,0,%p1; bra L; E: ret;"},
      {"with two entries",
       "setp.eq.u32 %p7,%r15,0; @%p7 bra M; L: mov.u32 %r14,0; M: ", "@%p1 bra L; ret;"},
      {"exits in a callee", "L: ", "selp.u32 %r13,1,0,%p1; call exits, (%r13); bra L;"},
      {"or a time has passed", "mov.u32 %r14,%clock; L: ",
       "mov.u32 %r13,%clock; sub.u32 %r13,%r13,%r14; setp.lt.and.u32 %p1,%r13,9999,%p1;"
       "@%p1 bra L; ret;"},
  };
  return all;
}

std::string moduleOfWays(std::string_view body) {
  std::string text = R"(.version 9.0
.target sm_100a
.address_size 64
.extern .func (.param .b64 x) malloc (.param .b64 a);
.const .align 4 .b32 c[64] = {0, 1};
.global .align 4 .b32 shared_by_all;
.shared .align 128 .b8 s[2048];
.func (.reg .b32 x) adds (.reg .b32 y) { add.u32 x, y, 1; ret; }
.func (.reg .b32 x) adds_more (.reg .b32 y) { add.u32 x, y, 2; ret; }
.func (.param .b32 x) adds_in_parameters (.param .b32 y)
{ .reg .b32 a; ld.param.b32 a, [y]; add.u32 a, a, 1; st.param.b32 [x], a; ret; }
.func (.reg .b32 x) reads_strongly (.reg .b64 a) { ld.volatile.global.u32 x, [a]; ret; }
.func (.reg .b32 x) reads_plainly (.reg .b64 a) { ld.global.u32 x, [a]; ret; }
.func (.param .b32 x) reads_in_parameters (.param .b64 a)
{ .reg .b64 b; .reg .b32 y; ld.param.b64 b, [a]; ld.acquire.gpu.u32 y, [b];
  st.param.b32 [x], y; ret; }
.func copies () { .reg .b32 x; ld.global.u32 x, [shared_by_all]; st.shared.u32 [s], x; ret; }
.func exits (.reg .b32 goes) { .reg .pred q; setp.eq.u32 q, goes, 0; @q exit; ret; }
.visible .entry k(.param .u64 p, .param .u32 n, .param .u64 handle, .param .u64 tensor)
{
	.reg .pred %p<8>; .reg .b32 %r<16>; .reg .b64 %rd<16>; .reg .f32 %f<8>; .reg .v2 .u32 v;
	.local .align 4 .b8 l[64]; .shared .align 8 .b64 m;
	prototype: .callprototype (.reg .b32 x) _ (.reg .b64 a);
	adder: .callprototype (.reg .b32 x) _ (.reg .b32 y);
	ld.param.u64 %rd1,[p]; ld.param.u64 %rd2,[handle]; ld.param.u64 %rd3,[tensor];
	mov.u32 %r9,s; mov.u64 %rd9,s; cvta.shared.u64 %rd9,%rd9; mov.u32 %r10,m; mov.u32 %r11,s;
	mov.u32 %r0,%laneid; ld.param.u32 %r15,[n]; mov.f32 %f0,0f00000000;
	mov.u64 %rd4,0; mov.u64 %rd5,0; mov.u32 %r3,0; mov.pred %p1,0;
)";
  text += body;
  text += "\n}\n";
  return text;
}

} // namespace tally::ptx
