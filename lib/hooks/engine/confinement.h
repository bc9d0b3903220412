// Decides which best-effort work goes to green contexts, by the settings and by the device's
// features.
#ifndef TALLY_LIB_HOOKS_ENGINE_CONFINEMENT_H
#define TALLY_LIB_HOOKS_ENGINE_CONFINEMENT_H

#include "state/settings.h"
#include "work/api_device.h"

#include "lane/lane_options.h"

namespace tally::hooks {

/// Number of SMs for kernels that cannot yield; 0: all. Warns where the device cannot confine them.
std::uint32_t smsOfNonPreemptible(ApiDevice &device, const Settings &settings);

/// The sizes of the streams for a policy that gives best-effort work a part of the SMs. Warns where
/// the device has no green contexts.
runtime::ConfinedSizes sizesBesideRequests(ApiDevice &device, const Settings &settings);

} // namespace tally::hooks

#endif
