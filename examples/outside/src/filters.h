// libfilters: a row filter on the device.
#ifndef OUTSIDE_FILTERS_H
#define OUTSIDE_FILTERS_H

#include <cuda_runtime.h>

constexpr int filterRadius = 4;

/// Sets the taps (2 * filterRadius + 1 of them), in `stream`'s order.
cudaError_t setFilter(const float *taps, cudaStream_t stream);
/// `output[y][x]` = sum of the taps over `input[y][x - radius .. x + radius]`, with 0 outside. The
/// two arrays are device memory and must not overlap. Runs in `stream`'s order.
cudaError_t filterRows(const float *input, float *output, int width, int height,
                       cudaStream_t stream);
/// Sum of `count` floats, written to `*sum` on the device; in `stream`'s order.
cudaError_t sumOf(const float *input, int count, float *sum, cudaStream_t stream);

#endif
