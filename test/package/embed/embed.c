/* embed_c BUNDLE [ROUNDS [cuda]]: makes, uses and destroys all objects of a runtime again and
 * again, and checks the memory of the process. */
#include "tally/report.h"
#include "tally/tally.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

static void must(tally_status status, const char *what) {
  if (status != TALLY_OK) {
    printf("embed_c: %s: %s\n", what, tally_last_error());
    exit(1);
  }
}
#define MUST(call) must(call, #call)

typedef struct arguments {
  tally_device_pointer x, y;
  float a;
  int n;
} arguments;

static void round_of_one(tally_runtime *runtime, const char *path, tally_class client_class,
                         tally_device_pointer x, tally_device_pointer y) {
  const tally_launch_shape shape = tally_shape(1, 32);
  const arguments given = {x, y, 1.0f, 32};
  tally_module module;
  tally_kernel kernel;
  tally_client client;
  tally_stream stream, gone;
  MUST(tally_load(runtime, path, &module));
  MUST(tally_find_kernel(runtime, module, "scale_add", &kernel));
  MUST(tally_create_client(runtime, client_class, "again", &client));
  MUST(tally_create_stream(runtime, client, &stream));
  if (client_class == TALLY_CLASS_HIGH)
    MUST(tally_begin_request(runtime, client));
  MUST(tally_launch(runtime, stream, kernel, &shape, &given, sizeof given.x * 2 + 8));
  if (client_class == TALLY_CLASS_HIGH)
    MUST(tally_end_request(runtime, client));
  gone = stream;
  MUST(tally_destroy_stream(runtime, stream));
  if (tally_synchronize(runtime, gone) == TALLY_OK)
    must(TALLY_ERROR, "a stream that is gone can be synchronised");
  MUST(tally_destroy_client(runtime, client));
  MUST(tally_unload(runtime, module));
}

int main(int count, char **given) {
  const int rounds = count > 2 ? atoi(given[2]) : 10000;
  float values[32], one[32];
  tally_options options = tally_default_options();
  tally_runtime *runtime;
  tally_client client;
  tally_stream stream;
  tally_device_pointer x, y;
  size_t before = 0, after;
  int i;
  if (count < 2)
    return 2;
  for (i = 0; i < 32; ++i) {
    values[i] = 0;
    one[i] = 1;
  }
  options.device = count > 3 ? given[3] : "emulator";
  MUST(tally_open(&options, &runtime));
  MUST(tally_create_client(runtime, TALLY_CLASS_HIGH, "keeper", &client));
  MUST(tally_create_stream(runtime, client, &stream));
  MUST(tally_allocate(runtime, sizeof values, &x));
  MUST(tally_allocate(runtime, sizeof one, &y));
  MUST(tally_copy_to_device(runtime, stream, x, values, sizeof values));
  MUST(tally_copy_to_device(runtime, stream, y, one, sizeof one));
  MUST(tally_synchronize(runtime, stream));
  for (i = 0; i < rounds; ++i) {
    round_of_one(runtime, given[1], i % 2 ? TALLY_CLASS_HIGH : TALLY_CLASS_BEST_EFFORT, x, y);
    if (i == rounds / 10)
      before = mallinfo2().uordblks;
  }
  after = mallinfo2().uordblks;
  MUST(tally_copy_to_host(runtime, stream, values, x, sizeof values));
  MUST(tally_synchronize(runtime, stream));
  printf("%d rounds: the sum is %g, memory in use %zu KiB after a tenth, %zu KiB at the end\n",
         rounds, values[31], before / 1024, after / 1024);
  tally_close(runtime);
  return values[31] == (float)rounds && after < before + 256 * 1024 ? 0 : 1;
}
