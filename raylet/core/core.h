/* SPDX-License-Identifier: Apache-2.0
 *
 * core.h - the raylet's logic as a state machine: events in, actions out.
 *
 * The core makes no system call, has no thread, clock, random source or global of its own; the shell (raylet/main.c)
 * and the simulation drive the very same objects. It never touches shared memory either: lanes, parks, regions and
 * connections are numbers to it. What moves records is the switch (switch.h), a second state machine: the driver
 * hands it the RLT_A_SW_ actions and feeds the events it answers with back in.
 *
 *            events                        actions                     RLT_A_SW_ actions
 *   shell ------------> rlt_step (core) ------------> shell, head, peers ------------> switch
 *     ^                                                                                  |
 *     '------------------------- RLT_EV_UP, _DRAINED, _OUT ... --------------------------'
 *
 * Rules for whoever drives it:
 *   - Actions are carried out in the order given, all of them, before the next event is stepped.
 *   - `now` never goes back. rlt_deadline says when RLT_EV_TICK is due at the latest.
 *   - Connections that the shell accepts have numbers below RLT_CONN_OURS; those that the core asks for are above.
 *   - Descriptors are opaque numbers; an fd that an event brings belongs to the core until an action gives it back
 *     (RLT_A_CLOSE_FD) or away (RLT_A_WATCH, RLT_A_SPAWN_ZYGOTE borrows).
 */
#ifndef RLT_CORE_H
#define RLT_CORE_H

#include "raylet/core/kit/action.h"
#include "raylet/core/kit/config.h"
#include "raylet/core/kit/event.h"

struct rlt;

/* ---- the machine -------------------------------------------------------------------------------------------- */

/* A fresh raylet, or NULL when out of memory. The caller frees it. Borrows nothing of config. */
struct rlt *rlt_new(const struct rlt_config *config);
void        rlt_free(struct rlt *r);

/* Takes one event in and appends what is to be done to *out. Never blocks, never fails: what a peer can cause is
 * answered to that peer. Out of memory inside a step drops the connection or the request that needed it. */
void rlt_step(struct rlt *r, const struct rlt_event *event, struct rlt_actions *out);

/* The short way of a step with RLT_EV_OUT: the records leave, and nothing else is looked at. What is to be done then is
 * RLT_A_PEER_SEND and RLT_A_SW_PAUSE, nothing else. */
void rlt_out(struct rlt *r, uint64_t now, const struct rlt_ev_out *records, struct rlt_actions *out);

/* Number and epoch of this node; 0 until the head has answered. */
void rlt_self(const struct rlt *r, uint32_t *out_node, uint32_t *out_epoch);

/* When the next RLT_EV_TICK is due (ns, the clock of `now`); UINT64_MAX: not before another event. */
uint64_t rlt_deadline(const struct rlt *r);

/* ---- looking in (status, tests, simulation) ------------------------------------------------------------------- */

/* Whether the head is there, and has said something since then (ms, the clock of `now`). One that this node does not reach behind a
 * stream that is open still says nothing, and what it would have said is not known. */
bool rlt_head_is_heard(const struct rlt *r, uint64_t since_ms);
/* Whether the last link to a node was given up, and nothing has been heard from it since: to this node it is dead. */
bool rlt_node_is_given_up(const struct rlt *r, uint32_t node);
/* The next node, by number after `after` and then from the first one on, that may take a value which this node has and can't keep:
 * alive, not leaving, within reach. 0: there is none. */
uint32_t rlt_adopter_after(const struct rlt *r, uint32_t after);
bool     rlt_may_adopt(const struct rlt *r, uint32_t node);
/* Whether the head hears nothing of some node, which may be found dead. */
bool rlt_some_node_is_suspect(const struct rlt *r);
/* Where the data socket of another node is, as the head last said. ENOENT: no such node (yet). ENODE_DIED: by the head's
 * word, or it was given up here and is not heard by the head either. */
MT_MUST_USE mt_status rlt_node_data_address(const struct rlt *r, uint32_t node, uint32_t *out_epoch, char out[RLT_ADDRESS_SIZE]);

struct rlt_proc_view {
    uint64_t    process, conn, job; /* process 0: it has not greeted */
    int32_t     pid;
    uint32_t    role;     /* enum ctl_role; 0: it has not greeted */
    const char *state;    /* STARTING ALIVE IDLE LEASED ACTOR BLOCKED DYING */
    const char *program;  /* name of its job; borrowed for the call */
    bool        is_owner; /* it has submitted work: it can be asked of it */
};
void rlt_each_proc(const struct rlt *r, void (*fn)(void *user, const struct rlt_proc_view *view), void *user);

struct rlt_class_view {
    uint64_t owner; /* process */
    int32_t  owner_pid;
    uint32_t wanted, held; /* leases */
    char     name[CTL_NAME_SIZE];
    char     resources[128]; /* of one lease: "CPU:1 GPU:0.5" */
    char     why[384];       /* it has no more */
};
/* Where what a worker prints goes. */
struct rlt_output_view {
    uint64_t driver;    /* process */
    uint32_t node;      /* of the driver */
    bool     is_wanted; /* by the driver */
};
/* Of the worker behind `conn`, which may not have greeted yet. False: there is none. */
bool rlt_output_of(const struct rlt *r, uint64_t conn, struct rlt_output_view *out);
/* Other nodes that have had workers of the driver behind `conn`: how many, and *out, until the next event. */
size_t rlt_works_elsewhere(const struct rlt *r, uint64_t conn, const uint32_t **out);

/* Every class of this node's owners that wants more leases than it holds. */
void rlt_each_waiting(const struct rlt *r, void (*fn)(void *user, const struct rlt_class_view *view), void *user);
/* One class, waiting or not. False: it is not known here. */
bool rlt_class_look(const struct rlt *r, uint64_t owner, uint32_t class_id, struct rlt_class_view *out);

struct rlt_node_view {              /* of any node, as the head has told; the texts are borrowed until the next step */
    uint32_t    node, epoch, state; /* as in Node of manta.proto */
    const char *name, *address, *data_address, *labels;
};
/* False: it is not known here. */
bool rlt_node_look(const struct rlt *r, uint32_t node, struct rlt_node_view *out);
/* The version of the head's table that this node knows, and how many nodes that has; 0: it is being told. */
uint64_t rlt_view_version(const struct rlt *r, uint32_t *out_count);

struct rlt_bundle_view { /* of a placement group, reserved here */
    mt_id    group;
    uint32_t index;
    bool     is_committed;
};
/* Fills up to `room`; returns how many there are. */
uint32_t rlt_bundles_each(const struct rlt *r, struct rlt_bundle_view *out, uint32_t room);
void     rlt_stats(const struct rlt *r, struct rlt_stats *out);
/* Checks every invariant that can be seen from inside (free + leased = total, each lease in the lists of its two
 * ends, no lane without a holder). NULL when all hold, else the name of the one that does not. */
const char *rlt_check(const struct rlt *r);

#endif
