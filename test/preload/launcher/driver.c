/* A library in place of the driver: it answers as LAUNCHER_TEST_DRIVER says. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int cuDriverGetVersion(int *version);
int cuInit(unsigned flags);
int cuGetErrorName(int status, const char **name);
int cuDeviceGetCount(int *count);
int cuDeviceGet(int *device, int index);
int cuDeviceGetName(char *name, int size, int device);
int cuDeviceGetAttribute(int *value, int attribute, int device);

static int behaves(const char *how) {
  const char *set = getenv("LAUNCHER_TEST_DRIVER");
  return set && strcmp(set, how) == 0;
}

int cuDriverGetVersion(int *version) {
  if (behaves("crash"))
    abort();
  if (behaves("hang"))
    for (;;)
      pause();
  *version = 13010;
  return 0;
}

int cuInit(unsigned flags) {
  (void)flags;
  return behaves("empty") ? 100 : 0;
}

int cuGetErrorName(int status, const char **name) {
  *name = status == 100 ? "CUDA_ERROR_NO_DEVICE" : "CUDA_ERROR_UNKNOWN";
  return 0;
}

int cuDeviceGetCount(int *count) {
  *count = 2;
  return 0;
}

int cuDeviceGet(int *device, int index) {
  *device = index;
  return 0;
}

int cuDeviceGetName(char *name, int size, int device) {
  strncpy(name, device == 0 ? "Stub H100" : "Stub A10", (size_t)size);
  return 0;
}

int cuDeviceGetAttribute(int *value, int attribute, int device) {
  int major = attribute == 75; /* the compute capability's */
  *value = device == 0 ? (major ? 9 : 0) : (major ? 8 : 6);
  return 0;
}
