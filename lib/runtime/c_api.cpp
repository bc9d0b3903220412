// The C interface over the C++ one.
#include "tally/runtime/tally.h"

#include "tally/runtime/policy_text.h"
#include "tally/runtime/runtime.h"

#include <algorithm>
#include <new>

using namespace tally;
using namespace tally::runtime;

struct tally_runtime {
  std::unique_ptr<Runtime> runtime;
};

namespace {

thread_local std::string lastError;

tally_status fail(tally_status status, const char *message) {
  try {
    lastError = message;
  } catch (const std::bad_alloc &) {
    lastError.clear();
  }
  return status;
}

/// Runs `call`, which gives a Result, and stores its value by `store`.
template <class Call, class Store> tally_status give(const Call &call, const Store &store) {
  try {
    auto result = call();
    if (!result)
      return fail(TALLY_ERROR, result.error().message.c_str());
    store(std::move(*result));
    return TALLY_OK;
  } catch (const std::bad_alloc &) {
    return fail(TALLY_OUT_OF_MEMORY, "out of memory");
  }
}

template <class Call> tally_status perform(const Call &call) {
  try {
    Result<void> result = call();
    return result ? TALLY_OK : fail(TALLY_ERROR, result.error().message.c_str());
  } catch (const std::bad_alloc &) {
    return fail(TALLY_OUT_OF_MEMORY, "out of memory");
  }
}

tally_status invalid(const char *call) {
  try {
    return fail(TALLY_INVALID,
                (std::string(call) + ": a null pointer or a value out of range").c_str());
  } catch (const std::bad_alloc &) {
    return fail(TALLY_INVALID, "");
  }
}

Result<AnyPolicy> policyFrom(const tally_options &given) {
  if (given.policy && given.hysteresis_nanoseconds != 0)
    return tally::Error{"hysteresis_nanoseconds is priority's: with `policy`, which is '" +
                        std::string(given.policy) + "', it says so itself"};
  if (given.policy)
    return tally::runtime::policyFromText(given.policy);
  return AnyPolicy(tally::runtime::PriorityPolicy{
      .hysteresis = std::chrono::nanoseconds(given.hysteresis_nanoseconds)});
}

Result<RuntimeOptions> optionsFrom(const tally_options *given) {
  RuntimeOptions options;
  if (!given)
    return options;
  if (const char *withArena = given->arena_group              ? "arena_group"
                              : given->best_effort_only != 0  ? "best_effort_only"
                              : given->best_effort_class != 0 ? "best_effort_class"
                                                              : nullptr;
      withArena && !given->arena)
    return tally::Error{std::string(withArena) + " means nothing without `arena`"};
  if (given->device)
    options.device = given->device;
  options.sharing = static_cast<Sharing>(given->sharing);
  Result<AnyPolicy> policy = policyFrom(*given);
  if (!policy)
    return policy.error();
  options.policy = *policy;
  if (given->bound_nanoseconds != 0)
    options.bound = std::chrono::nanoseconds(given->bound_nanoseconds);
  options.smsOfWholes = given->sms_of_wholes;
  if (given->profiling > static_cast<std::uint32_t>(tally::runtime::Profiling::On))
    return tally::Error{"profiling is " + std::to_string(given->profiling) +
                        "; there are 0 off, 1 on"};
  options.profiling = static_cast<tally::runtime::Profiling>(given->profiling);
  if (given->emulator_sms != 0)
    options.emulator.smCount = given->emulator_sms;
  if (given->emulator_resident_per_sm != 0)
    options.emulator.residentBlocksPerSm = given->emulator_resident_per_sm;
  if (given->arena)
    options.arena = ArenaOptions{given->arena, given->arena_group ? given->arena_group : "",
                                 given->best_effort_only != 0,
                                 given->best_effort_class != 0 ? given->best_effort_class : 1};
  if (given->trace)
    options.trace = given->trace;
  options.drainOnTermination = std::chrono::milliseconds(given->drain_milliseconds);
  if (given->trace_events != 0)
    options.traceEvents = given->trace_events;
  if (given->emulator_uuid)
    options.emulator.uuid = given->emulator_uuid;
  return options;
}

Dim3 extent(tally_dim3 given) { return {given.x, given.y, given.z}; }

tally_status launchAs(const char *call, tally_runtime *runtime, tally_stream stream,
                      tally_kernel kernel, const LaunchShape &shape, const void *arguments,
                      size_t argument_bytes) {
  if (!runtime || (!arguments && argument_bytes != 0))
    return invalid(call);
  return perform([&] {
    return runtime->runtime->launch(
        Stream{stream}, Kernel{kernel}, shape,
        Arguments::fromBytes({static_cast<const std::byte *>(arguments), argument_bytes}));
  });
}

} // namespace

const char *tally_last_error(void) { return lastError.c_str(); }

tally_status tally_open(const tally_options *options, tally_runtime **runtime) {
  if (!runtime || (options && (options->sharing < TALLY_SHARING_TALLY ||
                               options->sharing > TALLY_SHARING_SAME_PRIORITY)))
    return invalid("tally_open");
  return give(
      [&]() -> Result<std::unique_ptr<Runtime>> {
        Result<RuntimeOptions> meant = optionsFrom(options);
        return meant ? Runtime::open(*meant) : meant.error();
      },
      [&](std::unique_ptr<Runtime> opened) { *runtime = new tally_runtime{std::move(opened)}; });
}

void tally_close(tally_runtime *runtime) { delete runtime; }

tally_status tally_load(tally_runtime *runtime, const char *path, tally_module *module) {
  if (!runtime || !path || !module)
    return invalid("tally_load");
  return give([&] { return runtime->runtime->load(std::string(path)); },
              [&](LoadedModule loaded) { *module = static_cast<tally_module>(loaded); });
}

tally_status tally_find_kernel(tally_runtime *runtime, tally_module module, const char *name,
                               tally_kernel *kernel) {
  if (!runtime || !name || !kernel)
    return invalid("tally_find_kernel");
  return give([&] { return runtime->runtime->kernel(LoadedModule{module}, name); },
              [&](Kernel found) { *kernel = static_cast<tally_kernel>(found); });
}

tally_status tally_allocate(tally_runtime *runtime, size_t bytes, tally_device_pointer *pointer) {
  if (!runtime || !pointer)
    return invalid("tally_allocate");
  return give([&] { return runtime->runtime->allocate(bytes); },
              [&](DevicePtr allocated) { *pointer = allocated; });
}

tally_status tally_free(tally_runtime *runtime, tally_device_pointer pointer) {
  if (!runtime)
    return invalid("tally_free");
  return perform([&] { return runtime->runtime->free(pointer); });
}

tally_status tally_create_client(tally_runtime *runtime, tally_class client_class, const char *name,
                                 tally_client *client) {
  if (!runtime || !client || client_class < TALLY_CLASS_HIGH ||
      client_class > TALLY_CLASS_BEST_EFFORT)
    return invalid("tally_create_client");
  Class wanted = client_class == TALLY_CLASS_HIGH ? Class::High : Class::BestEffort;
  return give([&] { return runtime->runtime->createClient(wanted, name ? name : ""); },
              [&](Client created) { *client = static_cast<tally_client>(created); });
}

tally_status tally_create_best_effort_client(tally_runtime *runtime, uint32_t best_effort_class,
                                             const char *name, tally_client *client) {
  if (!runtime || !client)
    return invalid("tally_create_best_effort_client");
  return give(
      [&] { return runtime->runtime->createBestEffortClient(best_effort_class, name ? name : ""); },
      [&](Client created) { *client = static_cast<tally_client>(created); });
}

tally_status tally_create_stream(tally_runtime *runtime, tally_client client,
                                 tally_stream *stream) {
  if (!runtime || !stream)
    return invalid("tally_create_stream");
  return give([&] { return runtime->runtime->createStream(Client{client}); },
              [&](Stream created) { *stream = static_cast<tally_stream>(created); });
}

tally_status tally_copy_to_device(tally_runtime *runtime, tally_stream stream,
                                  tally_device_pointer to, const void *from, size_t bytes) {
  if (!runtime || (!from && bytes != 0))
    return invalid("tally_copy_to_device");
  return perform([&] {
    return runtime->runtime->copyToDevice(Stream{stream}, to,
                                          {static_cast<const std::byte *>(from), bytes});
  });
}

tally_status tally_copy_to_host(tally_runtime *runtime, tally_stream stream, void *to,
                                tally_device_pointer from, size_t bytes) {
  if (!runtime || (!to && bytes != 0))
    return invalid("tally_copy_to_host");
  return perform([&] {
    return runtime->runtime->copyToHost(Stream{stream}, {static_cast<std::byte *>(to), bytes},
                                        from);
  });
}

tally_status tally_fill(tally_runtime *runtime, tally_stream stream, tally_device_pointer to,
                        uint8_t value, size_t bytes) {
  if (!runtime)
    return invalid("tally_fill");
  return perform(
      [&] { return runtime->runtime->fill(Stream{stream}, to, std::byte{value}, bytes); });
}

tally_status tally_launch(tally_runtime *runtime, tally_stream stream, tally_kernel kernel,
                          tally_dim3 grid, tally_dim3 block, uint32_t dynamic_shared_bytes,
                          const void *arguments, size_t argument_bytes) {
  return launchAs("tally_launch", runtime, stream, kernel,
                  {extent(grid), extent(block), dynamic_shared_bytes}, arguments, argument_bytes);
}

tally_status tally_launch_in_clusters(tally_runtime *runtime, tally_stream stream,
                                      tally_kernel kernel, tally_dim3 grid, tally_dim3 block,
                                      tally_dim3 cluster, uint32_t dynamic_shared_bytes,
                                      const void *arguments, size_t argument_bytes) {
  if (cluster.x == 0 || cluster.y == 0 || cluster.z == 0)
    return invalid("tally_launch_in_clusters");
  return launchAs("tally_launch_in_clusters", runtime, stream, kernel,
                  {extent(grid), extent(block), dynamic_shared_bytes, extent(cluster)}, arguments,
                  argument_bytes);
}

tally_status tally_synchronize(tally_runtime *runtime, tally_stream stream) {
  if (!runtime)
    return invalid("tally_synchronize");
  return perform([&] { return runtime->runtime->synchronize(Stream{stream}); });
}

tally_status tally_begin_request(tally_runtime *runtime, tally_client client) {
  if (!runtime)
    return invalid("tally_begin_request");
  return perform([&] { return runtime->runtime->beginRequest(Client{client}); });
}

tally_status tally_end_request(tally_runtime *runtime, tally_client client) {
  if (!runtime)
    return invalid("tally_end_request");
  return perform([&] { return runtime->runtime->endRequest(Client{client}); });
}

tally_status tally_get_statistics(tally_runtime *runtime, tally_statistics *statistics) {
  if (!runtime || !statistics)
    return invalid("tally_get_statistics");
  return give([&] { return Result<Statistics>(runtime->runtime->statistics()); },
              [&](const Statistics &now) {
                *statistics = {now.highPriorityLaunches,
                               now.bestEffortLaunches,
                               now.physicalLaunches,
                               now.requestsToYield,
                               now.yields,
                               now.turnaroundNanoseconds.size()};
              });
}

tally_status tally_turnarounds(tally_runtime *runtime, uint64_t *nanoseconds, size_t capacity,
                               size_t *count) {
  if (!runtime || !count || (!nanoseconds && capacity != 0))
    return invalid("tally_turnarounds");
  return give([&] { return Result<Statistics>(runtime->runtime->statistics()); },
              [&](const Statistics &now) {
                const auto &all = now.turnaroundNanoseconds;
                *count = std::min(capacity, all.size());
                std::copy(all.end() - static_cast<std::ptrdiff_t>(*count), all.end(), nanoseconds);
              });
}

tally_status tally_write_trace(tally_runtime *runtime) {
  if (!runtime)
    return invalid("tally_write_trace");
  return perform([&] { return runtime->runtime->writeTrace(); });
}
