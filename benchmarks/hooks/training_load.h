// Best-effort work for a program that nvcc does not compile: kernels of blocks of a given time, on
// a stream of the lowest priority, from a thread of their own.
#ifndef TALLY_BENCHMARKS_HOOKS_TRAINING_LOAD_H
#define TALLY_BENCHMARKS_HOOKS_TRAINING_LOAD_H

#include <cstddef>

/// Starts one training at a time. A kernel has `blocks` blocks, each of which takes
/// `blockMicroseconds` on a full GPU.
void startTraining(unsigned blocks, double blockMicroseconds);
/// Ends the training and waits for all launches. Returns the number of wrong results.
std::size_t stopTraining();

#endif
