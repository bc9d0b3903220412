// The wrappers of the driver's entry points.
#include "intercept/driver_hook.h"

#include "device/driver_exports.h"
#include "intercept/driver_rules.h"
#include "intercept/unseen_calls.h"

#include <cuda.h>
#include <cudaTypedefs.h>

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <string>
#include <string_view>
#include <tuple>

using namespace tally::hooks;

namespace {

using GetProcAddress1 = CUresult (*)(const char *, void **, int, cuuint64_t);
using GetProcAddress2 = CUresult (*)(const char *, void **, int, cuuint64_t,
                                     CUdriverProcAddressQueryResult *);
using GetExportTable = CUresult (*)(const void **, const CUuuid *);

/// An entry point of the driver: `stream` is the place of its stream among the parameters. [0]: the
/// plain form, [1]: the form whose stream 0 is the thread's own.
template <class Tag, class Function, int stream> struct Entry;
template <class Tag, class... Parameters, int stream>
struct Entry<Tag, CUresult (*)(Parameters...), stream> {
  static inline std::atomic<void *> real[2] = {nullptr, nullptr};
  template <bool perThread> static CUresult wrapper(Parameters... parameters) {
    CUstream ordered = nullptr;
    if constexpr (stream >= 0)
      ordered = std::get<stream>(std::tie(parameters...));
    if (perThread)
      ordered = ownOf(ordered);
    return Tag::rule(ordered, DriverCall<Parameters...>(real[perThread].load()), parameters...);
  }
};

// Two names of one call (exported with and without _v2) may have one type; so each has a tag. The
// macros cu... of cuda.h must not be expanded here.
#define TALLY_DRIVER_CALL(name, version, exported, stream, byRule)                                 \
  struct Tag_##name##_##version {                                                                  \
    template <class... Given> static CUresult rule(Given... given) {                               \
      return byRule_##byRule(given...);                                                            \
    }                                                                                              \
  };                                                                                               \
  using Entry_##name##_##version = Entry<Tag_##name##_##version, PFN_##name##_v##version, stream>;
#include "tables/driver_api.def"

/// The driver's own function that it exports as `name`.
template <class Function> Function exported(const char *name) {
  const tally::runtime::DriverExports *known = tally::runtime::driverExports();
  return reinterpret_cast<Function>(known ? known->find(name) : nullptr);
}

/// An entry point of the real driver, in the newest version up to `version`; nullptr where the
/// driver has none.
template <class Function> Function realEntry(const char *name, int version) {
  void *entry = nullptr;
  if (auto real = exported<GetProcAddress2>("cuGetProcAddress_v2"))
    real(name, &entry, version, 0, nullptr);
  else if (auto earlier = exported<GetProcAddress1>("cuGetProcAddress"))
    earlier(name, &entry, version, 0);
  return reinterpret_cast<Function>(entry);
}

bool isCooperative(const CUlaunchConfig &config) {
  for (unsigned i = 0; config.attrs && i < config.numAttrs; ++i)
    if (config.attrs[i].id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
      return config.attrs[i].value.cooperative != 0;
  return false;
}

std::optional<KernelUse> useOf(const DriverLaunches &driver, const CUlaunchConfig &config,
                               CUfunction function) {
  auto attributes = attributesOf(driver, function);
  if (!attributes)
    return std::nullopt;
  KernelUse use{*attributes, {}, false};
  use.shape.grid = {config.gridDimX, config.gridDimY, config.gridDimZ};
  use.shape.block = {config.blockDimX, config.blockDimY, config.blockDimZ};
  use.shape.dynamicSharedBytes = config.sharedMemBytes;
  return use;
}

/// Launches through the registry's record of the kernel, like a launch by the program itself.
template <class Call>
CUresult launchWithVariants(Hooks &hooks, const CUlaunchConfig &config, CUfunction function,
                            void **parameters, const Call &call) {
  static_assert(sizeof(CUlaunchAttribute) == sizeof(cudaLaunchAttribute) &&
                offsetof(CUlaunchAttribute, value) == offsetof(cudaLaunchAttribute, val));
  auto request = [&] {
    LaunchRequest made;
    made.function = function;
    made.grid = dim3(config.gridDimX, config.gridDimY, config.gridDimZ);
    made.block = dim3(config.blockDimX, config.blockDimY, config.blockDimZ);
    made.sharedBytes = config.sharedMemBytes;
    made.attributes = {reinterpret_cast<const cudaLaunchAttribute *>(config.attrs),
                       config.attrs ? config.numAttrs : 0};
    made.arguments = parameters;
    return made;
  };
  return driverStatus(
      hooks.launch(foreignApi(), config.hStream, request, [&] { return runtimeStatus(call()); }));
}

AheadWork workOf(CUfunction function, unsigned gridX, unsigned gridY, unsigned gridZ) {
  return {function, std::uint64_t{gridX} * gridY * gridZ};
}

/// A launch that comes from outside the hooks.
template <class Call>
[[gnu::noinline]] CUresult launchKernel(const CUlaunchConfig &config, CUfunction function,
                                        void **parameters, void **extra, const Call &call) {
  Hooks &hooks = Hooks::shared();
  hooks.libraries().hooked(api());
  if (parameters && !extra && hooks.loadedImages().hasVariants(function) &&
      hooks.served().isServedContext(driverLaunches().contextOfThread()))
    return launchWithVariants(hooks, config, function, parameters, call);
  auto take = [&] {
    return takeLaunch(driverLaunches(), hooks.libraries().kernels(), config, function, parameters,
                      extra);
  };
  auto see = [&](HighFootprints &to, const CudaApi &table, StreamState &state) {
    // Libraries rarely make cooperative launches.
    if (isCooperative(config))
      return to.unknown(table, state);
    dim3 grid(config.gridDimX, config.gridDimY, config.gridDimZ);
    dim3 block(config.blockDimX, config.blockDimY, config.blockDimZ);
    to.foreign(table, state, function, grid, block, config.sharedMemBytes,
               [&] { return useOf(driverLaunches(), config, function); });
  };
  AheadWork work = workOf(function, config.gridDimX, config.gridDimY, config.gridDimZ);
  return hooks.libraries().launch(config.hStream, work, call, take, see);
}

/// cuLaunchKernelEx has its stream inside the configuration.
struct Entry_cuLaunchKernelEx {
  using Function = CUresult (*)(const CUlaunchConfig *, CUfunction, void **, void **);
  static inline std::atomic<void *> real[2] = {nullptr, nullptr};
  template <bool perThread>
  static CUresult wrapper(const CUlaunchConfig *config, CUfunction f, void **parameters,
                          void **extra) {
    auto call = [&] {
      return reinterpret_cast<Function>(real[perThread].load())(config, f, parameters, extra);
    };
    if (!config || InHook::any() || isOff())
      return call();
    CUstream stream = perThread ? ownOf(config->hStream) : config->hStream;
    AheadWork work = workOf(f, config->gridDimX, config->gridDimY, config->gridDimZ);
    if (auto passed = Hooks::shared().passAgain(stream, work, call))
      return *passed;
    CUlaunchConfig meant = *config;
    meant.hStream = stream;
    return launchKernel(meant, f, parameters, extra, call);
  }
};

struct Entry_cuLaunchKernel {
  using Function = PFN_cuLaunchKernel_v4000;
  static inline std::atomic<void *> real[2] = {nullptr, nullptr};
  template <bool perThread>
  static CUresult wrapper(CUfunction f, unsigned gridX, unsigned gridY, unsigned gridZ,
                          unsigned blockX, unsigned blockY, unsigned blockZ, unsigned shared,
                          CUstream stream, void **parameters, void **extra) {
    auto call = [&] {
      return reinterpret_cast<Function>(real[perThread].load())(
          f, gridX, gridY, gridZ, blockX, blockY, blockZ, shared, stream, parameters, extra);
    };
    if (InHook::any() || isOff()) // the runtime's own call: return as soon as possible
      return call();
    CUstream meant = perThread ? ownOf(stream) : stream;
    if (auto passed = Hooks::shared().passAgain(meant, workOf(f, gridX, gridY, gridZ), call))
      return *passed;
    CUlaunchConfig config{};
    config.gridDimX = gridX;
    config.gridDimY = gridY;
    config.gridDimZ = gridZ;
    config.blockDimX = blockX;
    config.blockDimY = blockY;
    config.blockDimZ = blockZ;
    config.sharedMemBytes = shared;
    config.hStream = meant;
    return launchKernel(config, f, parameters, extra, call);
  }
};

/// The wrapper of `real`. A driver that looks up its own functions finds wrappers: they are
/// returned unchanged.
template <class Entry> void *keep(bool perThread, void *real) {
  void *const wrappers[2] = {reinterpret_cast<void *>(&Entry::template wrapper<false>),
                             reinterpret_cast<void *>(&Entry::template wrapper<true>)};
  if (real == wrappers[0] || real == wrappers[1])
    return real;
  Entry::real[perThread].store(real);
  return wrappers[perThread];
}

struct Row {
  std::string_view name;
  int version;
  std::string_view exported;
  void *(*keep)(bool perThread, void *real);
};

constexpr Row rows[] = {
#define TALLY_DRIVER_CALL(name, version, exported, stream, byRule)                                 \
  {#name, version, #exported, &keep<Entry_##name##_##version>},
#include "tables/driver_api.def"
    {"cuLaunchKernel", 4000, "cuLaunchKernel", &keep<Entry_cuLaunchKernel>},
    {"cuLaunchKernelEx", 11060, "cuLaunchKernelEx", &keep<Entry_cuLaunchKernelEx>},
};

CUresult getProcAddress1(const char *symbol, void **entry, int version, cuuint64_t flags);
CUresult getProcAddress2(const char *symbol, void **entry, int version, cuuint64_t flags,
                         CUdriverProcAddressQueryResult *result);

/// Private tables of the driver that the CUDA runtime, cuBLAS, cuBLASLt, cuFFT, NVRTC and NVML ask
/// for. They make no launch through these tables (docs/design/hooks.md describes the check).
constexpr std::array<std::string_view, 12> knownTables = {
    "1734dc26800d47458726c0f1e7dd8bca", "21318c60971432488ca641ff7324c8f2",
    "263e88607cd2614392f6bbd5006dfa7e", "42d85a8123f6cb478298f6e78a3aecdc",
    "69a28e9f24498b47b030c5da330ea4e9", "6bd5fb6c5bf4e74a8987d93912fd9df9",
    "6e163fbeb958444d835ce182aff1991e", "a094798c2e742e7493f20800200c0a66",
    "c693336e1121df11a8c368f355d89593", "d4082055bde6704b8d34ba123c66e1f2",
    "da9151d33ae6cc41a5c04f26d533e328", "f8cff95121468b4eb9e2fb469e7c0dd9"};

CUresult getExportTable(const void **table, const CUuuid *id) {
  if (id && isForeign()) {
    std::string name;
    for (char each : id->bytes)
      name += {"0123456789abcdef"[(each >> 4) & 15], "0123456789abcdef"[each & 15]};
    if (std::find(knownTables.begin(), knownTables.end(), name) == knownTables.end())
      launchesPassUnseen(Unseen::PrivateTable, " (" + name + ")");
  }
  return exported<GetExportTable>("cuGetExportTable")(table, id);
}

/// The wrappers that have no row, by the names that the driver exports.
void *wrapperByHand(std::string_view name) {
  if (name == "cuGetProcAddress")
    return reinterpret_cast<void *>(&getProcAddress1);
  if (name == "cuGetProcAddress_v2")
    return reinterpret_cast<void *>(&getProcAddress2);
  return name == "cuGetExportTable" ? reinterpret_cast<void *>(&getExportTable) : nullptr;
}

const Row *newestRow(std::string_view symbol, int version) {
  const Row *newest = nullptr;
  for (const Row &row : rows)
    if (symbol == row.name && row.version <= version && (!newest || row.version > newest->version))
      newest = &row;
  return newest;
}

/// Whether the function is of this module: a driver that returns the addresses that the loader has
/// bound to its own names may return the hooks' cuInit.
bool isOwn(const void *function) {
  Dl_info own = {}, found = {};
  return dladdr(function, &found) != 0 &&
         dladdr(reinterpret_cast<const void *>(&isOwn), &own) != 0 &&
         found.dli_fbase == own.dli_fbase;
}

void wrapResult(const char *symbol, void **entry, int version, cuuint64_t flags) {
  if (!symbol || !entry || !*entry || isOwn(*entry))
    return;
  std::string_view name = symbol;
  if (name == "cuGetProcAddress" && version >= 12000)
    name = "cuGetProcAddress_v2";
  bool perThread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
  if (void *own = wrapperByHand(name))
    *entry = own;
  else if (const Row *row = newestRow(name, version))
    *entry = row->keep(perThread, *entry);
}

CUresult getProcAddress1(const char *symbol, void **entry, int version, cuuint64_t flags) {
  CUresult status = exported<GetProcAddress1>("cuGetProcAddress")(symbol, entry, version, flags);
  if (status == CUDA_SUCCESS)
    wrapResult(symbol, entry, version, flags);
  return status;
}

CUresult getProcAddress2(const char *symbol, void **entry, int version, cuuint64_t flags,
                         CUdriverProcAddressQueryResult *result) {
  CUresult status =
      exported<GetProcAddress2>("cuGetProcAddress_v2")(symbol, entry, version, flags, result);
  if (status == CUDA_SUCCESS)
    wrapResult(symbol, entry, version, flags);
  return status;
}

/// The row of a function by its exported name, such as cuMemcpyHtoDAsync_v2_ptsz.
const Row *rowOfExport(std::string_view name, bool &perThread) {
  perThread = name.ends_with("_ptsz") || name.ends_with("_ptds");
  if (perThread)
    name.remove_suffix(5);
  const Row *found = std::find_if(std::begin(rows), std::end(rows),
                                  [&](const Row &row) { return name == row.exported; });
  return found == std::end(rows) ? nullptr : found;
}

} // namespace

namespace tally::hooks {

const DriverLaunches &driverLaunches() {
  static const DriverLaunches found = {
      realEntry<DriverLaunches::LaunchEx>("cuLaunchKernelEx", 11060),
      realEntry<DriverLaunches::ParameterInfo>("cuFuncGetParamInfo", 12040),
      realEntry<DriverLaunches::Attribute>("cuFuncGetAttribute", 2020),
      realEntry<DriverLaunches::CurrentContext>("cuCtxGetCurrent", 4000),
      realEntry<DriverLaunches::FunctionOfKernel>("cuKernelGetFunction", 12000),
      hooks().configuration().trace.path.empty()
          ? nullptr
          : realEntry<DriverLaunches::FunctionName>("cuFuncGetName", 12030)};
  return found;
}

void *wrappedEntry(std::string_view symbol, int version, bool perThread, void *real) {
  const runtime::DriverExports *known = runtime::driverExports();
  const Row *row = known && known->holds(real) ? newestRow(symbol, version) : nullptr;
  return row ? row->keep(perThread, real) : real;
}

bool hasWrapper(std::string_view name) {
  bool perThread = false;
  return wrapperByHand(name) || rowOfExport(name, perThread);
}

void *wrappedExport(std::string_view name, void *real) {
  if (void *own = wrapperByHand(name))
    return own;
  bool perThread = false;
  const Row *row = rowOfExport(name, perThread);
  return row ? row->keep(perThread, real) : real;
}

} // namespace tally::hooks
