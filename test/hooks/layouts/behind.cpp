// The enabled library calls a product in a library that it is linked with.
extern "C" int product(void *stream, const float *a, const float *b, float *c, int count);
extern "C" int test(int (*product)(void *, const float *, const float *, float *, int));
extern "C" int run() { return test(&product); }
