/* SPDX-License-Identifier: Apache-2.0
 *
 * promises.c - what is free on a node: what it has reported, less what was promised to others since.
 *
 * Always:  a promise lasts until the node's report must contain it, or until the node says so.
 */

#include "scheduler/head/core/nodes/nodes.h"
#include "scheduler/head/core/nodes/view.h"

/* What the node reported, less the promises that its report may not contain yet. */
void head_nodes_refresh_free(struct node *n)
{
    for (uint32_t i = 0; i < n->place.resource_count; i++)
        n->place.resources[i].free = n->reported[i];
    n->place.places = n->places_reported;
    for (size_t i = 0; i < n->promises.count; i++)
        n->place.places -= n->promises.data[i].count;
    for (size_t i = 0; i < n->promises.count; i++)
        for (uint32_t k = 0; k < n->promises.data[i].count; k++)
            policy_take(&n->place, &n->promises.data[i].request);
    n->place.drivers = n->drivers_max - n->drivers; /* of which this head is told by nobody else */
}

void head_nodes_expire_promises(struct head *h, struct node *n, uint64_t age_ms)
{
    size_t kept = 0;
    for (size_t i = 0; i < n->promises.count; i++)
        if (h->now_ms - n->promises.data[i].at_ms < age_ms)
            n->promises.data[kept++] = n->promises.data[i];
    if (kept == n->promises.count)
        return;
    n->promises.count = kept;
    head_nodes_refresh_free(n);
    h->is_capacity_changed = true;
    head_view_free_changed(h, n);
}

void head_nodes_promise(struct head *h, struct node *n, const struct policy_request *request, uint32_t count)
{
    struct promise promise = {.at_ms = h->now_ms, .count = count, .request = *request};
    HEAD_TRY(h, mt_vec_push(&n->promises, promise));
    head_nodes_look_at(h, h->now_ms + MT_HEAD_PROMISE_MS_MAX);
    head_view_free_changed(h, n);
}

void head_nodes_promise_job(struct head *h, struct node *n, const struct policy_request *request, uint64_t order)
{
    head_nodes_promise(h, n, request, 1);
    if (n->promises.count)
        n->promises.data[n->promises.count - 1].job = order + 1;
}

/* No report has it yet: then it is the promise that goes. Else the last one has. */
void head_nodes_job_ended(struct head *h, struct node *n, const struct policy_request *request, uint64_t order)
{
    size_t at = 0;
    while (at < n->promises.count && n->promises.data[at].job != order + 1)
        at++;
    if (at < n->promises.count)
        mt_vec_remove(&n->promises, at);
    else
        for (uint32_t k = 0; k < request->amount_count; k++)
            for (uint32_t j = 0; j < n->place.resource_count; j++)
                if (n->place.resources[j].kind == request->amounts[k].kind) {
                    int64_t free = n->reported[j] + request->amounts[k].amount, total = n->place.resources[j].total;
                    n->reported[j] = free < total ? free : total;
                }
    head_nodes_refresh_free(n);
    h->is_capacity_changed = true;
    head_view_free_changed(h, n);
}

void head_nodes_taken(struct head *h, struct node *n, const struct policy_request *request)
{
    for (size_t i = 0; i < n->promises.count; i++) {
        const struct promise *p = &n->promises.data[i];
        if (p->count != 1 || p->request.amount_count != request->amount_count ||
            memcmp(p->request.amounts, request->amounts, request->amount_count * sizeof *request->amounts) != 0)
            continue;
        mt_vec_remove(&n->promises, i);
        for (uint32_t k = 0; k < request->amount_count; k++)
            for (uint32_t j = 0; j < n->place.resource_count; j++)
                if (n->place.resources[j].kind == request->amounts[k].kind)
                    n->reported[j] -= request->amounts[k].amount;
        head_nodes_refresh_free(n);
        break;
    }
    head_view_free_changed(h, n);
}

/* ---- room for others ---- */

/* From the node's word that there is room to ours time passes (a slow disk, load): we learn how much by being late. */
static uint32_t keep_ms(uint32_t refusals)
{
    uint32_t ms = MT_RLT_PRESS_MS;
    while (refusals-- && ms < MT_RLT_PRESS_MAX_MS)
        ms *= 2;
    return ms < MT_RLT_PRESS_MAX_MS ? ms : MT_RLT_PRESS_MAX_MS;
}

void head_nodes_press(struct head *h, struct node *n, const struct policy_request *request, uint32_t refusals)
{
    Manta__V1__Press    press = MANTA__V1__PRESS__INIT;
    Manta__V1__Resource amounts[POLICY_RESOURCES_MAX], *pointers[POLICY_RESOURCES_MAX];
    to_node             message = MANTA__V1__HEAD_TO_NODE__INIT;
    for (uint32_t i = 0; i < request->amount_count; i++) {
        manta__v1__resource__init(&amounts[i]);
        amounts[i].name = h->kinds.data[request->amounts[i].kind];
        amounts[i].milli = request->amounts[i].amount;
        pointers[i] = &amounts[i];
    }
    press.n_resources = request->amount_count;
    press.resources = pointers;
    press.keep_ms = keep_ms(refusals);
    message.kind_case = MANTA__V1__HEAD_TO_NODE__KIND_PRESS;
    message.press = &press;
    head_out_send(h, head_nodes_stream(h, n), &message, false);
}
