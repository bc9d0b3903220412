/* Stands for libnvJitLink.so.13: a link of one PTX, whose "machine code" is what the emulated
   driver
   (../driver/machine_code.h) takes for such. */
#include <elf.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct link {
  char *code;
  size_t bytes;
};

int __nvJitLinkCreate_13_0(struct link **link, uint32_t count, const char **options) {
  (void)count;
  (void)options;
  *link = calloc(1, sizeof **link);
  return *link ? 0 : 1;
}
int __nvJitLinkAddData_13_0(struct link *link, int kind, const void *data, size_t bytes,
                            const char *name) {
  (void)name;
  Elf64_Ehdr header = {{0x7f, 'E', 'L', 'F', ELFCLASS64}};
  if (kind != 2 || link->code)
    return 1;
  memcpy(header.e_ident + EI_PAD, "emulate", 7);
  link->bytes = sizeof header + bytes + 1;
  header.e_shoff = link->bytes;
  link->code = calloc(1, link->bytes);
  memcpy(link->code, &header, sizeof header);
  memcpy(link->code + sizeof header, data, bytes);
  return 0;
}
int __nvJitLinkComplete_13_0(struct link *link) { return link->code ? 0 : 1; }
int __nvJitLinkGetLinkedCubinSize_13_0(struct link *link, size_t *bytes) {
  *bytes = link->bytes;
  return 0;
}
int __nvJitLinkGetLinkedCubin_13_0(struct link *link, void *to) {
  memcpy(to, link->code, link->bytes);
  return 0;
}
int __nvJitLinkDestroy_13_0(struct link **link) {
  free((*link)->code);
  free(*link);
  *link = NULL;
  return 0;
}
