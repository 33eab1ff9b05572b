/* SPDX-License-Identifier: Apache-2.0
 *
 * ledger.h - who holds how much of this node. Private to raylet/.
 *
 * Thousandths (of "memory": bytes). Of every resource free + leased = total at every moment; free may go below zero
 * only by rlt_ledger_retake_cpu, when a blocked task that had given its CPUs back goes on.
 */
#ifndef RLT_LEDGER_H
#define RLT_LEDGER_H

#include "core/wire/ctl.h"
#include "raylet/core/kit/pins.h"

struct rlt_ledger {
    uint32_t            count;
    struct ctl_resource total[MT_RLT_RESOURCES_MAX];
    int64_t             free[MT_RLT_RESOURCES_MAX];
    int64_t             leased[MT_RLT_RESOURCES_MAX];
    uint64_t            changes; /* counts them */
    uint32_t            gpu_count;
    int32_t             gpu_free[MT_RLT_GPUS_MAX]; /* thousandths of each device */
    struct rlt_pins    *pins;                      /* NULL: nobody is bound to CPUs */
    uint32_t            lent_count;                /* leases whose CPUs are lent, those in pools included */
    struct rlt_ledger  *whole;                     /* of a pool: the node's ledger; NULL: it is the node's */
};

/* What one lease holds. Zeroed: nothing. */
struct rlt_hold {
    int64_t  amount[MT_RLT_RESOURCES_MAX]; /* by index of the ledger */
    bool     is_cpu_out;                   /* its CPUs are lent to others while it is blocked */
    uint32_t gpu_count;
    uint16_t gpus[MT_RLT_GPUS_MAX];
    int32_t  gpu_milli;           /* of each of those devices */
    uint64_t cpus[RLT_CPU_WORDS]; /* that it is bound to */
};

/* EINVAL: a name twice, an amount that is zero or negative, more devices than MT_RLT_GPUS_MAX. */
MT_MUST_USE mt_status rlt_ledger_init(struct rlt_ledger *l, const struct ctl_resource *total, uint32_t count);

/* The ledger of a pool: what `hold`, taken from `whole`, has. `whole` outlives it. Resources have the same indices in both. */
void rlt_ledger_pool(struct rlt_ledger *pool, struct rlt_ledger *whole, const struct rlt_hold *hold);

/* Whether such a request makes sense at all: EINVAL, and what is wrong in `text`, where an amount is zero or
 * negative, a name stands twice, or a GPU request above one device is no whole number. Terminates the names. */
MT_MUST_USE mt_status rlt_request_check(struct ctl_resource *request, uint32_t count, char *text, size_t text_size);

/* Whether the empty node could; if not, *out_lacking is the index in the request that it lacks. */
bool rlt_ledger_could_ever(const struct rlt_ledger *l, const struct ctl_resource *request, uint32_t count, uint32_t *out_lacking);
/* Whether it could now, if `extra` (by ledger index, NULL: none) were free as well. */
bool rlt_ledger_could_now(const struct rlt_ledger *l, const struct ctl_resource *request, uint32_t count, const int64_t *extra);
/* Takes it; false and nothing changed where it does not fit. */
bool rlt_ledger_take(struct rlt_ledger *l, const struct ctl_resource *request, uint32_t count, struct rlt_hold *out_hold);
/* Binds it to as many CPUs as it holds. */
void rlt_ledger_pin(struct rlt_ledger *l, struct rlt_hold *hold);
/* Gives all of it back; the hold is empty afterwards. */
void rlt_ledger_give(struct rlt_ledger *l, struct rlt_hold *hold);
/* A blocked task lends its CPUs, and takes them again, even where none are free. */
void rlt_ledger_lend_cpu(struct rlt_ledger *l, struct rlt_hold *hold);
void rlt_ledger_retake_cpu(struct rlt_ledger *l, struct rlt_hold *hold);

/* Index of a resource by name; -1 where the node has none. */
int rlt_ledger_find(const struct rlt_ledger *l, const char *name);
/* Asserts free + leased = total. */
void rlt_ledger_assert(const struct rlt_ledger *l);

#endif
