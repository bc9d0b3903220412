// Defines the variable that main-of-two.cu reads.
__device__ int factor = 2;
