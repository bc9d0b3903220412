#include "engine/confinement.h"

#include <utility>

namespace tally::hooks {

std::uint32_t smsOfNonPreemptible(ApiDevice &device, const Settings &settings) {
  std::uint32_t sms = settings.nonPreemptibleSms.of(device.info().smCount);
  if (sms == 0)
    return 0;
  if (Result<void> tried = runtime::tryConfined(device, sms); !tried) {
    warn(Warning::Setting, "TALLY_BEST_EFFORT_SMS: " + tried.error().message +
                               "; kernels without a variant run on all SMs");
    return 0;
  }
  return sms;
}

runtime::ConfinedSizes sizesBesideRequests(ApiDevice &device, const Settings &settings) {
  // Under MPS, kernels on two streams of one process slow the other processes down.
  bool isWanted = settings.greenContexts.value_or(!isUnderMps());
  if (!isWanted || !settings.policy.limitsSms())
    return {};
  Result<runtime::ConfinedSizes> sizes = runtime::confinedSizesOf(device);
  if (sizes)
    return std::move(*sizes);
  warn(Warning::Setting, "TALLY_POLICY: " + sizes.error().message +
                             "; the number of thread blocks keeps best-effort work to its SMs");
  return {};
}

} // namespace tally::hooks
