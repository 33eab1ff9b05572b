/* SPDX-License-Identifier: Apache-2.0
 *
 * lists.c - the lists that clients ask for: jobs, and nodes with what placement groups reserve on them.
 */

#include "scheduler/head/core/calls/calls.h"
#include "scheduler/head/core/groups/groups.h"
#include "scheduler/head/core/jobs/jobs.h"
#include "scheduler/head/core/jobs/queue.h"
#include "scheduler/head/core/nodes/view.h"

/* Adds what placement groups reserve; head_view_node_free gives it back as well. */

static void fill_reserved(struct head *h, const struct node *n, Manta__V1__Node *out)
{
    int64_t    reserved[POLICY_RESOURCES_MAX];
    uint32_t   count = n->place.resource_count;
    resource  *items = calloc((size_t)count + 1, sizeof *items);
    resource **list = calloc((size_t)count + 1, sizeof(resource *));
    if (!items || !list) {
        free(items);
        free(list);
        head_broken(h, mt_error(MT_ENOMEM, 0, "describe a node"));
        return;
    }
    head_bundles_reserved(h, n, reserved);
    for (uint32_t i = 0; i < count; i++) {
        head_resource_fill(&items[i], h->kinds.data[n->place.resources[i].kind], reserved[i]);
        list[i] = &items[i];
    }
    out->reserved = list;
    out->n_reserved = count;
    if (count == 0)
        free(items); /* of which nothing else knows */
}

static void fill_drain(const struct head *h, struct node *n, Manta__V1__Node *out)
{
    if (!n->drain.is_on)
        return;
    out->waits = n->drain.waits;
    out->left_ms = n->drain.ends_ms > h->now_ms ? n->drain.ends_ms - h->now_ms : 0;
}

void head_calls_list_nodes(struct head *h, uint64_t call)
{
    Manta__V1__ListNodesReply reply = MANTA__V1__LIST_NODES_REPLY__INIT;
    size_t                    count = 0, room = h->nodes.count;
    Manta__V1__Node          *items = calloc(room + 1, sizeof *items);
    reply.nodes = calloc(room + 1, sizeof(Manta__V1__Node *));
    if (items && reply.nodes) {
        MT_MAP_EACH(&h->nodes, entry) {
            head_view_node(h, entry->value.ptr, &items[count]);
            fill_drain(h, entry->value.ptr, &items[count]);
            items[count].certificate_ms = ((struct node *)entry->value.ptr)->certificate_ms;
            fill_reserved(h, entry->value.ptr, &items[count]);
            reply.nodes[count] = &items[count];
            count++;
        }
        reply.n_nodes = count;
        reply.cluster = h->config.cluster;
        reply.head_epoch = h->epoch;
        reply.runs_as_root = h->config.runs_as_root;
        reply.is_insecure = h->config.is_insecure;
        reply.heads = h->head_list;
        reply.n_heads = h->head_count;
        head_out_reply(h, call, HEAD_LIST_NODES, &reply.base);
    } else {
        head_broken(h, mt_error(MT_ENOMEM, 0, "list the nodes"));
    }
    for (size_t i = 0; i < count; i++)
        head_view_node_free(&items[i]);
    free(items);
    free(reply.nodes);
}

/* ---- jobs ---- */

struct page { /* as many as fit into one message */
    struct head_job_info *rows;
    size_t                count, limit, capacity, size;
    bool                  is_short; /* without what only a closer look wants */
};

static bool page_grow(struct head *h, struct page *p)
{
    size_t                capacity = p->capacity ? p->capacity * 2 : 64;
    struct head_job_info *rows = realloc(p->rows, capacity * sizeof *rows);
    if (!rows) {
        head_broken(h, mt_error(MT_ENOMEM, 0, "list jobs"));
        return false;
    }
    p->rows = rows;
    p->capacity = capacity;
    return true;
}

/* False: the page is full. */
static bool page_add(struct head *h, struct job *job, void *user)
{
    struct page *p = user;
    if (p->count == p->limit || (p->count == p->capacity && !page_grow(h, p)))
        return false;
    struct head_job_info *row = &p->rows[p->count];
    head_jobs_info(h, job, row);
    if (p->is_short)
        row->info.n_argv = row->info.n_metadata = 0;
    p->size += manta__v1__job_info__get_packed_size(&row->info) + 8;
    p->count += p->size <= MT_HEAD_LIST_BYTES_MAX;
    return p->size <= MT_HEAD_LIST_BYTES_MAX;
}

static void page_reply(struct head *h, uint64_t call, const struct page *p, uint64_t total)
{
    Manta__V1__ListJobsReply reply = MANTA__V1__LIST_JOBS_REPLY__INIT;
    reply.jobs = calloc(p->count + 1, sizeof(job_info *));
    reply.total = total;
    if (!reply.jobs)
        head_broken(h, mt_error(MT_ENOMEM, 0, "list jobs"));
    for (size_t i = 0; reply.jobs && i < p->count; i++) {
        head_jobs_info_moved(&p->rows[i]); /* they stay where they are from here on */
        reply.jobs[reply.n_jobs++] = &p->rows[i].info;
    }
    if (h->broken.code == 0)
        head_out_reply(h, call, HEAD_LIST_JOBS, &reply.base);
    free(reply.jobs);
}

static void page_of_queue(struct head *h, struct page *p, size_t skip)
{
    bool has_room = true;
    p->is_short = true;
    for (struct job *job = head_turns_first(&h->placed); job && has_room; job = head_turns_after(&h->placed, job))
        if (skip)
            skip--;
        else
            has_room = page_add(h, job, p);
    if (has_room && p->count < p->limit)
        head_turns_each(h, skip, page_add, p);
}

void head_calls_list_jobs(struct head *h, uint64_t call, const Manta__V1__ListJobsRequest *request)
{
    struct page p = {.limit = request->limit ? request->limit : SIZE_MAX};
    if (request->queue) {
        page_of_queue(h, &p, request->skip);
    } else {
        for (struct head_index_node *at = h->jobs.last; at; at = at->prev)
            if (!page_add(h, mt_container_of(at, struct job, at), &p))
                break;
    }
    page_reply(h, call, &p, h->jobs_active);
    free(p.rows);
}
