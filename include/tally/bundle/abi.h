/* The ABI between rewritten kernels and whoever launches them: plain C data, shared by
 * tally-ptxopt (which emits code that reads it), libtally_runtime and the emulator's tests.
 *
 * A variant is an .entry beside the user's in the same module, `<kernel>$tally_<kind>` (and
 * `<kernel>$tally_guard_resume`). Its parameters are the user's at the user's offsets and then one
 * struct tally_launch_params, 8-byte aligned.
 *
 * Epochs. The control word holds an epoch that only grows. A launch carries the epoch that it was
 * issued under; a thread block yields when the control word's epoch is greater. So a launch of an
 * old epoch never starts another block, resuming is always a new launch, and nothing is ever
 * cleared. (Greater, not merely different: a launch may be issued under an epoch whose write has
 * not landed yet. With "different" it would yield until the write lands and then run on, so that a
 * dependent launch behind it could run on half a result.)
 *
 * Guard with tickets: the guard of a kernel whose blocks wait for blocks of lower linear id
 * (bundle::Kernel::guardTakesTickets). It is one entry without a list: a block polls, leaves if
 * told to, and else takes its virtual id from state.next_block. Launched, at first and again, as a
 * row of blocks - next_block blocks, with next_block as the last launch left it; all are done when
 * it reaches blocks. New in version 2.
 */
#ifndef TALLY_BUNDLE_ABI_H
#define TALLY_BUNDLE_ABI_H

#include <stddef.h>
#include <stdint.h>

#define TALLY_ABI_VERSION 2u

/* The control word, 64 bits in device memory, written whole by a stream write and polled with
 * ld.relaxed.gpu: bits 63..24 epoch, 23..8 workers wanted (0xffff: no limit), 7..0 mode. */
#define TALLY_CONTROL_EPOCH_SHIFT 24
#define TALLY_CONTROL_WORKERS_SHIFT 8
#define TALLY_CONTROL_WORKERS_UNLIMITED 0xffffu
#define TALLY_CONTROL_EPOCH_MAX ((1ull << 40) - 1)

/* Modes of the control word. Variants act on the epoch, and persistent ones on the workers wanted;
 * the modes are written for those that will read them. */
enum tally_control_mode {
  TALLY_CONTROL_RUN = 0,
  TALLY_CONTROL_LEAVE_AT_BLOCK_END = 1,
  TALLY_CONTROL_PAUSE = 2,
  TALLY_CONTROL_CHECKPOINT = 3
};

/* What one launch writes: 64 bytes in device memory, set by the host before the launch and read
 * back after it. */
struct tally_launch_state {
  uint32_t next_block;   /* persistent, guard with tickets: the next virtual block that nobody has
                            taken; for persistent it may overshoot params.blocks by the number of
                            workers */
  uint32_t live_workers; /* persistent: workers that may take another block, of all launches on
                            this state: see below */
  uint32_t yielded;      /* guard without tickets: ids appended to params.list_out by this launch */
  uint32_t reserved[13];
};

/* The elastic width of persistent launches. A worker
 *  - adds 1 to live_workers when it starts;
 *  - before it takes a block reads the control word, once. If the word's epoch is greater than the
 *    launch's it leaves. Otherwise, if the word's workers wanted are not 0xffff, it reads
 *    live_workers; while that is greater than the workers wanted, and greater than 1, it tries to
 *    take 1 off by compare-and-swap, and leaves if that succeeds; else it takes a block, or leaves
 *    where none is left;
 *  - takes 1 off live_workers when it leaves in any other way.
 * So of a surplus exactly as many leave as there are too many, and never more than the wanted
 * number (one, if none is wanted) go on after they have read it. One always goes on: only a greater
 * epoch makes a launch leave blocks over, so that what is sent behind it under its epoch never runs
 * on half a result. To give a launch nothing, advance the epoch.
 *
 * Nothing brings a worker back: to widen, the host launches more workers with the same parameters,
 * epoch and state, which it does not write while one is running; they take what blocks are left.
 * When all launches on a state have ended live_workers is 0, and next_block has not overshot by
 * more than the number of workers that were launched on it.
 *
 * Workers that may spend themselves (bundle::Kernel::maySpend) exit after a virtual block in which
 * part of a warp left alone. A launch of such a kernel has as many workers as blocks are left, so
 * that one is left for each block; they do not look at the workers wanted. */

/* Unsigned division by a constant d of a number n < 2^31: (n * multiplier) >> shift in 64 bits. */
struct tally_divisor {
  uint32_t multiplier;
  uint32_t shift;
};

/* tally's own parameters, the same for every kind; 96 bytes, 8-byte aligned, at
 * round_up(bytes of the user's parameters, 8). All pointers are device addresses. */
struct tally_launch_params {
  uint64_t control;   /* the control word */
  uint64_t epoch;     /* epoch of this launch, unshifted */
  uint64_t state;     /* struct tally_launch_state of this launch */
  uint64_t list_in;   /* guard resume: uint32_t linear virtual block ids, one per block launched;
                         in clusters one per cluster, its first block's (cluster i along x) */
  uint64_t list_out;  /* guard: room for one uint32_t per block, or cluster, launched */
  uint32_t grid[3];   /* the user's grid: the virtual %nctaid */
  uint32_t offset[3]; /* slice: added to the physical %ctaid */
  uint32_t blocks;    /* guard, persistent: number of virtual blocks, < 2^31 */
  uint32_t reserved0;
  struct tally_divisor
      by_grid_x; /* guard resume, guard with tickets, persistent: linear id -> x and the rest */
  struct tally_divisor by_grid_y; /* the rest -> y and z */
  uint64_t save_area;             /* reserved for checkpoints */
};

/* The largest number of virtual blocks that one guard or persistent launch takes; a larger grid is
 * sliced first. */
#define TALLY_MAX_VIRTUAL_BLOCKS 0x7fffffffu

#ifdef __cplusplus
static_assert(sizeof(tally_launch_state) == 64);
static_assert(sizeof(tally_launch_params) == 96);
static_assert(offsetof(tally_launch_params, grid) == 40);
static_assert(offsetof(tally_launch_params, offset) == 52);
static_assert(offsetof(tally_launch_params, blocks) == 64);
static_assert(offsetof(tally_launch_params, by_grid_x) == 72);
static_assert(offsetof(tally_launch_params, by_grid_y) == 80);
static_assert(offsetof(tally_launch_params, save_area) == 88);
#endif

#endif
