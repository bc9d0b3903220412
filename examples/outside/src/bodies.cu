// Bodies that attract each other; force.cu is another translation unit.
#include "force.h"
#include "parts.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace {

constexpr int blockSize = 64;

__global__ void accelerate(const float4 *bodies, float3 *accelerations, int count) {
  __shared__ float4 tile[blockSize];
  int mine = blockIdx.x * blockSize + threadIdx.x;
  float4 at = mine < count ? bodies[mine] : make_float4(0, 0, 0, 0);
  float3 sum = make_float3(0, 0, 0);
  for (int first = 0; first < count; first += blockSize) {
    int other = first + threadIdx.x;
    tile[threadIdx.x] = other < count ? bodies[other] : make_float4(0, 0, 0, 0);
    __syncthreads();
    for (int i = 0; i < blockSize; ++i) {
      float3 each = accelerationBy(at, tile[i]);
      sum.x += each.x;
      sum.y += each.y;
      sum.z += each.z;
    }
    __syncthreads();
  }
  if (mine >= count)
    return;
  accelerations[mine] = sum;
  countInteractions(count);
}

/// One step of time. It calls no function of another unit, so this kernel can be interrupted.
/// accelerate cannot, since the code of accelerationBy is known only when the device code is
/// linked.
__global__ void move(const float4 *bodies, const float3 *accelerations, float4 *moved, int count) {
  int mine = blockIdx.x * blockSize + threadIdx.x;
  if (mine >= count)
    return;
  float4 at = bodies[mine];
  float3 by = accelerations[mine];
  moved[mine] =
      make_float4(at.x + softening * by.x, at.y + softening * by.y, at.z + softening * by.z, at.w);
  if (threadIdx.x == 0)
    atomicAdd(&interactions, 1ull);
}

std::vector<float4> someBodies(int count) {
  std::vector<float4> bodies(count);
  for (int i = 0; i < count; ++i) {
    auto coordinate = [&](unsigned salt) {
      return static_cast<float>((i + salt) * 2654435761u % 2000) / 1000 - 1;
    };
    bodies[i] = make_float4(coordinate(1), coordinate(77), coordinate(4001), 1.0f / count);
  }
  return bodies;
}

/// Largest error of an acceleration against the CPU's, over the largest acceleration.
double compare(const std::vector<float4> &bodies, const std::vector<float3> &found, float soft) {
  double worst = 0, largest = 0;
  for (std::size_t i = 0; i < bodies.size(); i += 7) {
    double sum[3] = {};
    for (const float4 &other : bodies) {
      double x = double(other.x) - bodies[i].x, y = double(other.y) - bodies[i].y,
             z = double(other.z) - bodies[i].z;
      double strength = other.w / std::pow(x * x + y * y + z * z + soft, 1.5);
      sum[0] += x * strength, sum[1] += y * strength, sum[2] += z * strength;
    }
    const double got[3] = {found[i].x, found[i].y, found[i].z};
    for (int k = 0; k < 3; ++k) {
      worst = std::max(worst, std::fabs(sum[k] - got[k]));
      largest = std::max(largest, std::fabs(sum[k]));
    }
  }
  return worst / largest;
}

} // namespace

bool runBodies(int size) {
  int count = size * 4 + 3;
  std::vector<float4> bodies = someBodies(count);
  const float soft = 0.01f;
  unsigned long long none = 0, seen = 0;
  CHECK(cudaMemcpyToSymbol(softening, &soft, sizeof(soft)));
  CHECK(cudaMemcpyToSymbol(interactions, &none, sizeof(none)));
  float4 *device, *moved;
  float3 *accelerations;
  CHECK(cudaMalloc(&device, count * sizeof(float4)));
  CHECK(cudaMalloc(&moved, count * sizeof(float4)));
  CHECK(cudaMalloc(&accelerations, count * sizeof(float3)));
  CHECK(cudaMemcpy(device, bodies.data(), count * sizeof(float4), cudaMemcpyHostToDevice));
  constexpr unsigned repeats = 3;
  unsigned blocks = (count + blockSize - 1) / blockSize;
  for (unsigned i = 0; i < repeats; ++i) {
    accelerate<<<blocks, blockSize>>>(device, accelerations, count);
    move<<<blocks, blockSize>>>(device, accelerations, moved, count);
  }
  CHECK(cudaGetLastError());
  std::vector<float3> found(count);
  std::vector<float4> places(count);
  CHECK(cudaMemcpy(places.data(), moved, count * sizeof(float4), cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(found.data(), accelerations, count * sizeof(float3), cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpyFromSymbol(&seen, interactions, sizeof(seen)));
  CHECK(cudaFree(device));
  CHECK(cudaFree(moved));
  CHECK(cudaFree(accelerations));

  double worst = compare(bodies, found, soft);
  for (int i = 0; i < count; ++i)
    worst = std::max(worst, std::fabs(double(bodies[i].x) + soft * found[i].x - places[i].x));
  if (seen != repeats * (static_cast<unsigned long long>(count) * count + blocks))
    worst = INFINITY; // blocks were lost or ran twice
  return report("bodies", std::to_string(count) + " bodies, moved three times, across units", worst,
                1e-4, hashOf(found.data(), count * sizeof(float3)));
}
