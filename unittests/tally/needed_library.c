/* A library that loads others into a namespace of their own. */
#define _GNU_SOURCE
#include <dlfcn.h>

void *launcher_needed(const char *file);
void *launcher_needed(const char *file) { return dlmopen(LM_ID_NEWLM, file, RTLD_NOW); }
