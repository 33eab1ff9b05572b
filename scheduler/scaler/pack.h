/* SPDX-License-Identifier: Apache-2.0
 *
 * pack.h - what the parts of a packing share: slots.c < offers.c < leases.c, pace.c, spare.c < pack.c.
 */
#ifndef SCL_PACK_H
#define SCL_PACK_H

#include "scheduler/scaler/private.h"

enum slot_kind { SLOT_BUSY, SLOT_IDLE, SLOT_COMING, SLOT_NEW, SLOT_KINDS };

struct slot {
    const struct policy_node *like; /* total, labels */
    int64_t                   free[POLICY_RESOURCES_MAX];
    uint32_t                  count;
    struct scl_bucket        *bucket; /* of nodes that are there */
    uint32_t                  type;   /* of those that are not */
    uint32_t                  gang;   /* a strict gang has a bundle there, by its place in the list + 1 */
    bool                      is_used;
};

struct shape { /* leases of one demand that wait for new nodes */
    struct held_demand *demand;
    uint32_t            type;                        /* that is best for them alone; SCL_NO_TYPE: none can be had */
    uint32_t            times;                       /* on a node that is being filled */
    bool                is_able;                     /* a node of the type that is being filled can hold one */
    double              share[POLICY_RESOURCES_MAX]; /* of each of that node's resources that one takes */
};

enum { SLOT_HASHES = 32 };
struct pack {
    struct scl *s;
    MT_VEC(struct slot) slots[SLOT_KINDS];
    int64_t most[SLOT_KINDS][SLOT_HASHES]; /* no slot has more free of a resource, by its kind modulo that; ... */
    bool    is_most[SLOT_KINDS];           /* ... where that is known */
    MT_VEC(struct shape) shapes;
    struct plan *plan;
};

/* ---- slots.c ---- */

/* So many of it, `most` at most, fit on one of the slot's nodes; and taking that. */
uint32_t scl_slot_fits(const struct slot *slot, const struct policy_request *r, uint32_t most);
void     scl_slot_take(struct slot *slot, const struct policy_request *r, uint32_t times);
/* Cuts `nodes` of a slot's off; the rest is a slot of its own. */
void scl_slot_cut(struct pack *p, enum slot_kind kind, size_t at, uint32_t nodes);
/* Into all slots of one kind. `gang`: each on a node of its own. How many were placed. */
uint32_t scl_fill_kind(struct pack *p, enum slot_kind kind, const struct policy_request *r, uint32_t wanted, uint32_t gang);

/* On what is there or comes. How many have no place yet. */
uint32_t scl_place_there(struct pack *p, struct held_demand *d, const struct policy_request *r, uint32_t wanted, uint32_t gang);

/* ---- offers.c ---- */

struct slot scl_slot_of_type(const struct scl *s, uint32_t type, uint32_t count);
/* Nodes of a type that may be started, in all zones together; nodes that are no spot nodes and have to come before such. */
/* Whether the labels of such a node are those that it asks for. */
bool     scl_labels_fit(const struct scl *s, uint32_t type, const struct policy_request *r);
uint32_t scl_room_of(const struct pack *p, uint32_t type);
uint32_t scl_floor_left(const struct pack *p);
uint32_t scl_beside(const struct pack *p, uint32_t type); /* nodes of it in that zone, where it is spread */
/* Of `nodes` so many at a time: after them another zone, or another type, may be better. */
uint32_t scl_at_once(const struct pack *p, uint32_t type, uint32_t nodes);
/* SCL_NO_TYPE: none can be had. */
uint32_t scl_type_best(struct pack *p, const struct policy_request *r, uint32_t wanted);
void     scl_plan_start(struct pack *p, uint32_t type, uint32_t count, const char *cause);
/* On what is started already, and on new ones. How many were placed. */
uint32_t scl_fill_new(struct pack *p, const struct policy_request *r, uint32_t wanted, uint32_t gang, const char *cause);

void scl_say_cause(const struct scl *s, const struct held_demand *d, char *out, size_t size);

/* ---- leases.c ---- */

void scl_pack_leases(struct pack *p);

/* ---- pace.c ---- */

void                   scl_pace_look(struct scl *s);
struct scl_pace_choice scl_pace_choose(const struct scl *s, const struct scl_pace *pace, const struct policy_request *r,
                                       uint64_t now_ms);
void                   scl_pace_request(const struct policy_request *r, enum scl_wants wants, struct policy_request *out);

/* ---- spare.c ---- */

/* A node that is little used and whose work fits elsewhere, once that has been so for long enough: plan->spare. After all has its
 * place, while the slots hold what is left. */
void scl_spare(struct pack *p);

#endif
