// The C interface, implemented with the C++ interface.
#include "tally/tally.h"

#include "api/c_api_values.h"

#include "tally/bundle/bundle_reader.h"
#include "tally/runtime/runtime.h"

#include <algorithm>
#include <new>

using namespace tally;
using namespace tally::runtime;
using namespace tally::runtime::c_api;

struct tally_runtime {
  tally_runtime(std::unique_ptr<Runtime> opened, const tally_policy *policy)
      : runtime(std::move(opened)) {
    if (policy)
      custom = *fromCaller(*policy);
  }
  tally_runtime(const tally_runtime &) = delete;
  tally_runtime &operator=(const tally_runtime &) = delete;
  ~tally_runtime() {
    runtime.reset(); // the runtime calls the policy until then
    if (custom.destroy)
      custom.destroy(custom.state);
  }

  std::unique_ptr<Runtime> runtime;
  tally_policy custom{};
};

namespace {
thread_local std::string lastError;
} // namespace

tally_status c_api::fail(tally_status status, const char *message) {
  try {
    lastError = message;
  } catch (const std::bad_alloc &) {
    lastError.clear();
  }
  return status;
}

tally_status c_api::invalid(const char *call, const char *why) {
  try {
    return fail(TALLY_INVALID, (std::string(call) + ": " + why).c_str());
  } catch (const std::bad_alloc &) {
    return fail(TALLY_INVALID, "");
  }
}

namespace {

Dim3 extent(tally_dim3 given) { return {given.x, given.y, given.z}; }

} // namespace

const char *tally_last_error(void) { return lastError.c_str(); }

int tally_version(void) { return TALLY_VERSION; }

tally_status tally_open(const tally_options *options, tally_runtime **runtime) {
  if (!runtime)
    return invalid("tally_open");
  std::optional<tally_options> given =
      options ? fromCaller(*options) : std::optional(tally_default_options());
  if (!given)
    return invalid("tally_open", wrongSize);
  if (given->custom_policy && !fromCaller(*given->custom_policy))
    return invalid("tally_open",
                   "custom_policy: its size is wrong, or it sets what this library does not know");
  if (given->sharing < TALLY_SHARING_TALLY || given->sharing > TALLY_SHARING_SAME_PRIORITY)
    return invalid("tally_open");
  return give(
      [&]() -> Result<std::unique_ptr<Runtime>> {
        Result<RuntimeOptions> meant = optionsFrom(*given);
        return meant ? Runtime::open(*meant) : meant.error();
      },
      [&](std::unique_ptr<Runtime> opened) {
        *runtime = new tally_runtime(std::move(opened), given->custom_policy);
      });
}

void tally_close(tally_runtime *runtime) { delete runtime; }

tally_status tally_get_device_info(tally_runtime *runtime, tally_device_info *info) {
  if (!runtime || !info)
    return invalid("tally_get_device_info");
  const DeviceInfo &facts = runtime->runtime->deviceInfo();
  tally_device_info known = tally_default_device_info();
  known.arch = facts.arch;
  known.sms = facts.smCount;
  known.driver = facts.driverVersion;
  facts.name.copy(known.name, sizeof known.name - 1);
  facts.uuid.copy(known.uuid, sizeof known.uuid - 1);
  return toCaller(known, *info) ? TALLY_OK : invalid("tally_get_device_info", wrongSize);
}

tally_status tally_load(tally_runtime *runtime, const char *path, tally_module *module) {
  if (!runtime || !path || !module)
    return invalid("tally_load");
  return give([&] { return runtime->runtime->load(std::string(path)); },
              [&](LoadedModule loaded) { *module = static_cast<tally_module>(loaded); });
}

tally_status tally_load_memory(tally_runtime *runtime, const void *bundle, size_t bytes,
                               tally_module *module) {
  if (!runtime || !bundle || !module)
    return invalid("tally_load_memory");
  return give(
      [&]() -> Result<LoadedModule> {
        Result<bundle::Bundle> read =
            bundle::read(std::string_view(static_cast<const char *>(bundle), bytes));
        return read ? runtime->runtime->load(*read) : read.error();
      },
      [&](LoadedModule loaded) { *module = static_cast<tally_module>(loaded); });
}

tally_status tally_unload(tally_runtime *runtime, tally_module module) {
  if (!runtime)
    return invalid("tally_unload");
  return perform([&] { return runtime->runtime->unload(LoadedModule{module}); });
}

tally_status tally_find_kernel(tally_runtime *runtime, tally_module module, const char *name,
                               tally_kernel *kernel) {
  if (!runtime || !name || !kernel)
    return invalid("tally_find_kernel");
  return give([&] { return runtime->runtime->kernel(LoadedModule{module}, name); },
              [&](Kernel found) { *kernel = static_cast<tally_kernel>(found); });
}

tally_status tally_adopt_function(tally_runtime *runtime, void *function, const char *name,
                                  tally_kernel *kernel) {
  if (!runtime || !function || !kernel)
    return invalid("tally_adopt_function");
  return give(
      [&] {
        return runtime->runtime->adoptFunction(reinterpret_cast<std::uintptr_t>(function),
                                               name ? name : "");
      },
      [&](Kernel adopted) { *kernel = static_cast<tally_kernel>(adopted); });
}

tally_status tally_forget_function(tally_runtime *runtime, tally_kernel kernel) {
  if (!runtime)
    return invalid("tally_forget_function");
  return perform([&] { return runtime->runtime->forget(Kernel{kernel}); });
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

tally_status tally_destroy_client(tally_runtime *runtime, tally_client client) {
  if (!runtime)
    return invalid("tally_destroy_client");
  return perform([&] { return runtime->runtime->destroyClient(Client{client}); });
}

tally_status tally_create_stream(tally_runtime *runtime, tally_client client,
                                 tally_stream *stream) {
  if (!runtime || !stream)
    return invalid("tally_create_stream");
  return give([&] { return runtime->runtime->createStream(Client{client}); },
              [&](Stream created) { *stream = static_cast<tally_stream>(created); });
}

tally_status tally_adopt_stream(tally_runtime *runtime, tally_client client, void *native,
                                tally_stream *stream) {
  if (!runtime || !native || !stream)
    return invalid("tally_adopt_stream");
  return give(
      [&] {
        return runtime->runtime->adoptStream(Client{client},
                                             reinterpret_cast<std::uintptr_t>(native));
      },
      [&](Stream adopted) { *stream = static_cast<tally_stream>(adopted); });
}

tally_status tally_destroy_stream(tally_runtime *runtime, tally_stream stream) {
  if (!runtime)
    return invalid("tally_destroy_stream");
  return perform([&] { return runtime->runtime->destroyStream(Stream{stream}); });
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
                          const tally_launch_shape *shape, const void *arguments,
                          size_t argument_bytes) {
  if (!runtime || !shape || (!arguments && argument_bytes != 0))
    return invalid("tally_launch");
  std::optional<tally_launch_shape> given = fromCaller(*shape);
  if (!given)
    return invalid("tally_launch", wrongSize);
  return perform([&] {
    return runtime->runtime->launch(
        Stream{stream}, Kernel{kernel},
        {extent(given->grid), extent(given->block), given->dynamic_shared_bytes,
         extent(given->cluster)},
        Arguments::fromBytes({static_cast<const std::byte *>(arguments), argument_bytes}));
  });
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
  bool fits = true;
  tally_status status = give([&] { return Result<Statistics>(runtime->runtime->statistics()); },
                             [&](const Statistics &now) {
                               tally_statistics known = tally_default_statistics();
                               known.high_priority_launches = now.highPriorityLaunches;
                               known.best_effort_launches = now.bestEffortLaunches;
                               for (std::uint64_t ofKind : now.launchesByKind)
                                 known.variant_launches += ofKind;
                               known.physical_launches = now.physicalLaunches;
                               known.requests_to_yield = now.requestsToYield;
                               known.yields = now.yields;
                               known.saved_blocks = now.savedBlocks;
                               known.pauses = now.pauses;
                               known.save_areas_refused = now.saveAreasRefused;
                               known.turnarounds = now.turnaroundNanoseconds.size();
                               known.confined_launches = now.confinedLaunches;
                               known.confined_sms = now.confinedSms;
                               fits = toCaller(known, *statistics);
                             });
  return fits ? status : invalid("tally_get_statistics", wrongSize);
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
