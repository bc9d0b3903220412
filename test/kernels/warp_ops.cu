// Shuffles and votes, whole and partial warps; no block barrier.
extern "C" __global__ void warp_ops(unsigned *out, const unsigned *in) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned lane = threadIdx.x % 32, value = in[i];
  unsigned mask = __ballot_sync(~0u, value & 1);
  unsigned sum = value;
  for (int offset = 16; offset > 0; offset /= 2)
    sum += __shfl_xor_sync(~0u, sum, offset);
  unsigned up = __shfl_up_sync(~0u, value, 1), down = __shfl_down_sync(~0u, value, 3, 8);
  unsigned first = __shfl_sync(~0u, value, blockIdx.x % 32);
  unsigned any = __any_sync(~0u, value > ~0u / 2), all = __all_sync(~0u, value > 5);
  if (lane < 13)
    up += __shfl_sync(0x1fff, sum, 12 - lane);
  out[i] = (mask ^ sum ^ up * 3 ^ down * 5) + first + any * 7 + all * 11;
}
