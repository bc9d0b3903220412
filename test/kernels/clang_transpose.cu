// Compiled by clang: a tiled transpose, two-dimensional grid, barriers, a tail in both directions.
#define GLOBAL __attribute__((global))
#define SHARED __attribute__((shared))
extern "C" GLOBAL void clang_transpose(float *out, const float *in, unsigned width,
                                       unsigned height) {
  static SHARED float tile[8][9];
  unsigned tx = __nvvm_read_ptx_sreg_tid_x(), ty = __nvvm_read_ptx_sreg_tid_y();
  unsigned bx = __nvvm_read_ptx_sreg_ctaid_x() * 8, by = __nvvm_read_ptx_sreg_ctaid_y() * 8;
  if (bx + tx < width && by + ty < height)
    tile[ty][tx] = in[(by + ty) * width + bx + tx];
  __syncthreads();
  if (by + tx < height && bx + ty < width)
    out[(bx + ty) * height + by + tx] = tile[tx][ty];
}
