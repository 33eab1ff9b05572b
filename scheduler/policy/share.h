/* SPDX-License-Identifier: Apache-2.0
 *
 * share.h - fair share by user: who has used less than others for his weight comes first. Pure, as policy.h.
 *
 * The rule is that of Slurm's multifactor plugin without accounts above users: what was used counts half after each half-life, and
 * users are compared by usage over weight (its factor 2^-(usage/shares) orders them alike).
 *
 * What is old is not made smaller: what is new is made larger by as much. So usages grow only when somebody is charged, and the
 * order between two users changes at no other time: whatever is sorted by it stays sorted.
 */
#ifndef POLICY_SHARE_H
#define POLICY_SHARE_H

#include <stdint.h>

/* By how much what is used now counts more than what was used so many ms before it: 2 for one half-life; below 1 for later.
 * Bounded, so that no sum overflows whatever the clock says. */
double policy_share_scale(int64_t ms, int64_t half_life_ms);
/* By what users are compared: the less, the sooner. A weight of 0 comes behind all others. */
double policy_share_of(double usage, uint64_t weight_milli);

#endif
