// An enabled program in front of an enabled library.
#include <cuda_runtime_api.h>

extern "C" int product(cudaStream_t stream, const float *a, const float *b, float *c, int count);
extern "C" int test(int (*product)(void *, const float *, const float *, float *, int));
extern "C" int run();
int main() {
  int failed =
      test(reinterpret_cast<int (*)(void *, const float *, const float *, float *, int)>(&product));
  return run() | failed;
}
