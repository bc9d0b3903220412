#include "force.h"

__constant__ float softening;
__device__ unsigned long long interactions;

__device__ __noinline__ float3 accelerationBy(float4 at, float4 other) {
  float x = other.x - at.x, y = other.y - at.y, z = other.z - at.z;
  float square = x * x + y * y + z * z + softening;
  float inverse = 1.0f / sqrtf(square);
  float strength = other.w * inverse * inverse * inverse;
  return make_float3(x * strength, y * strength, z * strength);
}

__device__ __noinline__ void countInteractions(unsigned count) {
  atomicAdd(&interactions, static_cast<unsigned long long>(count));
}
