/* SPDX-License-Identifier: Apache-2.0
 *
 * look.h - what stands behind a manta_sweep_view.
 */
#ifndef SWP_LOOK_H
#define SWP_LOOK_H

#include "core/ds/vec.h"
#include "sweep/manta_sweep.h"

struct swp_look {
    manta_sweep_view view; /* first: what the caller gets */
    double           best;
    bool             is_over;    /* a rule or the time has ended it */
    bool             is_stopped; /* its last driver was told to stop */
    MT_VEC(char *) texts;
    MT_VEC(manta_sweep_trial) trials;
    MT_VEC(manta_sweep_report) reports;
    MT_VEC(manta_sweep_copy) copies;
};

/* EHANDLE, and *e says so: manta_sweep_look did not make it, or it was freed. */
manta_status swp_view_check(const manta_sweep_view *view, const char *call, manta_error *e);

#endif
