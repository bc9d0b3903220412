// Gravity, as device code that other translation units call: it needs device linking (-rdc=true).
#ifndef OUTSIDE_FORCE_H
#define OUTSIDE_FORCE_H

/// Defined in force.cu, set by bodies.cu from the host.
extern __constant__ float softening;
/// Pairs of bodies that all threads have computed.
extern __device__ unsigned long long interactions;

/// Acceleration of a body at `at` by a body at `other`, whose mass is other.w.
__device__ float3 accelerationBy(float4 at, float4 other);
/// Adds to `interactions`.
__device__ void countInteractions(unsigned count);

#endif
