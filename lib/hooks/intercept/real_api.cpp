#include "state/settings.h"

#include "intercept/driver_hook.h"
#include "intercept/real_calls.h"
#include "tables/cuda_api.h"

#include <atomic>

namespace tally::hooks {

namespace {

CudaApi makeRealApi() {
  CudaApi table;
#define TALLY_CUDA_SET_Plain(name)
#define TALLY_CUDA_SET_Ptsz(name)
#define TALLY_CUDA_SET_Ptds(name) table.name##_ptds = &__real_##name##_ptds;
#define TALLY_CUDA_CALL(result, name, parameters, arguments, rule, forms)                          \
  table.name = &__real_##name;                                                                     \
  TALLY_CUDA_SET_##forms(name)
#include "tables/cuda_api.def"
#undef TALLY_CUDA_SET_Plain
#undef TALLY_CUDA_SET_Ptsz
#undef TALLY_CUDA_SET_Ptds
  table.driver = &driverLaunches;
  return table;
}

} // namespace

/// One emulator for all modules of the process (see tallySharedHooks4).
__attribute__((visibility("default"))) inline std::atomic<const CudaApi *> tallySharedEmulator2{
    nullptr};

const CudaApi &realApi() {
  static const CudaApi table = makeRealApi();
  return table;
}

namespace {

const CudaApi &choose() {
  const Settings &settings = Settings::get();
  if (settings.areWrong)
    return refusingApi();
  if (!settings.emulator.isOn || settings.disabled)
    return realApi();
  const CudaApi *known = nullptr;
  const CudaApi *own = &emulatedApi();
  return tallySharedEmulator2.compare_exchange_strong(known, own) ? *own : *known;
}

} // namespace

const CudaApi &chooseApi() {
  static const CudaApi &chosen = choose();
  chosenApi.store(&chosen, std::memory_order_release);
  return chosen;
}

} // namespace tally::hooks
