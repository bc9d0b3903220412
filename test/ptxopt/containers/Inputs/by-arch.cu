// Kernels that differ between architectures: one reads the grid's number on sm_90 only, one is
// launched in clusters there.
__global__ void same(int *values) { values[blockIdx.x] += 1; }

__global__ void different(unsigned long long *values) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mov.u64 %0, %gridid;" : "=l"(values[blockIdx.x]));
#else
  values[blockIdx.x] = 1;
#endif
}

#if __CUDA_ARCH__ < 900
__global__ void onlyOld(int *values) { values[blockIdx.x] = 2; }
#endif

#if __CUDA_ARCH__ >= 900
__cluster_dims__(2, 1, 1)
#endif
    __global__ void inClusters(int *values) {
  values[blockIdx.x] = 3;
}
