/* A library in place of the preloaded one: it appends the name of each program that loads it to a
 * file. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((constructor)) static void record(void) {
  const char *path = getenv("LAUNCHER_TEST_RECORD");
  char line[256];
  int file = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666) : -1;
  if (file < 0)
    return;
  strncpy(line, program_invocation_short_name, sizeof line - 2);
  line[sizeof line - 2] = 0;
  strcat(line, "\n");
  if (write(file, line, strlen(line)) < 0)
    _exit(99);
  close(file);
}
