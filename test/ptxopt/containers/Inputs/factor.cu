// Defines what main-of-two.cu refers to.
__device__ int factor = 2;
