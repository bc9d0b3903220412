// Shared memory without any block barrier. Each warp has a row of its own, and the block decides
// which. A worker that starts its next block while another warp still runs the previous one
// overwrites that warp's row.
extern "C" __global__ void shared_reuse(unsigned *out, const unsigned *in) {
  __shared__ volatile unsigned rows[4][32];
  unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  unsigned row = (warp + blockIdx.x) % 4;
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  rows[row][lane] = in[i];
  __syncwarp();
  unsigned sum = 0;
  for (unsigned j = 0; j <= 8 * warp; ++j)
    sum = sum * 17 + rows[row][(lane + j) % 32];
  out[i] = sum;
}
