/**
 * @file
 * All that the author of a policy needs: what a policy sees and says (tally/policy/policy.h), the
 * quantity that two of Tally's own steer by, and Tally's own to start from. Header-only, pure,
 * C++17; no library is needed to test one.
 */
#ifndef TALLY_POLICIES_H
#define TALLY_POLICIES_H

#include "tally/policy/additive_control.h"
#include "tally/policy/partition_policy.h"
#include "tally/policy/policy.h"
#include "tally/policy/rate_policy.h"
#include "tally/policy/share_policy.h"
#include "tally/policy/slo_policy.h"

#endif
