// Shuffles and votes by whole warps; no block barrier.
extern "C" __global__ void warp_reduce(unsigned *out, const unsigned *in) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned value = in[i], sum = value;
  for (int offset = 16; offset > 0; offset /= 2)
    sum += __shfl_down_sync(~0u, sum, offset);
  unsigned odd = __ballot_sync(~0u, value & 1);
  unsigned first = __shfl_sync(~0u, sum, 0);
  out[i] = first ^ odd ^ __shfl_up_sync(~0u, value, 2) ^ blockIdx.x;
}
