// Best-effort work for a program that is not compiled by nvcc: kernels of blocks of a given time,
// on a stream of the lowest priority, from a thread of their own.
#ifndef TALLY_BENCHMARKS_HOOKS_TRAINING_LOAD_H
#define TALLY_BENCHMARKS_HOOKS_TRAINING_LOAD_H

#include <cstddef>

/// One at a time. `blocks` of a kernel, each of which takes `blockMicroseconds` on a full GPU.
void startTraining(unsigned blocks, double blockMicroseconds);
/// When all that was launched is over. Returns how many results are wrong.
std::size_t stopTraining();

#endif
