/* SPDX-License-Identifier: Apache-2.0
 *
 * plan.h - what a gang is to be: how many ranks, where, as what; and the environment of each rank. Pure; any thread.
 */
#ifndef GNG_PLAN_H
#define GNG_PLAN_H

#include "clients/gang/plan/wire.h"

#include <stdbool.h>

enum gng_as { GNG_AS_NONE, GNG_AS_TORCH, GNG_AS_TF, GNG_AS_PMI1, GNG_AS_HOROVOD };

struct gng_plan {
    int                ranks;                /* at most; 0: by the nodes */
    int                nodes_min, nodes_max; /* 0: anywhere */
    int                per_node;             /* ranks on a node; 0: as many as fit */
    double             cpus, gpus;           /* of each rank */
    enum gng_as        as;
    int                chiefs, servers, evaluators; /* of TF_CONFIG; the other ranks are workers */
    bool               renews;                      /* a rank that fails is started again alone */
    int                max_restarts;                /* -1: without limit */
    bool               says_restarts;               /* ... was said; else there are some where a rank is started again alone */
    int64_t            term_ms, wait_ms, hang_ms;   /* see limits/gang.h; wait_ms -1: without limit; hang_ms 0: nobody looks */
    const char        *name;                        /* for people, and torch's run id; NULL: drawn */
    const char        *output_dir;                  /* NULL: to standard output and error, with the rank in front */
    int                bare;                        /* standard output has this rank's alone, as it is; -1: all ranks' */
    const char *const *env;                         /* NAME=VALUE, ends with NULL; may be NULL */
    const char *const *files;                       /* likewise */
    char *const       *argv;                        /* ends with NULL */
};

/* Completes what follows from what was said, and judges it. False: *why says what is wrong and what to do. */
bool gng_plan_check(struct gng_plan *plan, char *why, size_t size);

/* "torch", ... -> *out. False: there is no such word. */
bool        gng_as_of(const char *word, enum gng_as *out);
const char *gng_as_words(void); /* all of them, for people */
/* "chief:1,ps:2,evaluator:1", each of them if it is wanted. False: it is not understood. */
bool gng_roles_of(const char *text, struct gng_plan *plan);
/* A rank that runs until the others have ended: with parameter servers all but the chief, or without one all but the workers. */
bool gng_role_serves(const struct gng_plan *plan, int rank, int size);

static inline bool gng_plan_reserves(const struct gng_plan *plan)
{
    return plan->cpus > 0 || plan->gpus > 0;
}

/* Ranks that may go on when one of them dies, and meet by the driver (meet.h). */
static inline bool gng_plan_meets(const struct gng_plan *plan)
{
    return plan->renews && (plan->as == GNG_AS_TORCH || plan->as == GNG_AS_NONE);
}

/* ---- who is where ---- */

struct gng_place {
    int             rank, local_rank, node_rank; /* node_rank: torch's GROUP_RANK */
    struct gng_seat seat;
    char            address[64]; /* of its node's machine; "": it is reached from nowhere else */
    char            name[64];    /* of its node */
};

enum { GNG_SECRET_DIGITS = 32 };

struct gng_layout {
    struct gng_place *of;     /* by member */
    int              *member; /* by rank */
    int               count, nodes;
    char              secret[GNG_SECRET_DIGITS + 1]; /* drawn for each attempt: what ranks of Horovod show at their rendezvous */
};

/* Gives out ranks, those of one node behind each other; rank 0 is member 0's. `of` has `count` seats; ENOMEM. */
MT_MUST_USE mt_status gng_layout_make(struct gng_layout *out, const struct gng_place *of, int count);
void                  gng_layout_fini(struct gng_layout *layout);
/* Ranks on the node of that member. */
int gng_layout_local(const struct gng_layout *layout, int member);
/* Where other ranks reach that member's node: by loopback, if all are on one. */
const char *gng_layout_address(const struct gng_layout *layout, int member);

/* PMI_process_mapping: which ranks share a node. */
MT_MUST_USE mt_status gng_mapping_put(mt_buf *out, const struct gng_layout *layout);
/* The variables of a member's rank: texts "NAME=VALUE", each with its end, one after the other. */
MT_MUST_USE mt_status gng_env_put(mt_buf *out, const struct gng_plan *plan, const struct gng_layout *layout, int member,
                                  const char *run_id, int restarts);

#endif
