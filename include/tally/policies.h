/**
 * @file
 * All that the author of a policy needs: the input and the output of a policy
 * (tally/policy/policy.h), the controllers of Tally's policies (tally/policy/additive_control.h,
 * tally/policy/sm_control.h), and Tally's policies as examples. Header-only, pure, C++17;
 * testing a policy needs no library.
 */
#ifndef TALLY_POLICIES_H
#define TALLY_POLICIES_H

#include "tally/policy/additive_control.h"
#include "tally/policy/partition_policy.h"
#include "tally/policy/policy.h"
#include "tally/policy/rate_policy.h"
#include "tally/policy/share_policy.h"
#include "tally/policy/slo_policy.h"
#include "tally/policy/sm_control.h"

#endif
