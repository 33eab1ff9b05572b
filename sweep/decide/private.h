/* SPDX-License-Identifier: Apache-2.0
 *
 * private.h - what scheduler.c keeps for every kind, and what each kind (a policy) adds.
 */
#ifndef SWP_SCHEDULER_PRIVATE_H
#define SWP_SCHEDULER_PRIVATE_H

#include "core/ds/map.h"
#include "core/ds/vec.h"
#include "sweep/decide/scheduler.h"

enum swp_member_state { SWP_MEMBER_RUNNING, SWP_MEMBER_PAUSED, SWP_MEMBER_ENDED };

/* A trial. */
struct swp_member {
    uint64_t              trial;
    enum swp_member_state state;
    double                t;        /* of its last report; -1: none yet */
    double                value;    /* of its last report; the smaller the better, +INFINITY for NaN */
    uint32_t              bracket;  /* ASHA, HYPERBAND */
    uint32_t              rung;     /* ASHA_PROMOTE: the next one to be reached */
    uint64_t              recorded; /* ASHA: bit k: rung k of its bracket has its value */
    bool                  waits;    /* HYPERBAND: has reached its bracket's milestone; MEDIAN: was paused for good */
    bool                  doomed;   /* HYPERBAND: is not among the best of its bracket */
    void                 *more;     /* of the policy; freed by its `forget` */
};

struct swp_policy {
    bool needs_saves;
    /* May be NULL: nothing to do. Makes s->model. */
    mt_status (*init)(struct swp_scheduler *s, struct swp_problem *out_problem);
    void (*fini)(struct swp_scheduler *s);
    void (*forget)(struct swp_scheduler *s, struct swp_member *m);
    mt_status (*added)(struct swp_scheduler *s, struct swp_member *m, const struct swp_point *point);
    /* m->t and m->value are the report's. */
    mt_status (*report)(struct swp_scheduler *s, struct swp_member *m, struct swp_verdict *out_verdict);
    double (*next_t)(const struct swp_scheduler *s, const struct swp_member *m);
    struct swp_action (*next)(const struct swp_scheduler *s, bool has_place);
    void (*resumed)(struct swp_scheduler *s, struct swp_member *m);
    /* False: no clone was due. */
    bool (*cloned)(struct swp_scheduler *s, struct swp_member *m, bool done);
    void (*ended)(struct swp_scheduler *s, struct swp_member *m);
    void (*supplied)(struct swp_scheduler *s); /* s->has_supply has changed */
};

struct swp_scheduler {
    struct swp_scheduler_opts opts; /* zeros filled in */
    const struct swp_space   *space;
    const struct swp_policy  *policy;
    void                     *model;
    uint64_t                  seed;
    bool                      has_supply;
    MT_VEC(struct swp_member) members; /* in the order in which they were added */
    mt_map   by_trial;
    uint32_t running;
};

#define X(name, text) extern const struct swp_policy swp_##text##_policy;
SWP_SCHEDULERS(X)
#undef X

static inline struct swp_action swp_action_of(enum swp_action_kind kind, uint64_t trial)
{
    struct swp_action action = {.kind = kind};
    action.trial = trial;
    return action;
}
/* START where there is a place and supply, else WAIT. */
static inline struct swp_action swp_start_or_wait(const struct swp_scheduler *s, bool has_place)
{
    return swp_action_of(has_place && s->has_supply ? SWP_START : SWP_WAIT, 0);
}
/* Whether another trial waits for a place: one that is paused, or that was not made yet. */
bool swp_scheduler_has_waiting(const struct swp_scheduler *s);
/* Changes its state, and counts those that run. The change must be in the table of members.c. */
void swp_member_set_state(struct swp_scheduler *s, struct swp_member *m, enum swp_member_state next);
/* A trial; NULL: there is none. */
struct swp_member *swp_scheduler_member(const struct swp_scheduler *s, uint64_t trial);

enum { SWP_RUNGS_MAX = 64 /* bits of swp_member.recorded */ };

#endif
