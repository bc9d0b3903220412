/* The ABI between rewritten kernels and the code that launches them: plain C data, shared by
 * tally-ptxopt (which emits code that reads it), libtally_runtime and the emulator's tests.
 *
 * A variant is an .entry beside the user's in the same module, `<kernel>$tally_<kind>` (and
 * `<kernel>$tally_guard_resume`). Its parameters are the user's at the user's offsets and then one
 * struct tally_launch_params, 8-byte aligned.
 *
 * Epochs. The control word holds an epoch that only grows. A launch carries the epoch that it was
 * issued under; a thread block yields when the control word's epoch is greater. So a launch of an
 * old epoch never starts another block, resuming is always a new launch, and nothing is ever
 * cleared. (The test is "greater", not "different": a launch may be issued under an epoch whose
 * write has not landed yet. With "different" it would yield until the write lands and then run on,
 * so that a dependent launch behind it could run on half a result.)
 *
 * Guard with tickets: the guard of a kernel whose blocks wait for blocks of lower linear id
 * (bundle::Kernel::guardTakesTickets). It is one entry without a list: a block polls, leaves if
 * told to, and else takes its virtual id from state.next_block. Each launch, the first and every
 * later one, is a row of (blocks - next_block) blocks, with next_block as the last launch left it.
 * All blocks are done when next_block reaches blocks. New in version 2.
 *
 * Modes, and the kinds that act on them inside a block (pause and checkpoint): new in version 3.
 */
#ifndef TALLY_BUNDLE_ABI_H
#define TALLY_BUNDLE_ABI_H

#include <stddef.h>
#include <stdint.h>

#define TALLY_ABI_VERSION 3u

/* The control word, 64 bits in device memory, written whole by a stream write and polled with
 * ld.relaxed.gpu. Bits 63..24 epoch, 23..8 workers wanted (0xffff: no limit), 7..0 mode. */
#define TALLY_CONTROL_EPOCH_SHIFT 24
#define TALLY_CONTROL_WORKERS_SHIFT 8
#define TALLY_CONTROL_WORKERS_UNLIMITED 0xffffu
#define TALLY_CONTROL_EPOCH_MAX ((1ull << 40) - 1)

/* Modes of the control word. Slice, guard and persistent ignore the mode: they act on the epoch
 * alone (persistent also on the workers wanted). The kinds that poll inside of loops read it too:
 *
 * - pause: a warp in a loop naps while the mode is PAUSE, whatever the epoch; with any other mode
 *   it goes on. Before a worker takes a block, it leaves if the epoch is greater than its launch's;
 *   otherwise it naps while the mode is PAUSE. If all in-flight work pauses, PAUSE needs no new
 *   epoch: no blocks are left over, and the mode may be taken back. If other work is in flight, the
 *   next epoch with PAUSE makes the other work yield and the pause variants nap; when the mode goes
 *   back, the pause variants finish their current blocks and leave.
 * - checkpoint: a block saves itself and leaves at its next poll when the epoch is greater than its
 *   launch's and the mode is CHECKPOINT. With any other mode it runs to its end and leaves there.
 */
enum tally_control_mode {
  TALLY_CONTROL_RUN = 0,
  TALLY_CONTROL_LEAVE_AT_BLOCK_END = 1,
  TALLY_CONTROL_PAUSE = 2,
  TALLY_CONTROL_CHECKPOINT = 3
};

/* The state that one launch writes: 64 bytes in device memory, set by the host before the launch
 * and read back after it. */
struct tally_launch_state {
  uint32_t next_block;   /* kinds with workers, guard with tickets: the next virtual block
                            that is not taken; with workers it may overshoot params.blocks by their
                            number */
  uint32_t live_workers; /* kinds with workers: workers that may take another block, of all
                            launches on this state: see below */
  uint32_t yielded;      /* guard without tickets: ids appended to params.list_out by this launch */
  uint32_t saved;        /* checkpoint: workers of this launch that left with a saved block. All
                            blocks are done when next_block >= params.blocks and saved == 0 */
  uint32_t reserved[12];
};

/* Kinds with workers: persistent, pause, checkpoint. Only persistent is elastic. The other kinds
 * are launched with a fixed number of workers and do not read the workers wanted; they still add
 * themselves to live_workers and take themselves off.
 *
 * The elastic width of persistent launches. A worker
 *  - adds 1 to live_workers when it starts;
 *  - before it takes a block reads the control word, once. If the word's epoch is greater than the
 *    launch's it leaves. Otherwise, if the word's workers wanted are not 0xffff, it reads
 *    live_workers; while that is greater than the workers wanted, and greater than 1, it tries to
 *    take 1 off by compare-and-swap, and leaves if that succeeds; else it takes a block, or leaves
 *    where none is left;
 *  - takes 1 off live_workers when it leaves in any other way.
 * So exactly the surplus of workers leaves, and no more than the wanted number (one worker, if none
 * is wanted) go on after they have read it. One worker always goes on: only a greater epoch makes a
 * launch leave blocks over, so that launches behind it under its epoch never run on half a result.
 * To give a launch nothing, advance the epoch.
 *
 * A worker that left does not return. To widen, the host launches more workers with the same
 * parameters, epoch and state; they take the blocks that are left. The host does not write the
 * state while a worker is running. When all launches on a state have ended live_workers is 0, and
 * next_block has not overshot by more than the number of workers that were launched on it.
 *
 * Workers that may spend themselves (bundle::Kernel::maySpend) exit after a virtual block in which
 * part of a warp left alone. A launch of such a kernel has as many workers as blocks are left, so
 * that each block finds a worker. Such workers ignore the workers wanted, and a worker that takes
 * one block in any case is not counted in live_workers.
 *
 * Workers of pause that stay. Where params.stay is not 0, a worker that takes no further block (and
 * does not spend itself) takes itself off live_workers. It exits only when the mode is not PAUSE
 * and either live_workers is 0 or the word's epoch is greater than its launch's; it checks about
 * every `stay` nanoseconds. So none of the launch's SMs is emptied while other workers still pause,
 * and no launch behind it starts while a request runs. The wait ends: it is only for workers that
 * have started, which wait for no worker that has not, since no block is left for one; and for the
 * host to take the mode back, which it always does. 0 is always right. */

/* Unsigned division by a constant d of a number n < 2^31: (n * multiplier) >> shift in 64 bits. */
struct tally_divisor {
  uint32_t multiplier;
  uint32_t shift;
};

/* Header of the block that worker i = (physical %ctaid.x) of a checkpoint launch saves. Its slot,
 * at params.save_area + i * params.save_stride, has the block's shared memory and the records of
 * its threads. This header is at params.save_area - (i + 1) * sizeof(struct tally_save_slot), so
 * that its place does not depend on the stride; where launches of several kernels share an area,
 * only headers are ever there. The headers are filled with zeros at first. A header is written only
 * by a worker that leaves with a saved block and by the worker that goes on with the block, which
 * clears it. So launches behind one another, of which all but the first run nothing under an old
 * epoch, can share an area. The header records the epoch of the save, and params.resume names the
 * launch to resume: a worker whose header matches params.resume goes on with the saved block first,
 * whatever the epoch, at least to the next poll. A resuming launch has at least as many workers as
 * the launch that it resumes. */
struct tally_save_slot {
  uint32_t launch; /* TALLY_SAVED_UNDER(epoch of the launch that saved) */
  uint32_t block;  /* the virtual block's linear id */
  uint32_t point;  /* where the block stopped, as the kernel numbers its points */
  uint32_t reserved[13];
};
/* Never 0. Two epochs that a slot could have been saved under are less than 2^31 apart. */
#define TALLY_SAVED_UNDER(epoch) ((uint32_t)(epoch) | 0x80000000u)

/* tally's own parameters, the same for every kind; 104 bytes, 8-byte aligned, at
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
  uint32_t blocks;    /* guard, kinds with workers: number of virtual blocks, < 2^31 */
  uint32_t resume;    /* checkpoint: TALLY_SAVED_UNDER() of the launch whose saved blocks this
                         launch goes on with; 0: there are none */
  struct tally_divisor by_grid_x; /* guard resume, guard with tickets, kinds with workers: linear id
                                     -> x and the rest */
  struct tally_divisor by_grid_y; /* the rest -> y and z */
  uint64_t save_area;             /* checkpoint: a slot for each worker, 256-byte aligned; the
                                     headers lie before it */
  uint32_t save_stride;           /* checkpoint: bytes of a slot, a multiple of 256 */
  uint32_t stay;                  /* pause: 0, or nanoseconds: see above */
};

/* The largest number of virtual blocks that one launch of a guard or of workers takes; a larger
 * grid is sliced first. */
#define TALLY_MAX_VIRTUAL_BLOCKS 0x7fffffffu

#ifdef __cplusplus
static_assert(sizeof(tally_launch_state) == 64);
static_assert(sizeof(tally_launch_params) == 104);
static_assert(sizeof(tally_save_slot) == 64);
static_assert(offsetof(tally_launch_params, grid) == 40);
static_assert(offsetof(tally_launch_params, offset) == 52);
static_assert(offsetof(tally_launch_params, blocks) == 64);
static_assert(offsetof(tally_launch_params, by_grid_x) == 72);
static_assert(offsetof(tally_launch_params, by_grid_y) == 80);
static_assert(offsetof(tally_launch_params, save_area) == 88);
static_assert(offsetof(tally_launch_params, save_stride) == 96);
static_assert(offsetof(tally_launch_params, stay) == 100);
static_assert(offsetof(tally_launch_state, saved) == 12);
#endif

#endif
