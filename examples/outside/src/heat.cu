// Heat spreading over a plate: a stencil with its weights in constant memory. Steps alternate
// between two buffers, and events time them.
#include "parts.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace {

constexpr int steps = 20;

/// Weights of the middle and of the four neighbours.
__constant__ float weights[2];

__global__ void step(const float *from, float *to, int width, int height) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height)
    return;
  int at = y * width + x;
  if (x == 0 || y == 0 || x == width - 1 || y == height - 1) {
    to[at] = from[at];
    return;
  }
  float sides = from[at - 1] + from[at + 1] + from[at - width] + from[at + width];
  to[at] = weights[0] * from[at] + weights[1] * sides;
}

std::vector<float> stepOnHost(const std::vector<float> &from, const float *weight, int width,
                              int height) {
  std::vector<float> to = from;
  for (int y = 1; y < height - 1; ++y)
    for (int x = 1; x < width - 1; ++x) {
      int at = y * width + x;
      float sides = from[at - 1] + from[at + 1] + from[at - width] + from[at + width];
      to[at] = weight[0] * from[at] + weight[1] * sides;
    }
  return to;
}

} // namespace

bool runHeat(int size) {
  int width = size, height = size / 2;
  std::vector<float> plate(static_cast<std::size_t>(width) * height);
  for (std::size_t i = 0; i < plate.size(); ++i)
    plate[i] = static_cast<float>(i * 2654435761u % 1000) / 10;
  const float weight[2] = {0.6f, 0.1f};
  std::size_t bytes = plate.size() * sizeof(float);

  float *buffers[2];
  for (float *&buffer : buffers)
    CHECK(cudaMalloc(&buffer, bytes));
  CHECK(cudaMemcpyToSymbol(weights, weight, sizeof(weight)));
  CHECK(cudaMemcpy(buffers[0], plate.data(), bytes, cudaMemcpyHostToDevice));
  cudaEvent_t begin, end;
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));

  dim3 block(32, 4), grid((width + 31) / 32, (height + 3) / 4);
  CHECK(cudaEventRecord(begin));
  for (int i = 0; i < steps; ++i)
    step<<<grid, block>>>(buffers[i % 2], buffers[1 - i % 2], width, height);
  CHECK(cudaGetLastError());
  CHECK(cudaEventRecord(end));
  CHECK(cudaEventSynchronize(end));
  float milliseconds = -1;
  CHECK(cudaEventElapsedTime(&milliseconds, begin, end));

  std::vector<float> result(plate.size());
  CHECK(cudaMemcpy(result.data(), buffers[steps % 2], bytes, cudaMemcpyDeviceToHost));
  for (float *buffer : buffers)
    CHECK(cudaFree(buffer));
  CHECK(cudaEventDestroy(begin));
  CHECK(cudaEventDestroy(end));

  for (int i = 0; i < steps; ++i)
    plate = stepOnHost(plate, weight, width, height);
  double worst = milliseconds < 0 ? INFINITY : 0;
  for (std::size_t i = 0; i < plate.size(); ++i)
    worst = std::max(worst, std::fabs(double(plate[i]) - result[i]));
  return report("heat", std::to_string(steps) + " steps", worst, 1e-3,
                hashOf(result.data(), bytes));
}
