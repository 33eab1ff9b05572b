/* SPDX-License-Identifier: Apache-2.0
 *
 * policy.h - where leases go: pure decisions over nodes and their free resources. No I/O, no clock, no allocation.
 *
 * Resources are named by small numbers that the caller has given to the names. Amounts are thousandths (memory: bytes).
 * Equal nodes are told apart by the random source passed in, so one seed gives one answer.
 */
#ifndef POLICY_POLICY_H
#define POLICY_POLICY_H

#include "core/base/limits/head.h"
#include "core/base/limits/raylet.h"
#include "core/base/limits/text.h"
#include "core/base/rng.h"

#include <stdbool.h>

enum {
    POLICY_RESOURCES_MAX = 16,  /* per node or request */
    POLICY_PACK_UNTIL = 500000, /* hybrid: nodes are filled up to this use (millionths), then the load is spread */
};

/* Numbers agree with enum ctl_policy and Want.policy. */
enum policy_kind { POLICY_HYBRID = 0, POLICY_SPREAD = 1, POLICY_NODE = 2, POLICY_NODE_SOFT = 3 };
enum policy_state { /* as Node.state on the wire */
                    POLICY_ALIVE = 1,
                    POLICY_SUSPECT = 2,
                    POLICY_DEAD = 3,
                    POLICY_DRAINING = 4, /* it is to leave: nothing new is placed there, and nothing ever will be */
};

struct policy_resource {
    uint32_t kind;
    int64_t  total;
    int64_t  free; /* may be negative for a moment: promised more than was there */
};

struct policy_node {
    uint32_t               id;
    enum policy_state      state;
    bool                   counts_places; /* a lease takes one of its places for processes, too */
    int64_t                places;
    int64_t                drivers; /* of submitted jobs: so many more may be there */
    uint32_t               resource_count;
    struct policy_resource resources[POLICY_RESOURCES_MAX];
    char                   labels[MT_LABELS_BYTES_MAX]; /* core/text/labels.h */
    int64_t                rank;                        /* scratch of policy_place */
    uint64_t               tie;                         /* scratch of policy_place */
};

struct policy_amount {
    uint32_t kind;
    int64_t  amount; /* >= 0 */
};

struct policy_request {
    enum policy_kind     policy;
    bool                 is_driver;                 /* of a submitted job */
    uint32_t             node;                      /* of POLICY_NODE and POLICY_NODE_SOFT */
    uint32_t             prefer;                    /* first among equals: the node that asks; 0: none */
    uint32_t             avoid[MT_RLT_SHUNNED_MAX]; /* nodes that can't hold it whatever they have; 0: none */
    uint32_t             amount_count;
    struct policy_amount amounts[POLICY_RESOURCES_MAX];
    char                 labels[MT_LABELS_BYTES_MAX]; /* selector: a node must satisfy one of its alternatives, and of those
                                                         that have room the earlier ones come first. "": any */
};

/* How much of a resource the node has in all; 0: it has none. */
int64_t policy_total(const struct policy_node *node, uint32_t kind);
/* Whether one lease fits into what the node has in all (its labels included), or has free. */
bool policy_fits_total(const struct policy_node *node, const struct policy_request *request);
bool policy_fits_free(const struct policy_node *node, const struct policy_request *request);

/* Gives or takes back one lease's amounts on a node. */
void policy_take(struct policy_node *node, const struct policy_request *request);
void policy_give(struct policy_node *node, const struct policy_request *request);

/* Places up to `wanted` leases on alive nodes: writes a node id for each into out_nodes (room for `wanted`), takes the
 * amounts from the nodes' free, and returns how many were placed. Never takes more than is free. */
uint32_t policy_place(struct policy_node *const *nodes, uint32_t node_count, const struct policy_request *request, uint32_t wanted,
                      mt_rng *rng, uint32_t *out_nodes);

/* Whether a node of that state may hold something new, now or later. */
static inline bool policy_may_come(enum policy_state state)
{
    return state == POLICY_ALIVE || state == POLICY_SUSPECT;
}

/* Whether there is such a node. If not, what waits for one waits: nobody can say what the next one will have. */
bool policy_any_may_come(const struct policy_node *const *nodes, uint32_t node_count);
/* Whether some node that is neither dead nor draining could ever hold one lease of it, with everything free. */
bool policy_is_feasible(const struct policy_node *const *nodes, uint32_t node_count, const struct policy_request *request);

/* ---- placement groups: group.c ---- */

enum policy_strategy { /* numbers agree with enum ctl_strategy, GroupRequest.strategy and the public MANTA_PG_PACK... */
                       POLICY_GROUP_PACK = 0,          /* on few nodes */
                       POLICY_GROUP_SPREAD = 1,        /* on many */
                       POLICY_GROUP_STRICT_PACK = 2,   /* on one, or not at all */
                       POLICY_GROUP_STRICT_SPREAD = 3, /* each on a node of its own, or not at all */
};

struct policy_bundle {
    const struct policy_request *request; /* amounts only */
    uint32_t                     node;    /* where it stands; 0: nowhere yet */
};

/* Places all bundles that stand nowhere, beside those that do, or none: then false, and nothing is changed. Takes the
 * amounts from the nodes' free. Only alive nodes are chosen. At most MT_GROUP_BUNDLES_MAX bundles. */
bool policy_place_group(struct policy_node *const *nodes, uint32_t node_count, enum policy_strategy strategy,
                        struct policy_bundle *bundles, uint32_t bundle_count, mt_rng *rng);

/* Whether nodes that neither are dead nor drain could hold the whole placement group with everything free, as far as is quickly
 * told: each bundle on some node, all of them together, and what the strategy wants. Says no only where there is no way. */
enum policy_hopeless {
    POLICY_COULD = 0,
    POLICY_BUNDLE_FITS_NOWHERE = 1, /* *out_bundle: the first */
    POLICY_SUM_FITS_NOWHERE = 2,    /* STRICT_PACK: all of them on one node; *out_sum */
    POLICY_TOO_FEW_NODES = 3,       /* STRICT_SPREAD: *out_bundle of them can be had */
    POLICY_CLUSTER_TOO_SMALL = 4,   /* *out_sum is more than all nodes together have */
};
enum policy_hopeless policy_group_is_hopeless(struct policy_node *const *nodes, uint32_t node_count, enum policy_strategy strategy,
                                              const struct policy_bundle *bundles, uint32_t bundle_count, uint32_t *out_bundle,
                                              struct policy_request *out_sum);

/* Why not, for people: which resource, how much, and what the largest node has. `names[kind]` is a resource's name.
 * Writes a NUL-terminated text of at most `size` bytes; meaningful after policy_is_feasible has said no. */
void policy_explain(const struct policy_node *const *nodes, uint32_t node_count, const struct policy_request *request,
                    const char *const *names, char *out_text, size_t size);
/* Likewise, why not now: meaningful where a node could hold it, and none has it free. */
void policy_lacks(const struct policy_node *const *nodes, uint32_t node_count, const struct policy_request *request,
                  const char *const *names, char *out_text, size_t size);

#endif
