/* A library in place of libnvrtc.so.13: the "machine code" of its one program is PTX that the
 * emulator's driver loads. The PTX of the program is another text, which has one kernel more. */
#include <stddef.h>
#include <string.h>

#define KERNEL(name) ".visible .entry " name "(.param .u64 y)\n{\n\tret;\n}\n"
static const char code[] = ".version 8.0\n.target sm_80\n.address_size 64\n" KERNEL("compiled");
static const char ptx[] = ".version 8.0\n.target sm_80\n.address_size 64\n" KERNEL("compiled")
    KERNEL("marker_of_the_ptx");

int nvrtcGetCUBINSize(void *program, size_t *bytes) {
  (void)program;
  *bytes = strlen(code);
  return 0;
}
int nvrtcGetCUBIN(void *program, char *to) {
  (void)program;
  memcpy(to, code, strlen(code));
  return 0;
}
int nvrtcGetPTXSize(void *program, size_t *bytes) {
  (void)program;
  *bytes = sizeof ptx;
  return 0;
}
int nvrtcGetPTX(void *program, char *to) {
  (void)program;
  memcpy(to, ptx, sizeof ptx);
  return 0;
}
