// A barrier in a loop whose trip count each thread loads for itself, from one address.
extern "C" __global__ void barrier_data_loop(unsigned *out, const unsigned *trips) {
  __shared__ unsigned tile[32];
  unsigned value = threadIdx.x;
  unsigned turns = trips[blockIdx.x];
  for (unsigned t = 0; t < turns % 8; ++t) {
    tile[threadIdx.x] = value;
    __syncthreads();
    value += tile[(threadIdx.x + 1) % blockDim.x];
    __syncthreads();
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = value;
}
