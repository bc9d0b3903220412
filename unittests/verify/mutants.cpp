// Rules are the rewriter's defects of docs/testing.md by number ("defect 3") or sentences of
// include/tally/bundle/abi.h.
#include "mutants.h"

namespace tally::verify {

namespace {

/// Not one kernel but the first generated ones: tally-verify --generate=400 --seed=1.
constexpr const char *generated = "generated";

// Kernels that launches.txt need not know, as they may be refused as a whole.
constexpr const char *funcCtaid = "test/kernels/func_ctaid.ptx func_ctaid --grid=4 --block=32 "
                                  "--arg=ptr:u32:128:zero";
constexpr const char *lookBack = "test/kernels/look_back.ptx look_back --grid=6 --block=32 "
                                 "--arg=ptr:u32:6:zero --arg=ptr:u32:6:zero";
// Codings that are not the default ones.
constexpr const char *everyThread =
    "test/kernels/barrier_reduce.ptx barrier_reduce --grid=5 --block=64 --arg=ptr:u32:5:zero "
    "--arg=ptr:u32:300:random:6 --arg=u32:300 --coding=every-thread";
// Two warps, and each adds.
constexpr const char *atomicInt =
    "test/kernels/atomic_int.ptx atomic_int --grid=5 --block=64 --arg=ptr:u32:16:zero "
    "--arg=ptr:u32:300:random:36 --arg=u32:300";
// Two warps that never meet, and blocks enough for each worker.
constexpr const char *twoWarps =
    "test/kernels/grid_1d.ptx grid_1d --grid=24 --block=64 --arg=ptr:u32:1536:zero "
    "--arg=ptr:u32:1536:random:1 --arg=u32:1536";
constexpr const char *twoWarpsEarlyIds =
    "test/kernels/grid_1d.ptx grid_1d --grid=24 --block=64 --arg=ptr:u32:1536:zero "
    "--arg=ptr:u32:1536:random:1 --arg=u32:1536 --coding=early-ids";
constexpr const char *opaquePointers =
    "test/kernels/grid_1d.ptx grid_1d --grid=5 --block=32 --arg=ptr:u32:150:zero "
    "--arg=ptr:u32:150:random:1 --arg=u32:150 --coding=opaque-pointers";
constexpr const char *stagedTypes =
    "test/kernels/checkpoint_types.ptx checkpoint_types --grid=3 --block=33 --arg=ptr:u32:99:zero "
    "--arg=ptr:u32:99:random:109 --arg=u32:24 --coding=staged";
constexpr const char *stagedUneven =
    "test/kernels/checkpoint_threads.ptx checkpoint_uneven --grid=4 --block=48 "
    "--arg=ptr:u32:192:zero --arg=ptr:u32:4:zero --arg=ptr:u32:192:random:105 --arg=i32:24 "
    "--coding=staged";
constexpr const char *stagedLocal =
    "test/kernels/checkpoint_threads.ptx checkpoint_local --grid=3 --block=40 "
    "--arg=ptr:u32:120:zero --arg=ptr:u32:40:random:106 --arg=i32:13 --coding=staged";
constexpr const char *countedStrips =
    "test/kernels/strips.ptx strips_block --grid=2 --block=33 --arg=ptr:u32:66:zero --arg=u32:30 "
    "--coding=counted";
constexpr const char *rereadTiles =
    "test/kernels/barrier_tiles.ptx barrier_tiles --grid=5 --block=64 --arg=ptr:u32:320:zero "
    "--arg=ptr:u32:960:random:5 --arg=i32:3 --coding=zeroed";
constexpr const char *rereadReturn =
    "test/kernels/early_return.ptx early_return --grid=5 --block=32 --arg=ptr:i32:150:zero "
    "--arg=ptr:i32:150:random:2 --arg=i32:150 --coding=zeroed";

} // namespace

const std::vector<TextMutant> &textMutants() {
  static const std::vector<TextMutant> mutants = {
      // Grids
      {"virtual ids", "a physical %ctaid.x is left", Kind::Slice, "grid_1d",
       R"(mov\.u32 (\s*%\w+), %tally_ctaid_x;)", "mov.u32 $1, %ctaid.x;"},
      {"virtual ids", "a physical %ctaid.y is left", Kind::Persistent, "grid_2d",
       R"(mov\.u32 (\s*%\w+), %tally_ctaid_y;)", "mov.u32 $1, %ctaid.y;"},
      {"virtual ids", "a physical %nctaid.x is left", Kind::Slice, "grid_2d",
       R"(ld\.param\.u32 %tally_nctaid_x, \[\$tally_launch\+40\];)",
       "mov.u32 %tally_nctaid_x, %nctaid.x;"},
      {"virtual ids", "a physical %nctaid.y is left", Kind::Persistent, "grid_2d",
       R"(ld\.param\.u32 %tally_nctaid_y, \[\$tally_launch\+44\];)",
       "mov.u32 %tally_nctaid_y, %nctaid.y;"},
      {"virtual ids", "%nctaid is the last block's ticket limit, and physical", Kind::Slice,
       "last_block", R"(ld\.param\.u32 %tally_nctaid_x, \[\$tally_launch\+40\];)",
       "mov.u32 %tally_nctaid_x, %nctaid.x;"},
      {"slice: offset", "the offset in y is forgotten", Kind::Slice, "grid_2d",
       R"(add\.u32 %tally_ctaid_y, %tally_ctaid_y, %tally_offset_y;)", ""},
      {"slice: offset", "the offset in z is forgotten", Kind::Slice, "grid_z_only",
       R"(add\.u32 %tally_ctaid_z, %tally_ctaid_z, %tally_offset_z;)", ""},
      {"defect 5", "the linear index is not reduced to x", Kind::Persistent, "grid_x_only",
       R"(sub\.u32 %tally_r0, %tally_id, %tally_r0;)", "mov.u32 %tally_r0, %tally_id;"},
      {"defect 5", "the linear index is not reduced to x", Kind::Guard, "grid_x_only",
       R"(sub\.u32 %tally_r0, %tally_id, %tally_r0;)", "mov.u32 %tally_r0, %tally_id;"},
      {"defect 5", "y is not reduced", Kind::Persistent, "grid_3d",
       R"(sub\.u32 %tally_r3, %tally_r1, %tally_r3;)", "mov.u32 %tally_r3, %tally_r1;"},
      {"virtual ids", "x and y change places", Kind::Guard, "grid_2d",
       R"(\[\$tally_block\+4\], %tally_r0)", "[$tally_block+8], %tally_r0"},

      // Codings
      {"guard: agreement", "every thread decides for itself", Kind::Guard, everyThread,
       R"(bar\.red\.or\.pred %tally_leave, 0, %tally_yield;)",
       "setp.eq.u32 %tally_leave, 0, 0;\n\tand.pred %tally_leave, %tally_leave, %tally_yield;"},
      {"guard: list", "every thread puts the block on the list", Kind::Guard, everyThread,
       R"(@%tally_other bra \$tally_left;)", ""},
      {"persistent: pointers", "what is added to a pointer is not 0", Kind::Persistent,
       opaquePointers, R"(shr\.u32 %tally_r0, %tally_r0, 31;)", "shl.b32 %tally_r0, %tally_r0, 2;"},

      // Barriers of the variants' own
      {"defect 3", "no second barrier in the loop", Kind::Persistent, rereadTiles,
       R"(\$tally_agree:\n\tbarrier\.sync 0;)", "$$tally_agree:"},
      {"defect 3", "the block does not meet in the loop", Kind::Persistent, "barrier_tiles",
       R"(\$tally_agree:\n\tbarrier\.sync 0;)", "$$tally_agree:"},
      {"defect 3", "a kernel without barriers does not meet in the loop", Kind::Persistent,
       "grid_2d", R"(\$tally_agree:\n\tbarrier\.sync 0;)", "$$tally_agree:"},
      {"persistent: overlap", "the next ids are published while some read the last ones",
       Kind::Persistent, twoWarpsEarlyIds, R"((@%tally_leave ret;\n)\tbar\.sync 0;)", "$1"},
      {"persistent: two slots", "one slot", Kind::Persistent, twoWarps,
       R"(\txor\.b32 %tally_ids, %tally_ids, 8;\n)", ""},
      {"persistent: two slots", "the block does not meet", Kind::Persistent, "grid_3d",
       R"(\$tally_agree:\n\tbarrier\.sync 0;)", "$$tally_agree:"},
      {"persistent: two slots", "the next block's is read", Kind::Persistent, "grid_1d",
       R"((ld\.shared[^\n]*\n)\t(xor\.b32 %tally_ids, %tally_ids, 8;\n))", "$2\t$1"},
      {"persistent: two slots", "thread 0 stays with the first", Kind::Persistent, "grid_1d",
       R"((xor\.b32 %tally_ids, %tally_ids, 8;))", "@%tally_other $1"},
      {"persistent: two slots", "the ids are read in the body", Kind::Persistent, "barrier_tiles",
       R"(mov\.u32 (\s*%\w+), %tally_ctaid_x;)", "ld.shared.u32 $1, [%tally_ids];"},
      {"persistent: two slots", "y and z change places", Kind::Persistent, "grid_3d",
       R"(shl\.b32 %tally_r2, %tally_r2, 16;)", "shl.b32 %tally_r3, %tally_r3, 16;"},
      {"persistent: two slots", "who leaves takes it for an id", Kind::Persistent, "grid_3d",
       R"(setp\.lt\.s32 %tally_leave)", "setp.lt.u32 %tally_leave"},
      {"persistent: overlap", "the ids are read in the body", Kind::Persistent,
       "barrier_tiles --coding=early-ids", R"(mov\.u32 (\s*%\w+), %tally_ctaid_x;)",
       "ld.shared.u32 $1, [$$tally_block+4];"},
      {"persistent: overlap", "a worker that may be spent takes the next block", Kind::Persistent,
       "part_leaves --coding=early-ids",
       R"(\tbarrier\.sync 0;\n(\tld\.shared\.u32 %tally_flag, \[\$tally_spent\];))", "$1"},
      {"guard: agreement", "no barrier behind the flag", Kind::Guard, "grid_2d",
       R"(\$tally_agree:\n\tbar\.sync 0;)", "$$tally_agree:"},
      {"guard: agreement", "each thread goes by what it knows, not by what the barrier tells",
       Kind::Guard, "grid_2d", R"(bar\.red\.and\.pred %tally_stay, 0, %tally_other;)",
       "mov.pred %tally_stay, %tally_other;"},
      {"guard: agreement", "any thread that stays keeps the block", Kind::Guard, "grid_2d",
       R"(bar\.red\.and\.pred)", "bar.red.or.pred"},
      {"guard: whole or not at all", "a block that was told to leave stays", Kind::Guard, "grid_2d",
       R"(@!%tally_stay ret;)", ""},
      {"guard: each warp polls", "a block stays of which one warp has not been through",
       Kind::Guard, "prelude_turns", R"(bar\.red\.or\.pred %tally_leave)",
       "bar.red.and.pred %tally_leave"},
      {"guard: each warp polls", "each warp goes by what it has seen", Kind::Guard, "prelude_turns",
       R"(bar\.red\.or\.pred %tally_leave, 0, %tally_any;)", "mov.pred %tally_leave, %tally_any;"},
      {"guard: each warp polls", "the block agrees behind a store", Kind::Guard, "prelude_turns",
       R"((\$tally_agree:\n[^\n]*\n[^\n]*\n)\s*(st\.global[^\n]*\n))", "\n\t$2$1"},
      {"guard: each warp polls", "lanes of a warp may part", Kind::Guard, "prelude_turns",
       R"(vote\.sync\.any\.pred %tally_any, %tally_yield, -1;)",
       "mov.pred %tally_any, %tally_yield;"},
      {"guard: agreement", "the flag is read before the user's barrier", Kind::Guard,
       "barrier_reduce", R"(\$tally_agree:\n(\s*bar\.sync\s+0;)\s*(ld\.shared[^;]*;))",
       "$$tally_agree:\n\t$2\n$1"},
      {"guard: agreement", "the flag is set behind the user's barrier", Kind::Guard, atomicInt,
       R"((st\.shared\.u32 \[\$tally_block\], %tally_flag;)\s*\$tally_agree:\n(\s*bar\.sync\s+0;))",
       "\n$$tally_agree:\n$2\n\t@!%tally_other $1"},
      {"guard: whole or not at all", "a block that yielded at its barrier runs all the same",
       Kind::Guard, "barrier_reduce", R"(@%tally_leave bra \$tally_left;)", ""},
      {"guard: agreement", "one warp meets, not the block", Kind::Guard, "barrier_tiles",
       R"(\$tally_agree:\n\tbar\.sync 0;)", "$$tally_agree:\n\tbar.sync 0, 32;"},
      {"persistent: reuse of shared memory", "no barrier at the loop's head", Kind::Persistent,
       rereadTiles, R"(barrier\.sync \d+;\n)", "\n"},
      {"persistent: convergence", "the aligned form at the loop's head", Kind::Persistent,
       rereadReturn, R"(\tbarrier\.sync (\d+);)", "\tbar.sync $1;"},
      {"persistent: convergence", "the aligned form behind thread 0's turn", Kind::Persistent,
       "early_return", R"(\$tally_agree:\n\tbarrier\.sync 0;)", "$$tally_agree:\n\tbar.sync 0;"},
      {"persistent: barrier ids", "the loop's barrier is that of other threads", Kind::Persistent,
       "barrier_tiles", R"(\$tally_agree:\n\tbarrier\.sync 0;)",
       "$$tally_agree:\n\t@%tally_other barrier.sync 1;\n\t@!%tally_other barrier.sync 0;"},
      {"persistent: copies in flight", "cp.async is not waited for", Kind::Persistent, "cp_async",
       R"(cp\.async\.wait_all;)", ""},

      // Threads that leave while others still meet
      {"persistent: parking", "in the aligned form", Kind::Persistent,
       "leave_in_rounds --coding=early-ids", R"(barrier\.red\.or\.pred)",
       "barrier.red.or.aligned.pred"},
      {"persistent: parking", "the user's barriers stay", Kind::Persistent,
       "leave_in_rounds --coding=early-ids",
       R"(mov\.pred %tally_here, 1;\n\tbarrier\.red\.or\.pred %tally_any, 0, %tally_here;)",
       "barrier.sync 0;"},
      {"persistent: parking", "those who leave do not wait", Kind::Persistent,
       "warps_leave --coding=early-ids", R"(@%tally_any bra \$tally_park_\d+;)", ""},
      {"persistent: parking", "those in the body say that nobody is", Kind::Persistent,
       "warps_leave --coding=early-ids", R"(mov\.pred %tally_here, 1;)",
       "mov.pred %tally_here, 0;"},
      {"persistent: parking", "a second barrier at the head", Kind::Persistent,
       "warps_leave --coding=early-ids", R"(@%tally_any bra (\$tally_park_\d+);)",
       "barrier.sync 0;\n\t@%tally_any bra $1;"},
      {"persistent: parking", "those who left count in a reduction", Kind::Persistent,
       "warps_leave_counted --coding=early-ids",
       R"(%tally_count, 0, %tally_here;\n\tbra\.uni (\$tally_park_\d+);)",
       "%tally_count, 0, !%tally_here;\n\tbra.uni $1;"},
      {"persistent: parking", "all is taken for any", Kind::Persistent,
       "reduce_and_leave --coding=early-ids", R"(setp\.eq\.u32 %p2, %tally_count, 0)",
       "setp.ne.u32 %p2, %tally_count, 0"},
      {"persistent: barrier ids", "the loop's barrier is one with a thread count", Kind::Persistent,
       "counted_after_leaving", R"(barrier\.sync 2;)", "barrier.sync 0;"},
      {"persistent: one block", "a worker that was told to yield takes a block", Kind::Persistent,
       "part_leaves", R"(setp\.gt\.u64 %tally_yield)", "setp.lt.u64 %tally_yield"},
      {"persistent: one block", "a worker without a block runs one", Kind::Persistent,
       "part_leaves", R"(@%tally_leave ret;)", ""},
      {"persistent: one block", "the block does not meet", Kind::Persistent, "part_leaves",
       R"(\$tally_agree:\n\tbar\.sync 0;)", "$$tally_agree:"},
      {"persistent: spending", "part of a warp goes to the head", Kind::Persistent,
       "part_leaves --coding=early-ids", R"(@%tally_leave bra \$tally_spend;)", ""},
      {"persistent: spending", "another warp is taken for the last", Kind::Persistent,
       "leader_spends --coding=early-ids",
       R"(and\.b32 %tally_r1, %tally_r1, -32;\n\tmov\.u32 %tally_r3, %ntid\.z;)",
       "mov.u32 %tally_r1, 123;\n\tmov.u32 %tally_r3, %ntid.z;"},
      {"persistent: spending", "a worker goes on without those who exited", Kind::Persistent,
       "part_leaves --coding=early-ids", R"(@%tally_leave bra \$tally_leave;)", ""},
      {"persistent: spending", "those who exit do not say so", Kind::Persistent,
       "part_leaves --coding=early-ids",
       R"(st\.shared\.u32 \[\$tally_spent\], %tally_flag;\n\tmembar)", "membar"},
      {"persistent: spending", "a block that was taken is left for it", Kind::Persistent,
       "part_leaves --coding=early-ids", R"((ld\.shared\.(?:v\d\.)?u32 [^;]*, \[\$tally_block\];))",
       "$1\n\tld.shared.u32 %tally_flag, [$$tally_spent];"},

      // Polls in loops
      {"pause: naps", "the word is not read again", Kind::Pause, "nounroll",
       R"((\$tally_nap_\d+:\n)\tld\.param[^;]*;\n\tcvta[^;]*;\n\tld\.relaxed[^;]*;)", "$1"},
      {"pause: naps", "by a weak load", Kind::Pause, "barrier_tiles",
       R"(ld\.relaxed\.gpu\.global\.u8)", "ld.global.u8"},
      {"pause: modes", "LEAVE is taken for PAUSE", Kind::Pause, "nounroll",
       R"(setp\.ne\.u32 %tally_nap, %tally_mode, 2;)", "setp.eq.u32 %tally_nap, %tally_mode, 0;"},
      {"pause: naps", "a nap ends the block", Kind::Pause, "nounroll", R"(bra \$tally_nap_\d+;)",
       "bra $$tally_next;"},
      {"pause: before a block", "one is taken", Kind::Pause, "nounroll",
       R"(@%tally_nap bra \$tally_index;)", "bra $$tally_index;"},
      {"pause: before a block", "the worker leaves", Kind::Pause, "nounroll",
       R"(nanosleep\.u32 \d+;\n\tbra \$tally_take;)", "bra $$tally_last;"},
      {"pause: before a block", "the epoch is not looked at", Kind::Pause, "nounroll",
       R"(@%tally_yield bra \$tally_last;\n\tand\.b32)", "and.b32"},
      {"pause: one block", "is taken though others pause", Kind::Pause, "leave_in_rounds",
       R"(@%tally_nap bra \$tally_index;)", "bra $$tally_index;"},
      {"pause: one block", "the worker leaves", Kind::Pause, "leave_in_rounds",
       R"(bra \$tally_judge;)", "bra $$tally_none;"},
      {"pause: one block", "the epoch is not looked at", Kind::Pause, "leave_in_rounds",
       R"(@%tally_yield bra \$tally_none;\n\tcvt)", "cvt"},
      {"pause: turns", "a branch back though the loop is over", Kind::Pause, "strips_late",
       R"(setp\.(\w+)\.and\.(\w+) %tally_due, (%tally_\w+), 0, [^;]*;)",
       "setp.$1.$2 %tally_due, $3, 0;"},
      {"pause: turns", "those that do not poll leave the block", Kind::Pause, "strips_late",
       R"((@!?%p\d+) bra \$tally_on_\d+;)", "$1 bra $$tally_next;"},
      {"pause: registers", "a poll changes the user's", Kind::Pause, "nounroll",
       R"((\$tally_look_\d+:\n))", "$1\tadd.u32 %r17, %r17, 1;\n"},
      {"pause: staying", "the epoch is not looked at", Kind::Pause, "nounroll",
       R"(@%tally_yield bra \$tally_told;(\n\tnanosleep\.u32 %tally_r1;))", "$1"},
      {"pause: staying", "the epoch is looked at though others pause", Kind::Pause, "nounroll",
       R"(@%tally_nap bra \$tally_stays;)", "bra $$tally_stays;"},
      {"pause: staying", "for ever", Kind::Pause, "nounroll",
       R"((setp\.eq\.u32 %tally_yield, %tally_r0, 0;\n\t)@%tally_yield bra \$tally_told;)", "$1"},
      {"pause: staying", "the last one leaves though others pause", Kind::Pause, "nounroll",
       R"((@%tally_other bra \$tally_told;))",
       "$1\n\tld.relaxed.gpu.global.u32 %tally_r0, [%tally_d2+4];\n"
       "\tsetp.eq.u32 %tally_yield, %tally_r0, 0;\n\t@%tally_yield bra $$tally_told;"},
      {"pause: staying", "until those have ended that have not started", Kind::Pause, "nounroll",
       R"(\$tally_stay:\n)",
       "$$tally_stay:\n\tld.relaxed.gpu.global.u32 %tally_r2, [%tally_d2];\n"
       "\tld.param.u32 %tally_r3, [$$tally_launch+64];\n\tmov.u32 %tally_r4, %nctaid.x;\n"
       "\tadd.u32 %tally_r3, %tally_r3, %tally_r4;\n"
       "\tsetp.ge.u32 %tally_nap, %tally_r2, %tally_r3;\n\t@%tally_nap bra $$tally_all;\n"
       "\tnanosleep.u32 %tally_r1;\n\tbra $$tally_stay;\n$$tally_all:\n"},
      {"pause: staying", "without naps", Kind::Pause, "nounroll", R"(nanosleep\.u32 %tally_r1;)",
       ""},
      {"pause: staying", "thread 0 stays alone", Kind::Pause, "nounroll",
       R"(@%tally_other bra \$tally_told;)", "@%tally_other bra $$tally_left;"},
      {"pause: staying", "each thread by itself", Kind::Pause, "nounroll",
       R"(barrier\.red\.or\.pred %tally_yield, \d+, %tally_yield;)", ""},
      {"pause: staying", "not until thread 0 says so", Kind::Pause, "nounroll",
       R"((\$tally_stay:\n\tmov\.pred %tally_yield, )0;)", "$011;"},
      {"pause: staying", "a worker is not counted out", Kind::Pause, "nounroll",
       R"(@!%tally_other red\.global\.dec\.u32 \[%tally_d2\+4\], \d+;(\n\tld\.param\.u32 %tally_r1))",
       "$1"},

      // Blocks that stop inside
      {"checkpoint: registers", "those of 32 bits are not restored", Kind::Checkpoint,
       "checkpoint_uneven", R"(ld\.global\.b32 %r\d+, \[%tally_d3\];)", ""},
      {"checkpoint: registers", "one of 64 bits is another's", Kind::Checkpoint, "checkpoint_types",
       R"(%tally_threads, 8, %tally_d3;\n\tld\.global\.b64 %tally_d5)",
       "%tally_threads, 0, %tally_d3;\n\tld.global.b64 %tally_d5"},
      {"checkpoint: registers", "a predicate is another's", Kind::Checkpoint, "checkpoint_types",
       R"(and\.b32 %tally_r1, %tally_r0, 2;)", "and.b32 %tally_r1, %tally_r0, 4;"},
      {"checkpoint: registers", "predicates beyond 32 are forgotten", Kind::Checkpoint,
       "checkpoint_types", R"(@%p3(\d) or\.b32 %tally_r0, %tally_r0, \d+;)", ""},
      {"checkpoint: shared memory", "not restored", Kind::Checkpoint, "checkpoint_tiles",
       R"(st\.shared\.b(32|16) \[%tally_r4\], %tally_(r0|half);)", ""},
      {"checkpoint: shared memory", "the end of the launch's is forgotten", Kind::Checkpoint,
       "checkpoint_dynamic", R"(mov\.u32 %tally_size, %dynamic_smem_size;)",
       "mov.u32 %tally_size, 1;"},
      {"checkpoint: shared memory", "saved while others write there", Kind::Checkpoint,
       "checkpoint_tiles", R"(\$tally_depart:\n\tbarrier\.sync 0;)", "$$tally_depart:"},
      {"checkpoint: shared memory", "used while others restore it", Kind::Checkpoint,
       "checkpoint_tiles",
       R"(\tbarrier\.sync 0;\n(\tsetp\.eq\.u32 %tally_leave, %tally_stopped, \d+;))", "$1"},
      {"checkpoint: local memory", "not restored", Kind::Checkpoint, "checkpoint_local",
       R"(st\.local\.b\d+ \[[^\]]*\], [^;]*;(\n\tmad\.wide))", "$1"},
      {"checkpoint: local memory", "of a large array not saved", Kind::Checkpoint,
       "checkpoint_large_local", R"(st\.global\.b8 \[%tally_d3\], %tally_half;)", ""},
      {"checkpoint: agreement", "each thread decides for itself", Kind::Checkpoint,
       "checkpoint_tiles", R"(barrier\.red\.or\.pred %tally_any, 0, %tally_yield;\n\t@!%tally_any)",
       "@!%tally_yield"},
      {"checkpoint: agreement", "the first look is each thread's own", Kind::Checkpoint,
       "checkpoint_tiles", R"(bar(rier)?\.red\.or\.pred %tally_asked, 0, %tally_yield;)",
       "barrier.sync 0;\n\tmov.pred %tally_asked, %tally_yield;"},
      {"checkpoint: threads that had left", "they go on with the others", Kind::Checkpoint,
       "checkpoint_uneven", R"(mov\.u32 %tally_stopped, 0;)", "mov.u32 %tally_stopped, 1;"},
      {"checkpoint: threads that had left", "those that stopped are taken for them",
       Kind::Checkpoint, "checkpoint_uneven", R"(@%tally_saved bra \$tally_departed;)", ""},
      {"checkpoint: points", "a thread goes on at another one", Kind::Checkpoint,
       "checkpoint_two_loops", R"(mov\.u32 %tally_stopped, 2;)", "mov.u32 %tally_stopped, 1;"},
      {"checkpoint: loops in loops", "who goes on does the outer turn again", Kind::Checkpoint,
       "checkpoint_deep", R"(@%tally_passes bra \$tally_\w+;)", ""},
      {"checkpoint: loops in loops", "who goes on leaves the next turn out", Kind::Checkpoint,
       "checkpoint_deep", R"(setp\.ne\.u32 %tally_passes,(.*\n\tbra \$tally_enter))",
       "setp.eq.u32 %tally_passes,$1"},
      {"checkpoint: loops in loops", "a thread goes on in the other one", Kind::Checkpoint,
       "checkpoint_deep_threads", R"(bra \$tally_inside_1_\d;)", "bra $$tally_inside_1_2;"},
      {"checkpoint: loops in loops", "the inner one is come to past the head of the outer",
       Kind::Checkpoint, "checkpoint_deep",
       R"(bra \$tally_(enter_)?around_\d;(\n\n\$tally_inside))", "$2"},
      {"checkpoint: loops in loops", "what the inner one alone reads is not restored",
       Kind::Checkpoint, "checkpoint_deep_threads",
       R"((\$tally_inside_\d_\d:[^:]*)ld\.global\.b32 %r\d+, \[%tally_d3\];)", "$1"},
      {"checkpoint: no storm is endless", "a restored block looks before it goes on",
       Kind::Checkpoint, "checkpoint_tiles",
       R"(mov\.pred %tally_asked, 0;(\n\tmov\.pred %tally_polls, 0;\n\tbarrier\.sync 0;\n\tsetp\.eq\.u32 %tally_leave,))",
       "mov.pred %tally_asked, 1;$1"},
      {"checkpoint: staged records", "not copied to the slot", Kind::Checkpoint, stagedTypes,
       R"(st\.global\.b32 \[%tally_d3\], %tally_r0;)", ""},
      {"checkpoint: staged records", "not copied from the slot", Kind::Checkpoint, stagedTypes,
       R"(st\.local\.b64 \[%tally_d4\], %tally_d5;)", ""},
      {"checkpoint: staged records", "one register lies on another", Kind::Checkpoint, stagedUneven,
       R"(st\.local\.b32 \[\$tally_stage\+\d+\])", "st.local.b32 [$$tally_stage+0]"},
      {"checkpoint: staged records", "a small array is not restored", Kind::Checkpoint, stagedLocal,
       R"(ld\.local\.b(\d+) (%tally_\w+), \[\$tally_stage\+(\d+)\];)", "mov.b$1 $2, 0;"},
      {"checkpoint: counters", "one is not kept", Kind::Checkpoint, countedStrips,
       R"(st\.relaxed\.cta\.shared\.b32 \[\$tally_counter\], %\w+;)", ""},
      {"checkpoint: counters", "one of 64 bits is not kept", Kind::Checkpoint, countedStrips,
       R"(st\.relaxed\.cta\.shared\.b64 \[\$tally_counter\], %\w+;)", ""},
      {"checkpoint: counters", "a digit counts twice", Kind::Checkpoint, countedStrips,
       R"((\$tally_count_\d+_0:[^:]*add\.s\d+ %\w+, %\w+), 1;)", "$1, 2;"},
      {"checkpoint: counters", "a digit is left out", Kind::Checkpoint, countedStrips,
       R"(@%tally_leave bra \$tally_counted_(\d+)_0;)", "bra $$tally_counted_$1_0;"},
      {"checkpoint: counters", "not from 0 on", Kind::Checkpoint, countedStrips,
       R"(mov\.u\d+ %\w+, 0;(\n\tshr\.u))", "$1"},
      {"checkpoint: made again", "from a register that is not restored", Kind::Checkpoint,
       "checkpoint_uneven", R"((\$tally_enter_\d+:\n)[^:]*(\n\t\$L))", "$1$2"},
      {"checkpoint: made again", "with the physical block id", Kind::Checkpoint,
       "checkpoint_uneven", R"((\$tally_enter_\d+:[^:]*mov\.u32\s+%\w+), %tally_ctaid_x;)",
       "$1, %ctaid.x;"},
      {"checkpoint: saved blocks", "gone on with twice", Kind::Checkpoint, "checkpoint_uneven",
       R"(st\.global\.u32 \[%tally_slot\], %tally_r4;)", ""},
      {"checkpoint: saved blocks", "not counted", Kind::Checkpoint, "checkpoint_uneven",
       R"(red\.global\.inc\.u32 \[%tally_d2\+12\], \d+;)", ""},
      {"checkpoint: saved blocks", "under another id", Kind::Checkpoint, "checkpoint_types",
       R"(\{%tally_r4, %tally_id\};)", "{%tally_r4, %tally_r1};"},
      {"checkpoint: saved blocks", "those of other launches' epochs are taken", Kind::Checkpoint,
       "checkpoint_uneven", R"(or\.b32 %tally_r4, %tally_r4, 2147483648;)",
       "mov.u32 %tally_r4, 2147483648;"},
      {"checkpoint: barriers", "in the aligned form", Kind::Checkpoint, "checkpoint_tiles",
       R"(\tbarrier\.sync 0;)", "\tbar.sync 0;"},

      // The width
      {"width: live workers", "not taken off on leaving", Kind::Persistent, "grid_2d",
       R"(red\.global\.dec\.u32 \[%tally_d2\+4\])", "red.global.and.b32 [%tally_d2+4]"},
      {"width: live workers", "not counted in", Kind::Persistent, "grid_2d",
       R"(red\.global\.inc\.u32 \[%tally_d2\+4\])", "red.global.or.b32 [%tally_d2+4]"},
      {"width: live workers", "counted in before each block", Kind::Persistent, "grid_2d",
       R"(\$tally_index:\n)", "$$tally_index:\n\tred.global.inc.u32 [%tally_d2+4], 4294967294;\n"},
      {"width: one goes on", "the last worker leaves", Kind::Persistent, "grid_2d",
       R"(max\.u32 %tally_word, %tally_word, 1;)", ""},
      {"width: one goes on", "leaves when as many are live as wanted", Kind::Persistent, "grid_2d",
       R"(setp\.le\.u32 %tally_yield, %tally_r0, %tally_word;)",
       "setp.lt.u32 %tally_yield, %tally_r0, %tally_word;"},

      // Ways out of the body
      {"defect 7", "ret stays ret", Kind::Persistent, "early_return", R"(bra \$tally_next;)",
       "ret;"},
      {"defect 7", "a predicated ret stays", Kind::Persistent, "predicated_ret",
       R"((@!?%p\d+) bra \$tally_next;)", "$1 ret;"},
      {"defect 7", "exit in the middle stays", Kind::Persistent, "exit_mid",
       R"((// begin inline asm\n\s*)bra \$tally_next;)", "$1exit;"},

      // Clusters
      {"clusters agree", "the first block leaves before the others have read its flag", Kind::Guard,
       "cluster_reduce_2x2",
       R"((setp\.ne\.u32 %tally_leave, %tally_flag, 0;\n)\tbarrier\.cluster\.arrive[.a-z]*;\n\tbarrier\.cluster\.wait[.a-z]*;)",
       "$1"},
      {"clusters agree", "the flag is read before the first block has set it", Kind::Guard,
       "cluster_reduce_2x2",
       R"(\$tally_agree:\n\tbarrier\.cluster\.arrive[.a-z]*;\n\tbarrier\.cluster\.wait[.a-z]*;)",
       "$$tally_agree:"},
      {"clusters agree", "each block reads its own flag", Kind::Guard, "cluster_reduce_2x2",
       R"(mapa\.shared::cluster\.u32 %tally_r0, %tally_r0, %tally_r1;)", ""},
      {"clusters agree", "each block polls and lists itself", Kind::Guard, "cluster_reduce_2x2",
       R"(mov\.u32 %tally_r0, %cluster_ctarank;)", "mov.u32 %tally_r0, 0;"},
      {"clusters: ids", "a resumed cluster's blocks all stand for its first", Kind::Guard,
       "cluster_reduce_2x2", R"(mov\.u32 %tally_r3, %cluster_ctaid\.y;)", "mov.u32 %tally_r3, 0;"},
      {"clusters: ids", "a resumed cluster takes the id of a block, not of itself", Kind::Guard,
       "cluster_reduce_2x2", R"(mov\.u32 %tally_r1, %clusterid\.x;)",
       "mov.u32 %tally_r1, %ctaid.x;"},
      {"clusters: ids", "the physical index of the cluster is left", Kind::Slice,
       "cluster_places_2d", R"(div\.u32 %tally_clusterid_x, %tally_ctaid_x, %tally_clusterid_x;)",
       "mov.u32 %tally_clusterid_x, %clusterid.x;"},
      {"clusters: ids", "clusters are counted in blocks", Kind::Slice, "cluster_places_2d",
       R"(mov\.u32 %tally_nclusterid_y, 2;)", "mov.u32 %tally_nclusterid_y, 1;"},

      // The protocol
      {"poll before taking", "the block whose index is held is lost on a yield", Kind::Persistent,
       "barrier_tiles", R"((setp\.gt\.u64 %tally_yield, [^;]*;\n))",
       "$1\t{ .reg .b64 %s; ld.param.u64 %s, [$$tally_launch+16]; cvta.to.global.u64 %s, %s;\n"
       "\t@%tally_yield red.global.inc.u32 [%s], 4294967294; }\n"},
      {"polled strongly", "a plain load of the control word", Kind::Guard, "grid_1d",
       R"(ld\.relaxed\.gpu\.global\.u64)", "ld.global.u64"},
      {"polled strongly", "a plain load of the control word", Kind::Persistent, "grid_1d",
       R"(ld\.relaxed\.gpu\.global\.u64)", "ld.global.u64"},
      {"greater, not different", "yields whenever the epochs differ", Kind::Guard, "grid_2d",
       R"(setp\.gt\.u64 %tally_yield)", "setp.ne.u64 %tally_yield"},
      {"greater, not different", "yields whenever the epochs differ", Kind::Persistent, "grid_2d",
       R"(setp\.gt\.u64 %tally_yield)", "setp.ne.u64 %tally_yield"},
      {"yields when asked", "never yields", Kind::Guard, "grid_2d", R"(setp\.gt\.u64 %tally_yield)",
       "setp.lt.u64 %tally_yield"},
      {"yields when asked", "never yields", Kind::Persistent, "grid_2d",
       R"(setp\.gt\.u64 %tally_yield)", "setp.lt.u64 %tally_yield"},
      {"yields when asked", "any word is taken for one that asks nothing", Kind::Persistent,
       "grid_2d", R"(setp\.ne\.u64 %tally_yield, %tally_d0, %tally_d1;)",
       "setp.ne.u64 %tally_yield, %tally_d0, %tally_d0;"},
      {"yields when asked", "the epoch is compared unshifted", Kind::Persistent, "grid_2d",
       R"(shl\.b64 %tally_d1, %tally_d1, 24;)", ""},
      {"guard: agreement", "each thread polls by itself", Kind::Guard, "grid_1d",
       R"(@%tally_other bra \$tally_agree;)", ""},
      {"guard: whole or not at all", "a block that yielded runs all the same", Kind::Guard,
       "grid_2d", R"(@%tally_leave ret;)", ""},
      {"guard: whole or not at all", "a block writes before it agrees", Kind::Guard, "atomic_mixed",
       R"(\$tally_polled:\n)", "$$tally_polled:\n\tmembar.gl;\n"},
      {"guard: resume polls", "the resume entry does not yield", Kind::Guard, "grid_2d",
       R"(@%tally_yield bra \$tally_list;)",
       "mov.u32 %tally_flag, 0;\n\tst.shared.u32 [$$tally_block], %tally_flag;"},
      {"guard: list", "a block is appended twice", Kind::Guard, "grid_2d",
       R"(atom\.global\.add\.u32 %tally_r0, \[%tally_d2\+8\], 1;)",
       "atom.global.add.u32 %tally_r0, [%tally_d2+8], 2;"},
      {"guard: list", "the index is not written", Kind::Guard, "grid_2d",
       R"(st\.global\.u32 \[%tally_d3\], %tally_id;)", ""},
      {"guard: list", "the list begins one block later", Kind::Guard, "grid_2d",
       R"(st\.global\.u32 \[%tally_d3\], %tally_id;)", "st.global.u32 [%tally_d3+4], %tally_id;"},
      {"persistent: counter", "the counter wraps", Kind::Persistent, "grid_2d",
       R"(atom\.global\.inc\.u32 %tally_id, (\[[^\]]*\]), 4294967294;)",
       "atom.global.inc.u32 %tally_id, $1, 3;"},
      {"persistent: counter", "one block too many is run", Kind::Persistent, "grid_1d",
       R"(setp\.ge\.u32 %tally_yield, %tally_id)", "setp.gt.u32 %tally_yield, %tally_id"},
      {"persistent: counter", "an index is taken without an atomic", Kind::Persistent, generated,
       R"(atom\.global\.inc\.u32 %tally_id, (\[[^\]]*\]), 4294967294;)",
       "ld.volatile.global.u32 %tally_id, $1;\n\tadd.u32 %tally_r0, %tally_id, 1;\n\t"
       "st.volatile.global.u32 $1, %tally_r0;"},

      // Parameters and shared memory
      {"parameters", "tally's parameters 8 bytes further", Kind::Guard, "grid_1d",
       R"(\.param \.align 8 \.b8 \$tally_launch)",
       ".param .u64 $$tally_gap,\n\t.param .align 8 .b8 $$tally_launch"},
      {"parameters", "the user's parameters are shifted", Kind::Slice, "grid_1d",
       R"(\(\n(\s*\.param \.u64 \w+))", "(\n\t.param .u64 $$tally_first,\n$1"},
      {"shared memory", "the words overlap the user's", Kind::Persistent, "barrier_tiles",
       R"(\.b32 \$tally_block\[4\];)", ".b32 $$tally_block[1];"},
      {"shared memory", "the words overlap the user's", Kind::Guard, generated,
       R"(\.b32 \$tally_block\[4\];)", ".b32 $$tally_block[1];"},
  };
  return mutants;
}

const std::vector<BlindMutant> &blindMutants() {
  static const std::vector<BlindMutant> mutants = {
      {"defect 2", "barrier.sync is not known for a barrier", Kind::Persistent, "several_names",
       R"(barrier\.sync\s[^;]*;)"},
      {"defect 7", "bar.sync behind a divergent exit is not known for a barrier", Kind::Persistent,
       "barrier_divergent_exit", R"(bar\.sync\s[^;]*;)"},
      {"defect 4", "a .func that reads grid registers is left as it is", Kind::Slice, funcCtaid,
       R"(mov\.u32 \s*%r[23], %n?ctaid\.x;)"},
      {"defect 4", "a .func that reads grid registers is left as it is", Kind::Guard, funcCtaid,
       R"(mov\.u32 \s*%r[23], %n?ctaid\.x;)"},
      {"defect 4", "a .func that reads grid registers is left as it is", Kind::Persistent,
       funcCtaid, R"(mov\.u32 \s*%r[23], %n?ctaid\.x;)"},
      {"defect 7", "a barrier with a thread count is overlooked", Kind::Persistent,
       "early_exit_barrier_forms", R"(\tbar\.(sync|red)[^;\n]*;)"},
      {"defect 7", "exit is overlooked", Kind::Persistent, "exit_mid", R"(\bexit;)"},
      {"waits", "a wait for lower blocks is overlooked", Kind::Guard, lookBack,
       R"(@%p3 bra \s*\$L__BB0_3;)"},
  };
  return mutants;
}

namespace {

bool isResume(std::string_view entry) { return entry.ends_with("_resume"); }

Sabotage
onLaunch(std::function<bool(std::string_view, LaunchShape &, tally_launch_params &)> change) {
  Sabotage sabotage;
  sabotage.launch = std::move(change);
  return sabotage;
}

/// Changes the parameters alone.
Sabotage onParameters(std::function<void(tally_launch_params &)> change) {
  return onLaunch([change](std::string_view, LaunchShape &, tally_launch_params &params) {
    change(params);
    return true;
  });
}

} // namespace

const std::vector<HostMutant> &hostMutants() {
  static const std::vector<HostMutant> mutants = {
      {"slice: offset", "the host forgets the offset in y", Kind::Slice, "grid_2d",
       [] { return onParameters([](auto &params) { params.offset[1] = 0; }); }},
      {"slice: boxes", "boxes overlap", Kind::Slice, "grid_2d",
       [] {
         return onLaunch([](std::string_view, LaunchShape &shape, tally_launch_params &params) {
           if (params.offset[0] + shape.grid.x < params.grid[0])
             ++shape.grid.x;
           return true;
         });
       }},
      {"slice: boxes", "a box is left out", Kind::Slice, "grid_2d",
       [] {
         return onLaunch([](std::string_view, LaunchShape &, tally_launch_params &params) {
           return params.offset[0] == 0;
         });
       }},
      {"virtual ids", "the extents of the launch instead of the grid's", Kind::Slice, "grid_2d",
       [] {
         return onLaunch([](std::string_view, LaunchShape &shape, tally_launch_params &params) {
           params.grid[0] = shape.grid.x;
           return true;
         });
       }},
      {"virtual ids", "the divisor of x for y too", Kind::Persistent, "grid_3d",
       [] { return onParameters([](auto &params) { params.by_grid_y = params.by_grid_x; }); }},
      {"guard: two lists", "the resume entry reads the list that it writes", Kind::Guard, "grid_2d",
       [] {
         return onLaunch([](std::string_view entry, LaunchShape &, tally_launch_params &params) {
           if (isResume(entry))
             params.list_in = params.list_out;
           return true;
         });
       }},
      {"guard: list", "an entry more of the list is run", Kind::Guard, "grid_2d",
       [] {
         return onLaunch([](std::string_view entry, LaunchShape &shape, tally_launch_params &) {
           shape.grid.x += isResume(entry);
           return true;
         });
       }},
      {"guard: list", "the last entry of the list is forgotten", Kind::Guard, "grid_2d",
       [] {
         Sabotage sabotage;
         sabotage.after = [](tally_launch_state &state) { state.yielded -= state.yielded > 0; };
         return sabotage;
       }},
      {"persistent: counter", "each launch counts from 0 again", Kind::Persistent, "grid_2d",
       [] {
         Sabotage sabotage;
         sabotage.before = [](tally_launch_state &state) { state.next_block = 0; };
         return sabotage;
       }},
      {"persistent: counter", "the last block is not asked for", Kind::Persistent, "grid_2d",
       [] { return onParameters([](auto &params) { --params.blocks; }); }},
      {"persistent: counter", "a block behind the last is asked for", Kind::Persistent, "grid_1d",
       [] { return onParameters([](auto &params) { ++params.blocks; }); }},
      {"epochs", "a launch of no epoch", Kind::Guard, "grid_2d",
       [] { return onParameters([](auto &params) { params.epoch = TALLY_CONTROL_EPOCH_MAX; }); }},
      {"epochs", "a resuming launch of its first launch's epoch", Kind::Guard, "grid_2d",
       [] { return onParameters([](auto &params) { params.epoch = 0; }); }},
      {"polled strongly", "polls that hit a stale line", Kind::Guard, "grid_2d",
       [] {
         Sabotage sabotage;
         sabotage.stalePolls = true;
         return sabotage;
       }},
      {"polled strongly", "polls that hit a stale line", Kind::Persistent, "grid_2d",
       [] {
         Sabotage sabotage;
         sabotage.stalePolls = true;
         return sabotage;
       }},
  };
  return mutants;
}

const std::vector<VerdictMutant> &verdictMutants() {
  static const std::vector<VerdictMutant> mutants = {
      {"defect 1", "nothing of nvcc's text is transformed", "grid_1d",
       [](bundle::Bundle &bundle) { bundle.kernels.clear(); }},
      {"defect 11", "a kernel without parameters is skipped in silence", "no_params",
       [](bundle::Bundle &bundle) {
         std::erase_if(bundle.kernels, [](const auto &each) { return each.parameters.empty(); });
       }},
      {"defect 11", "one refused kernel loses the others of its file", "divergent_barrier",
       [](bundle::Bundle &bundle) {
         for (bundle::Kernel &kernel : bundle.kernels)
           for (Verdict &verdict : kernel.verdicts)
             verdict.status = Status::Refused;
       }},
      {"defect 6", "an mbarrier's kernel is taken for any other", "mbarrier",
       [](bundle::Bundle &bundle) {
         for (Verdict &verdict : bundle.kernels.front().verdicts)
           verdict.status = Status::Emitted;
       }},
  };
  return mutants;
}

} // namespace tally::verify
