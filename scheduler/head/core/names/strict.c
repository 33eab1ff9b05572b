/* SPDX-License-Identifier: Apache-2.0
 *
 * strict.c - leases of strict actors, which never run twice at a time.
 *
 * Owns:    node.voids.
 * Always:  a lease that an owner was told is void is never extended again, by no later head either.
 *
 * A raylet says with each report which strict actors run on its node; the answer lets them run for MT_STRICT_LEASE_MS
 * from when that report was sent. Not extended is what was given up (void), and whose owner has ended; and, after a start
 * of the head, whose owner's node has not been heard yet: it may have to say that the owner has ended.
 */

#include "scheduler/head/core/names/names.h"
#include "scheduler/head/core/nodes/nodes.h"

static bool is_void(const struct node *n, uint64_t lease)
{
    for (size_t i = 0; i < n->voids.count; i++)
        if (n->voids.data[i] == lease)
            return true;
    return false;
}

static bool is_gone(const struct head *h, const struct node *n, const Manta__V1__StrictLease *lease)
{
    const struct node *owner = head_nodes_find(h, lease->owner_node);
    return is_void(n, lease->lease) || head_names_is_gone(h, lease->owner) || !owner || owner->place.state == POLICY_DEAD;
}

static bool is_owner_seen(const struct head *h, const Manta__V1__StrictLease *lease)
{
    const struct node *owner = head_nodes_find(h, lease->owner_node);
    return owner && owner->is_seen;
}

void head_strict_report(struct head *h, struct stream *s, const Manta__V1__Report *report)
{
    Manta__V1__Extend  extend = MANTA__V1__EXTEND__INIT;
    to_node            message = MANTA__V1__HEAD_TO_NODE__INIT;
    const struct node *n = head_nodes_find(h, s->node);
    size_t             count = report->n_strict < MT_HEAD_STRICT_MAX ? report->n_strict : MT_HEAD_STRICT_MAX;
    extend.version = report->version;
    extend.leases = calloc(count, sizeof *extend.leases);
    extend.gone = calloc(count, sizeof *extend.gone);
    if (extend.leases && extend.gone) {
        for (size_t i = 0; i < count; i++) {
            const Manta__V1__StrictLease *lease = report->strict[i];
            if (is_gone(h, n, lease))
                extend.gone[extend.n_gone++] = lease->lease;
            else if (is_owner_seen(h, lease))
                extend.leases[extend.n_leases++] = lease->lease;
        }
        message.kind_case = MANTA__V1__HEAD_TO_NODE__KIND_EXTEND;
        message.extend = &extend;
        head_out_send(h, s, &message, false);
    } /* else they freeze, which is what they are for */
    free(extend.leases);
    free(extend.gone);
}

void head_strict_void(struct head *h, uint32_t number, uint64_t lease)
{
    struct node *n = head_nodes_find(h, number);
    if (!n || n->place.state == POLICY_DEAD || is_void(n, lease))
        return; /* what a dead node had is not extended either */
    if (n->voids.count >= MT_HEAD_VOID_MAX)
        mt_vec_remove(&n->voids, 0);
    HEAD_TRY(h, mt_vec_push(&n->voids, lease));
    head_nodes_store(h, n);
}
