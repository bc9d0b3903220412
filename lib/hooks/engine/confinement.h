// Which best-effort work goes to green contexts, by the settings and by what the device can do.
#ifndef TALLY_LIB_HOOKS_ENGINE_CONFINEMENT_H
#define TALLY_LIB_HOOKS_ENGINE_CONFINEMENT_H

#include "state/settings.h"
#include "work/api_device.h"

#include "lane/lane_options.h"

namespace tally::hooks {

/// How many SMs kernels that cannot yield get; 0: all. Where the device cannot confine them, a
/// warning says so.
std::uint32_t smsOfNonPreemptible(ApiDevice &device, const Settings &settings);

/// The sizes of the streams for a policy that gives best-effort work a part of the SMs. Where the
/// device has no green contexts, a warning says so.
runtime::ConfinedSizes sizesBesideRequests(ApiDevice &device, const Settings &settings);

} // namespace tally::hooks

#endif
