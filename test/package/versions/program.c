/* program BUNDLE FOLDER: uses the structures of the C interface. PROGRAM is the version of the
 * headers that it is compiled with, LIBRARY the version of the library: 0 older, 1 today's, 2
 * newer. */
#include "tally/report.h"
#include "tally/tally.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures = 0;

static void check(int condition, const char *what) {
  if (!condition) {
    printf("not so: %s (last error: %s)\n", what, tally_last_error());
    ++failures;
  }
}
#define CHECK(condition) check(condition, #condition)

/* A structure, and the bytes behind it in the program's memory, which no call may write to. */
#define GUARDED(type)                                                                              \
  struct {                                                                                         \
    type known;                                                                                    \
    unsigned char behind[64];                                                                      \
  }
static int all(const void *bytes, size_t count, unsigned char value) {
  const unsigned char *byte = (const unsigned char *)bytes;
  while (count != 0 && byte[count - 1] == value)
    --count;
  return count == 0;
}
/* All bits set, except the size. */
#define PREPARE(guarded)                                                                           \
  (memset(&(guarded), 0xff, sizeof(guarded)), (guarded).known.size = sizeof(guarded).known)
#if PROGRAM > LIBRARY
#define CHECK_MADE_UP(known) CHECK((known).made_up_number == 0 && (known).made_up_text == NULL)
#else
#define CHECK_MADE_UP(known)
#endif
#define CHECK_GUARDED(guarded)                                                                     \
  do {                                                                                             \
    CHECK((guarded).known.size == sizeof(guarded).known);                                          \
    CHECK(all((guarded).behind, sizeof(guarded).behind, 0xff));                                    \
    CHECK_MADE_UP((guarded).known);                                                                \
  } while (0)

static int decided = 0;
static uint64_t ran = 0;
/* A program with a newer header than the library must check the sizes: it finds no field that the
 * library lacks. */
static void decide(void *state, const tally_policy_snapshot *snapshot,
                   tally_policy_decision *decision) {
  ++decided;
  CHECK(state == &decided);
  CHECK((PROGRAM > LIBRARY) == (sizeof *snapshot > snapshot->size));
  CHECK((PROGRAM > LIBRARY) == (sizeof *decision > decision->size));
#if PROGRAM > 0
  for (size_t i = 0; i < snapshot->client_count; ++i) {
    const tally_client_progress *client =
        (const tally_client_progress *)((const char *)snapshot->clients +
                                        i * snapshot->client_size);
    CHECK(client->size == snapshot->client_size);
    ran = client->ran_nanoseconds > ran ? client->ran_nanoseconds : ran;
  }
#endif
  decision->run_best_effort = snapshot->high_priority_active == 0;
}

/* The library's error for a set field that the library does not know. */
static void check_unknown(tally_options options) {
#if PROGRAM > LIBRARY
  tally_runtime *runtime = NULL;
  tally_policy policy = *options.custom_policy;
  options.made_up_number = 1;
  CHECK(tally_open(&options, &runtime) == TALLY_INVALID);
  CHECK(strstr(tally_last_error(), "sets what this library does not know") != NULL);
  options.made_up_number = 0;
  policy.made_up_text = "";
  options.custom_policy = &policy;
  CHECK(tally_open(&options, &runtime) == TALLY_INVALID);
  CHECK(strstr(tally_last_error(), "custom_policy: ") != NULL);
  CHECK(runtime == NULL);
#else
  (void)options;
#endif
}

static void check_launch(tally_runtime *runtime, const char *bundle) {
  struct {
    tally_device_pointer x, y;
    float a;
    int n;
  } arguments = {0, 0, 3, 64};
  float values[64], back[64];
  tally_launch_shape shape = tally_shape(2, 32);
  tally_module module = 0;
  tally_kernel kernel = 0;
  tally_client client = 0;
  tally_stream stream = 0;
  int i;
  for (i = 0; i < 64; ++i)
    values[i] = 2;
  CHECK(tally_load(runtime, bundle, &module) == TALLY_OK);
  CHECK(tally_find_kernel(runtime, module, "scale_add", &kernel) == TALLY_OK);
  CHECK(tally_create_client(runtime, TALLY_CLASS_BEST_EFFORT, "trainer", &client) == TALLY_OK);
  CHECK(tally_create_stream(runtime, client, &stream) == TALLY_OK);
  CHECK(tally_allocate(runtime, sizeof values, &arguments.x) == TALLY_OK);
  CHECK(tally_allocate(runtime, sizeof values, &arguments.y) == TALLY_OK);
  CHECK(tally_copy_to_device(runtime, stream, arguments.x, values, sizeof values) == TALLY_OK);
  CHECK(tally_copy_to_device(runtime, stream, arguments.y, values, sizeof values) == TALLY_OK);
  CHECK(tally_launch(runtime, stream, kernel, &shape, &arguments, sizeof arguments) == TALLY_OK);
  CHECK(tally_copy_to_host(runtime, stream, back, arguments.x, sizeof back) == TALLY_OK);
  CHECK(tally_synchronize(runtime, stream) == TALLY_OK);
  CHECK(back[0] == 8 && back[63] == 8);
#if PROGRAM > LIBRARY
  shape.made_up_number = 1;
  CHECK(tally_launch(runtime, stream, kernel, &shape, &arguments, sizeof arguments) ==
        TALLY_INVALID);
#endif
}

int main(int count, char **given) {
  GUARDED(tally_device_info) info;
  GUARDED(tally_statistics) statistics;
  GUARDED(tally_client_report) client;
  tally_options options = tally_default_options();
  tally_policy policy;
  tally_runtime *runtime = NULL;
  tally_report *report = NULL;
  if (count < 3)
    return 2;
  memset(&policy, 0, sizeof policy);
  policy.size = sizeof policy;
  policy.state = &decided;
  policy.decide = decide;
#if PROGRAM > 0
  policy.uses_clients = 1;
#endif
  options.device = "emulator";
  options.emulator_sms = 3;
  options.emulator_uuid = "versions";
  options.arena = given[2];
  options.custom_policy = &policy;
  check_unknown(options);
  CHECK(tally_open(&options, &runtime) == TALLY_OK);
  if (!runtime)
    return 1;
  PREPARE(info);
  CHECK(tally_get_device_info(runtime, &info.known) == TALLY_OK);
  CHECK_GUARDED(info);
  CHECK(info.known.sms == 3 && strcmp(info.known.uuid, "versions") == 0);
  check_launch(runtime, given[1]);
  PREPARE(statistics);
  CHECK(tally_get_statistics(runtime, &statistics.known) == TALLY_OK);
  CHECK_GUARDED(statistics);
  CHECK(statistics.known.best_effort_launches == 1);
  CHECK(decided > 0 && (PROGRAM == 0 || ran > 0));
  CHECK(tally_read_report(given[2], NULL, &report) == TALLY_OK);
  PREPARE(client);
  CHECK(tally_report_client(report, 0, 0, &client.known) == TALLY_OK);
  CHECK_GUARDED(client);
  CHECK(client.known.pid != 0 && client.known.client_class == TALLY_CLASS_BEST_EFFORT);
  tally_free_report(report);
  tally_close(runtime);
  return failures == 0 ? 0 : 1;
}
