// Decides which best-effort work goes to green contexts, by the settings and by the device's
// features.
#ifndef TALLY_LIB_HOOKS_ENGINE_CONFINEMENT_H
#define TALLY_LIB_HOOKS_ENGINE_CONFINEMENT_H

#include "state/settings.h"
#include "work/api_device.h"

#include "lane/lane_options.h"

namespace tally::hooks {

/// Number of SMs for kernels that cannot yield; 0: all. Where the device cannot confine them, a
/// warning says so.
std::uint32_t smsOfNonPreemptible(ApiDevice &device, const Settings &settings);

/// The sizes of the streams for a policy that gives best-effort work a part of the SMs. Where the
/// device has no green contexts, a warning says so.
runtime::ConfinedSizes sizesBesideRequests(ApiDevice &device, const Settings &settings);

} // namespace tally::hooks

#endif
