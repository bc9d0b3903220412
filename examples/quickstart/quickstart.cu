// x = a x + y, the quickstart's kernel. Grid: ceil(count / 256). Block: 256.
extern "C" __global__ void scale_add(float *x, const float *y, float a, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count)
    x[i] = a * x[i] + y[i];
}
