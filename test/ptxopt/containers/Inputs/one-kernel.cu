#include <cstdio>

__global__ void add(float *data, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    data[i] = data[i] + data[(i + 1) % n];
}

inline int count(int more) {
  static int sum = 1;
  sum += more;
  std::printf("%d", sum);
  return sum;
}

int main(int argc, char **) {
  float *data;
  cudaMalloc(&data, 4096);
  add<<<4, 64>>>(data, 200);
  count(argc);
}
