/* Compiles the C header as C, and makes its calls from C. */
#include "tally/tally.h"

#include <stdio.h>
#include <string.h>

static int failures = 0;

static void check(int condition, const char *what) {
  if (!condition) {
    printf("failed: %s (last error: %s)\n", what, tally_last_error());
    ++failures;
  }
}
#define CHECK(condition) check(condition, #condition)

static void checkErrors(void) {
  tally_runtime *runtime = NULL;
  tally_options options;
  tally_client client = 6;
  tally_stream stream = 5;
  const tally_launch_shape one = tally_shape(1, 1);
  options = tally_default_options();
  options.device = "abacus";
  CHECK(strcmp(tally_last_error(), "") == 0);
  CHECK(tally_open(&options, &runtime) == TALLY_ERROR);
  CHECK(strcmp(tally_last_error(), "unknown device 'abacus'; there are 'cuda' and 'emulator'") ==
        0);
  CHECK(runtime == NULL);
  options.device = "emulator";
  options.policy = "sloth";
  CHECK(tally_open(&options, &runtime) == TALLY_ERROR);
  CHECK(strcmp(tally_last_error(),
               "unknown policy 'sloth'; there are priority, slo, partition, rate, share") == 0);
  options.policy = "slo";
  options.hysteresis_nanoseconds = 5;
  CHECK(tally_open(&options, &runtime) == TALLY_ERROR);
  options.hysteresis_nanoseconds = 0;
  options.sms_of_non_preemptible = 4;
  CHECK(tally_open(&options, &runtime) == TALLY_ERROR);
  CHECK(strstr(tally_last_error(), "SMs") != NULL);
  options.sms_of_non_preemptible = 0;
  options.profiling = 3;
  CHECK(tally_open(&options, &runtime) == TALLY_ERROR);
  options.profiling = 1;
  CHECK(tally_open(&options, &runtime) == TALLY_OK);
  tally_close(runtime);
  runtime = NULL;
  CHECK(tally_open(&options, NULL) == TALLY_INVALID);
  CHECK(strncmp(tally_last_error(), "tally_open: ", 12) == 0);
  CHECK(tally_create_client(NULL, TALLY_CLASS_HIGH, "server", &client) == TALLY_INVALID);
  CHECK(client == 6);
  CHECK(tally_create_stream(NULL, client, &stream) == TALLY_INVALID);
  CHECK(stream == 5);
  CHECK(tally_launch(NULL, stream, 0, &one, NULL, 0) == TALLY_INVALID);
  CHECK(strncmp(tally_last_error(), "tally_launch: ", 14) == 0);
  tally_close(NULL);
}

/* Options that contradict each other, and the handles of a closed runtime. */
static void checkSettings(void) {
  tally_runtime *runtime = NULL;
  tally_options options;
  FILE *file;
  char start[2] = {0};
  options = tally_default_options();
  options.device = "emulator";
  options.arena_group = "nogroup";
  CHECK(tally_open(&options, &runtime) == TALLY_ERROR);
  CHECK(strcmp(tally_last_error(), "arena_group means nothing without `arena`") == 0);
  options.arena_group = NULL;
  options.best_effort_only = 1;
  CHECK(tally_open(&options, &runtime) == TALLY_ERROR);
  options.best_effort_only = 0;
  options.best_effort_class = 2;
  CHECK(tally_open(&options, &runtime) == TALLY_ERROR);
  CHECK(strcmp(tally_last_error(), "best_effort_class means nothing without `arena`") == 0);
  options.arena = "";
  options.best_effort_class = 5;
  CHECK(tally_open(&options, &runtime) == TALLY_ERROR);
  CHECK(strstr(tally_last_error(), "bestEffortClass is 5; allowed are 1 to 4") != NULL);
  options.arena = NULL;
  options.best_effort_class = 0;
  options.bound_nanoseconds = 999;
  CHECK(tally_open(&options, &runtime) == TALLY_ERROR);
  options.bound_nanoseconds = 0;
  options.drain_milliseconds = 600001;
  CHECK(tally_open(&options, &runtime) == TALLY_ERROR);
  CHECK(strstr(tally_last_error(), "600000") != NULL);
  options.drain_milliseconds = 0;
  CHECK(tally_open(&options, &runtime) == TALLY_OK);
  CHECK(tally_write_trace(runtime) == TALLY_ERROR);
  tally_close(runtime);
  options.trace = "c_api_test_trace.json";
  options.trace_events = 100;
  CHECK(tally_open(&options, &runtime) == TALLY_OK);
  CHECK(tally_write_trace(runtime) == TALLY_OK);
  remove(options.trace);
  tally_close(runtime);
  file = fopen(options.trace, "r");
  CHECK(file != NULL && fread(start, 1, 1, file) == 1 && start[0] == '{');
  if (file)
    fclose(file);
  remove(options.trace);
}

static void checkStream(tally_runtime *runtime, tally_class client_class) {
  tally_client client = 0;
  tally_stream stream = 0;
  tally_device_pointer memory = 0;
  uint32_t in[64], out[64];
  int i;
  for (i = 0; i < 64; ++i)
    in[i] = (uint32_t)i * 3;
  memset(out, 0, sizeof out);
  CHECK(tally_create_client(runtime, client_class, NULL, &client) == TALLY_OK);
  CHECK(tally_create_stream(runtime, client, &stream) == TALLY_OK);
  CHECK(tally_allocate(runtime, sizeof in, &memory) == TALLY_OK);
  CHECK(tally_copy_to_device(runtime, stream, memory, in, sizeof in) == TALLY_OK);
  CHECK(tally_fill(runtime, stream, memory, 0xff, sizeof(uint32_t)) == TALLY_OK);
  CHECK(tally_copy_to_host(runtime, stream, out, memory, sizeof out) == TALLY_OK);
  CHECK(tally_synchronize(runtime, stream) == TALLY_OK);
  CHECK(out[0] == 0xffffffffu);
  CHECK(memcmp(in + 1, out + 1, sizeof in - sizeof in[0]) == 0);
  CHECK(tally_free(runtime, memory) == TALLY_OK);
  CHECK(tally_free(runtime, memory) == TALLY_ERROR);
}

/* A program with an older header: its structures end before the newest fields, and the bytes behind
 * them do not belong to them. And a program with a newer header. */
static void checkGrowth(void) {
  struct newer {
    tally_options known;
    uint64_t added;
  } newer;
  struct older {
    size_t size;
    uint64_t high_priority_launches;
    uint64_t behind;
  } older = {sizeof(size_t) + sizeof(uint64_t), 7, 0xabab};
  struct grown {
    tally_statistics known;
    uint64_t added;
  } grown;
  tally_runtime *runtime = NULL;
  tally_options options = tally_default_options();
  options.device = "emulator";
  options.drain_milliseconds = 600001; /* wrong, and behind the end of the older structure */
  options.arena = "/nonexistent/arena";
  options.size = offsetof(tally_options, arena);
  CHECK(tally_open(&options, &runtime) == TALLY_OK);
  /* Its statistics are as old. */
  CHECK(tally_get_statistics(runtime, (tally_statistics *)&older) == TALLY_OK);
  CHECK(older.size == sizeof(size_t) + sizeof(uint64_t));
  CHECK(older.high_priority_launches == 0);
  CHECK(older.behind == 0xabab);
  memset(&grown, 0xff, sizeof grown);
  grown.known.size = sizeof grown;
  CHECK(tally_get_statistics(runtime, &grown.known) == TALLY_OK);
  CHECK(grown.known.size == sizeof grown);
  CHECK(grown.known.turnarounds == 0);
  CHECK(grown.added == 0);
  tally_close(runtime);
  runtime = NULL;
  options.size = 0;
  CHECK(tally_open(&options, &runtime) == TALLY_INVALID);
  CHECK(strstr(tally_last_error(), "size is wrong") != NULL);
  memset(&newer, 0, sizeof newer);
  newer.known.size = sizeof newer;
  newer.known.device = "emulator";
  CHECK(tally_open(&newer.known, &runtime) == TALLY_OK);
  tally_close(runtime);
  runtime = NULL;
  newer.added = 1; /* set, and this library does not know the field */
  CHECK(tally_open(&newer.known, &runtime) == TALLY_INVALID);
  CHECK(runtime == NULL);
  CHECK(tally_version() == TALLY_VERSION);
}

static int decided = 0, destroyed = 0;
static void decide(void *state, const tally_policy_snapshot *snapshot,
                   tally_policy_decision *decision) {
  *(int *)state += 1;
  decision->run_best_effort = snapshot->high_priority_active == 0;
}
static void destroy(void *state) {
  *(int *)state = 0;
  destroyed += 1;
}

static void checkPolicy(void) {
  tally_runtime *runtime = NULL;
  tally_options options = tally_default_options();
  tally_device_info info = tally_default_device_info();
  tally_policy policy;
  memset(&policy, 0, sizeof policy);
  policy.size = sizeof policy;
  policy.state = &decided;
  policy.destroy = destroy;
  options.device = "emulator";
  options.emulator_sms = 3;
  options.custom_policy = &policy;
  CHECK(tally_open(&options, &runtime) == TALLY_ERROR);
  CHECK(strcmp(tally_last_error(), "custom_policy: decide is NULL") == 0);
  policy.decide = decide;
  options.policy = "share";
  CHECK(tally_open(&options, &runtime) == TALLY_ERROR);
  options.policy = NULL;
  options.kinds = "guard,guard";
  CHECK(tally_open(&options, &runtime) == TALLY_ERROR);
  CHECK(strstr(tally_last_error(), "kinds is 'guard,guard'; allowed are ") != NULL);
  options.kinds = "none";
  CHECK(destroyed == 0);
  CHECK(tally_open(&options, &runtime) == TALLY_OK);
  memset(&policy, 0, sizeof policy); /* it was copied */
  CHECK(tally_get_device_info(runtime, &info) == TALLY_OK);
  CHECK(info.sms == 3);
  checkStream(runtime, TALLY_CLASS_BEST_EFFORT);
  CHECK(decided > 0);
  CHECK(destroyed == 0);
  tally_close(runtime);
  CHECK(destroyed == 1);
}

static void checkRequests(tally_runtime *runtime) {
  tally_client server = 0, trainer = 0, none = 9;
  tally_stream stream = 5;
  CHECK(tally_create_client(runtime, TALLY_CLASS_HIGH, "server", &server) == TALLY_OK);
  CHECK(tally_create_client(runtime, TALLY_CLASS_BEST_EFFORT, "trainer", &trainer) == TALLY_OK);
  CHECK(tally_create_client(runtime, (tally_class)2, "none", &none) == TALLY_INVALID);
  CHECK(none == 9);
  CHECK(tally_create_best_effort_client(NULL, 2, "batch", &none) == TALLY_INVALID);
  CHECK(tally_create_best_effort_client(runtime, 5, "batch", &none) == TALLY_ERROR);
  CHECK(strcmp(tally_last_error(), "createBestEffortClient: the class is 5; allowed are 1 to 4") ==
        0);
  CHECK(none == 9);
  CHECK(tally_create_best_effort_client(runtime, 2, "batch", &none) == TALLY_OK);
  CHECK(tally_begin_request(runtime, none) == TALLY_ERROR);
  CHECK(strstr(tally_last_error(), "client 'batch' is best effort") != NULL);
  CHECK(tally_begin_request(runtime, server) == TALLY_OK);
  CHECK(tally_end_request(runtime, server) == TALLY_OK);
  CHECK(tally_end_request(runtime, server) == TALLY_ERROR);
  CHECK(strcmp(tally_last_error(), "endRequest: client 'server' has no open request") == 0);
  CHECK(tally_begin_request(runtime, trainer) == TALLY_ERROR);
  CHECK(strstr(tally_last_error(), "client 'trainer' is best effort") != NULL);
  CHECK(tally_begin_request(runtime, 77) == TALLY_ERROR);
  CHECK(tally_create_stream(runtime, 77, &stream) == TALLY_ERROR);
  CHECK(strcmp(tally_last_error(), "no such client: 77") == 0);
  CHECK(stream == 5);
}

int main(void) {
  tally_runtime *runtime = NULL;
  tally_options options;
  tally_statistics statistics = tally_default_statistics();
  tally_module module = 0;
  size_t count = 7;
  checkErrors();
  checkSettings();
  checkGrowth();
  checkPolicy();
  options = tally_default_options();
  options.device = "emulator";
  options.arena = "/nonexistent/arena";
  CHECK(tally_open(&options, &runtime) == TALLY_ERROR);
  CHECK(strstr(tally_last_error(), "/nonexistent/arena: the arena cannot be made") != NULL);
  options.arena = "";
  CHECK(tally_open(&options, &runtime) == TALLY_ERROR);
  CHECK(strstr(tally_last_error(), "the device has no UUID") != NULL);
  CHECK(runtime == NULL);
  options.arena = NULL;
  CHECK(tally_open(&options, &runtime) == TALLY_OK);
  if (runtime) {
    checkStream(runtime, TALLY_CLASS_HIGH);
    checkStream(runtime, TALLY_CLASS_BEST_EFFORT);
    CHECK(tally_load(runtime, "/nonexistent/x.tally", &module) == TALLY_ERROR);
    checkRequests(runtime);
    CHECK(tally_get_statistics(runtime, &statistics) == TALLY_OK);
    CHECK(statistics.requests_to_yield >= 1);
    CHECK(tally_turnarounds(runtime, NULL, 0, &count) == TALLY_OK);
    CHECK(count == 0);
    tally_close(runtime);
  }
  if (failures == 0)
    puts("all checks passed");
  return failures != 0;
}
