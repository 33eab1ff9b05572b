/* SPDX-License-Identifier: Apache-2.0
 *
 * switch.h - what moves records between the lanes of this node and the streams to other nodes.
 *
 * A state machine of its own, beside the core: the sole consumer of every process's up ring, the sole producer of
 * every down ring, and the missing end of each lane whose other end is on another node. It works on shared memory
 * that it is given, makes no system call, and reads no clock. In the shell the switch thread looks through the rings and the
 * loop carries out what the core has ordered; the simulation calls it inline. One thread at a time.
 *
 *   process --up ring--> switch --RLT_EV_UP--> core            core --RLT_A_SW_DOWN--> switch --down ring--> process
 *   owner --lane--> switch --RLT_EV_OUT--> core's link ...  ... core's link --RLT_A_SW_FRAME--> switch --lane--> worker
 */
#ifndef RLT_SWITCH_H
#define RLT_SWITCH_H

#include "core/base/limits/raylet.h"
#include "core/lane/lane.h"
#include "raylet/core/core.h"

struct sw;

/* Gets what the switch has to say. Both are called from sw_act and sw_poll; the event is borrowed for the call. */
struct sw_out {
    void (*event)(struct sw_out *out, const struct rlt_event *event); /* `now` and `random` are the driver's to fill */
    void (*wake)(struct sw_out *out, struct lane_park *park);         /* lane_park_must_wake said so: lane_park_wake it */
};

/* NULL when out of memory. */
struct sw *sw_new(void);
void       sw_free(struct sw *sw);

/* A process has been welcomed: its control lane and park page, mapped until sw has forgotten it (PROC_DRAINED). */
MT_MUST_USE mt_status sw_process_add(struct sw *sw, uint64_t conn, void *lane, struct lane_park *park);

/* Carries out one RLT_A_SW_ action. `lane` is the memory of its lane for SW_LANE_OPEN (else it is not
 * looked at); it stays mapped until LANE_CLOSED. True: there is something for sw_poll to do now. */
bool sw_act(struct sw *sw, const struct rlt_action *action, void *lane, struct sw_out *out);

/* One round over all rings. True: there was work (and may be more). */
bool sw_poll(struct sw *sw, struct sw_out *out);
/* Whether a round would find work: the last look between lane_park_prepare and lane_park_sleep. */
bool sw_has_work(struct sw *sw);
/* Whether something waits for room in a ring. Its reader does not ring when it has made room: come again within
 * MT_SW_BACKLOG_US. */
bool sw_has_backlog(const struct sw *sw);

#endif
