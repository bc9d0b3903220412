static_assert(__cplusplus == 201703L, "compiled in another dialect than the project's");

__global__ void set(int *p) { *p = 1; }

void launch(int *p) { set<<<1, 1>>>(p); }
