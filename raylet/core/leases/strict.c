/* SPDX-License-Identifier: Apache-2.0
 *
 * strict.c - leases of strict actors on this node: told to the head with each report, extended by its answer.
 *
 * Owns: nothing of its own. Thread: the logic loop only.
 * Always: the time up to which a strict actor's process may run is at most MT_STRICT_LEASE_MS after a report left that the
 * head has answered: the head calls this node dead only later. The process stops itself then, by a timer that the kernel
 * keeps (clients/lib/shell/lease/strict.c), so it stops also when this raylet does not run.
 */
#include "raylet/core/leases/leases.h"
#include "raylet/core/leases/parts.h"
#include "raylet/core/pool/pool.h"
#include "core/base/limits/net.h"

#include <stdlib.h>

enum { SENT_MAX = sizeof(((struct rlt_head *)NULL)->sent) / sizeof(((struct rlt_head *)NULL)->sent[0]) };

static void run_until(struct rlt *r, const struct rlt_lease *l, uint64_t until)
{
    struct rlt_a_strict *a = &rlt_act(r->out, RLT_A_STRICT)->strict;
    a->conn = l->worker->conn;
    a->until = until;
}

void rlt_strict_begin(struct rlt *r, struct rlt_lease *l)
{
    r->strict_count++;
    r->strict_changes++;
    if (!r->config.has_head)
        run_until(r, l, UINT64_MAX); /* nobody else could begin it again; else it waits for the head's first answer */
}

void rlt_strict_end(struct rlt *r, struct rlt_lease *l)
{
    l->is_strict = false;
    r->strict_count--;
    r->strict_changes++;
}

uint64_t rlt_strict_hash(const struct rlt *r)
{
    return r->strict_changes;
}

void rlt_strict_report(struct rlt *r, Manta__V1__Report *report)
{
    static const Manta__V1__StrictLease empty = MANTA__V1__STRICT_LEASE__INIT;
    r->head.sent[report->version % SENT_MAX].version = report->version;
    r->head.sent[report->version % SENT_MAX].at = r->now;
    if (!r->strict_count)
        return;
    report->strict = rlt_keep(r->out, NULL, r->strict_count * sizeof *report->strict);
    for (struct rlt_list *link = r->all_leases.next; link != &r->all_leases; link = link->next) {
        const struct rlt_lease *l = mt_container_of(link, struct rlt_lease, in_all);
        if (!l->is_strict || !l->worker || report->n_strict == r->strict_count)
            continue;
        Manta__V1__StrictLease *told = rlt_keep(r->out, &empty, sizeof empty);
        told->lease = l->id;
        told->owner = l->owner_process;
        told->owner_node = l->owner_node;
        report->strict[report->n_strict++] = told;
    }
}

void rlt_strict_extend(struct rlt *r, const Manta__V1__Extend *extend)
{
    uint64_t at = r->head.sent[extend->version % SENT_MAX].at;
    if (r->head.sent[extend->version % SENT_MAX].version != extend->version || extend->version > r->head.report_version)
        return; /* an answer so late that it extends nothing */
    for (size_t i = 0; i < extend->n_gone; i++) {
        struct rlt_lease *l = rlt_lease_find(r, extend->gone[i]);
        if (l && l->is_strict && l->worker)
            rlt_pool_kill(r, l->worker);
    }
    for (size_t i = 0; i < extend->n_leases; i++) {
        struct rlt_lease *l = rlt_lease_find(r, extend->leases[i]);
        if (l && l->is_strict && l->worker)
            run_until(r, l, at + MT_STRICT_LEASE_MS * RLT_MS);
    }
}
