/* SPDX-License-Identifier: Apache-2.0
 *
 * warm.h - warm start: results of earlier sweeps are told to the sampler of a new one.
 */
#ifndef SWP_WARM_H
#define SWP_WARM_H

#include "sweep/run/plan.h"

/* Reads the journals of opts->warm_start. Points that are not of this space are left out. ENOENT: no such sweep; EINVAL: it has
 * another metric, or the sampler is another program; ECORRUPT, ESYS. */
manta_status swp_warm_start(struct swp_plan *plan, const manta_sweep_opts *opts, manta_error *e);

#endif
