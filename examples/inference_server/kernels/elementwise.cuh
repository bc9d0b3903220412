// Kernels whose threads work alone: no barrier, surplus threads return early.
#ifndef INFERENCE_SERVER_KERNELS_ELEMENTWISE_CUH
#define INFERENCE_SERVER_KERNELS_ELEMENTWISE_CUH

// out[row] = table[token of row] + positions[row's position]. Grid: ceil(columns / 128), rows.
// Block: 128.
extern "C" __global__ void embed(const int *tokens, const float *table, const float *positions,
                                 float *out, int sequence, int columns) {
  int column = blockIdx.x * 128 + threadIdx.x;
  if (column >= columns)
    return;
  int row = blockIdx.y;
  out[row * columns + column] =
      table[tokens[row] * columns + column] + positions[row % sequence * columns + column];
}

// x = GELU(x), the exact form with the error function. Grid: ceil(count / 256). Block: 256.
extern "C" __global__ void gelu(float *x, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count)
    return;
  float value = x[i];
  x[i] = 0.5f * value * (1.0f + erff(value * 0.70710678f));
}

// x += y, with a grid of any size. Block: any.
extern "C" __global__ void add_residual(float *x, const float *y, int count) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
    x[i] += y[i];
}

// x = max(x, 0). Grid: ceil(count / 256). Block: 256.
extern "C" __global__ void relu(float *x, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count)
    return;
  x[i] = fmaxf(x[i], 0.0f);
}

// gradient = 0 where the activation was cut off. Grid: ceil(count / 256). Block: 256.
extern "C" __global__ void relu_backward(float *gradient, const float *activation, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count)
    return;
  if (activation[i] <= 0.0f)
    gradient[i] = 0.0f;
}

// weights -= rate * gradient. Grid: ceil(count / 256). Block: 256.
extern "C" __global__ void sgd_update(float *weights, const float *gradient, float rate,
                                      int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count)
    return;
  weights[i] -= rate * gradient[i];
}

#endif
