/* SPDX-License-Identifier: Apache-2.0
 *
 * lane.h - what stands in the place of a lane for a task that runs in the process which submitted it.
 */
#ifndef LIB_HERE_LANE_H
#define LIB_HERE_LANE_H

#include "clients/lib/shell/run/run.h"

struct lib_here {
    struct own_lane owner_end;
    struct wrk_lane worker_end;
    uint64_t        sequence;
};
void lib_here_init(struct lib_here *h, void *memory); /* LANE_BYTES, zeroed; borrowed */
/* The task has left its queue: what lib_run_here is to run. Then its outcome; the task may be gone after. */
void lib_here_begin(struct lib_here *h, struct own_task *task, struct wrk_run *out);
void lib_here_end(struct lib_here *h, struct own_task *task, struct wrk_run *run, struct lib_outcome *out);

#endif
