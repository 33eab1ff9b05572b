/* SPDX-License-Identifier: Apache-2.0
 *
 * group.c - what processes of this node ask of placement groups: passed on to the head, and its answer passed back.
 *
 * Owns: nothing; a request that waits for its answer is head.c's. Thread: the logic loop only.
 */
#include "raylet/core/head/head.h"
#include "raylet/core/head/private.h"
#include "core/base/limits/head.h"

#include <stdio.h>
#include <stdlib.h>

/* Bundles as they come from a process. False: `text` says what is wrong with them. */
static bool bundles_read(struct rlt *r, const struct ctl_group *g, const uint8_t *bytes, size_t size, Manta__V1__GroupRequest *out,
                         char *text, size_t text_size)
{
    static const Manta__V1__Bundle empty = MANTA__V1__BUNDLE__INIT;
    char                           wrong[CTL_TEXT_SIZE];
    snprintf(text, text_size, "bundles that run past their record, or more than %d", MT_GROUP_BUNDLES_MAX);
    if (g->bundle_count > MT_GROUP_BUNDLES_MAX)
        return false;
    out->bundles = rlt_keep(r->out, NULL, (g->bundle_count + 1) * sizeof *out->bundles);
    for (uint32_t i = 0; i < g->bundle_count; i++) {
        struct ctl_bundle   head;
        struct ctl_resource resources[CTL_RESOURCES];
        if (size < sizeof head)
            return false;
        memcpy(&head, bytes, sizeof head);
        bytes += sizeof head;
        size -= sizeof head;
        if (head.resource_count > CTL_RESOURCES || size < head.resource_count * sizeof *resources)
            return false;
        memcpy(resources, bytes, head.resource_count * sizeof *resources);
        bytes += head.resource_count * sizeof *resources;
        size -= head.resource_count * sizeof *resources;
        if (rlt_request_check(resources, head.resource_count, wrong, sizeof wrong).code) {
            snprintf(text, text_size, "bundle %u: %.400s", i + 1, wrong);
            return false;
        }
        Manta__V1__Bundle *b = rlt_keep(r->out, &empty, sizeof empty);
        b->index = i;
        b->n_resources = head.resource_count;
        b->resources = rlt_resources_make(r, resources, head.resource_count);
        out->bundles[out->n_bundles++] = b;
    }
    return true;
}

static Manta__V1__GroupRequest *request_copy(const Manta__V1__GroupRequest *request)
{
    size_t   size = manta__v1__group_request__get_packed_size(request);
    uint8_t *bytes = rlt_calloc(size + 1);
    manta__v1__group_request__pack(request, bytes);
    Manta__V1__GroupRequest *copy = manta__v1__group_request__unpack(NULL, size, bytes);
    free(bytes);
    if (!copy)
        rlt_out_of_memory();
    return copy;
}

static void ask(struct rlt *r, struct rlt_proc *p, mt_id id, const struct ctl_group *g, Manta__V1__GroupRequest *request)
{
    const struct rlt_job *job = rlt_job_base(p->job);
    struct rlt_asked     *asked = rlt_head_asked(r, p, id, CTL_OP_GROUP, true);
    if (!asked)
        return;
    request->id_process = id.process;
    request->id_counter = id.counter_index;
    request->verb = g->verb;
    request->group_process = g->id.process;
    request->group_counter = g->id.counter_index;
    request->space = (char *)(uintptr_t)g->space;
    request->name = (char *)(uintptr_t)g->name;
    request->strategy = g->strategy;
    request->detached = g->flags & CTL_GROUP_DETACHED;
    request->job = job->job;
    request->job_node = job->node;
    request->job_epoch = job->node == r->node ? r->epoch : job->node_epoch;
    request->wait_ms = g->wait_ms;
    request->apart = r->config.jobs_apart;
    asked->group = request_copy(request);
    rlt_head_ask_go(r, asked);
}

void rlt_group_ask(struct rlt *r, struct rlt_proc *p, const struct lane_record *record, const uint8_t *payload)
{
    Manta__V1__GroupRequest request = MANTA__V1__GROUP_REQUEST__INIT;
    struct ctl_group        g;
    char                    text[CTL_TEXT_SIZE];
    size_t                  size = record->length - LANE_RECORD_SIZE - sizeof(struct ctl_request);
    if (!r->config.has_head) {
        rlt_down_reply(r->out, p->conn, record->id, MT_EUNSUPPORTED, "placement groups need a cluster with a head");
        return;
    }
    if (size < sizeof g || !p->job) {
        rlt_down_reply(r->out, p->conn, record->id, MT_EINVAL, "a request that is cut short");
        return;
    }
    memcpy(&g, payload + sizeof(struct ctl_request), sizeof g);
    g.space[sizeof g.space - 1] = g.name[sizeof g.name - 1] = 0;
    if (bundles_read(r, &g, payload + sizeof(struct ctl_request) + sizeof g, size - sizeof g, &request, text, sizeof text))
        ask(r, p, record->id, &g, &request);
    else
        rlt_down_reply(r->out, p->conn, record->id, MT_EINVAL, text);
}

/* ---- the answer ---- */

static void append(uint8_t *to, size_t *at, const void *from, size_t size)
{
    memcpy(to + *at, from, size);
    *at += size;
}

static void reply_found(struct rlt *r, const struct rlt_asked *asked, const Manta__V1__GroupReply *reply)
{
    struct ctl_group g = {.id = {reply->group_process, reply->group_counter}, .verb = CTL_GROUP_FIND, .strategy = reply->strategy};
    uint8_t          bytes[LANE_RECORD_MAX - LANE_RECORD_SIZE - sizeof(struct ctl_reply)];
    size_t           at = sizeof g;
    g.flags = (reply->detached ? CTL_GROUP_DETACHED : 0) | (reply->ready ? CTL_GROUP_READY : 0);
    snprintf(g.space, sizeof g.space, "%s", reply->space);
    snprintf(g.name, sizeof g.name, "%s", reply->name);
    for (size_t i = 0; i < reply->n_bundles; i++) {
        const Manta__V1__Bundle *b = reply->bundles[i];
        struct ctl_bundle        head = {b->committed ? b->node : 0, (uint32_t)b->n_resources};
        if (at + sizeof head + b->n_resources * sizeof(struct ctl_resource) > sizeof bytes)
            break; /* of a newer head, with other bounds */
        append(bytes, &at, &head, sizeof head);
        for (size_t k = 0; k < b->n_resources; k++) {
            struct ctl_resource resource = {.milli = b->resources[k]->milli};
            snprintf(resource.name, sizeof resource.name, "%s", b->resources[k]->name);
            append(bytes, &at, &resource, sizeof resource);
        }
        g.bundle_count++;
    }
    memcpy(bytes, &g, sizeof g);
    rlt_reply_bytes(r, asked->conn, asked->id, bytes, at);
}

void rlt_group_answered(struct rlt *r, const Manta__V1__GroupReply *reply)
{
    mt_id             id = {reply->id_process, reply->id_counter};
    struct rlt_asked *asked = mt_map_ptr(&r->head.asked, id);
    if (!asked || !asked->group)
        return;
    if (!rlt_proc_of_conn(r, asked->conn)) {
        rlt_head_asked_over(r, asked);
        return;
    }
    if (reply->code == MT_OK && asked->group->verb == CTL_GROUP_FIND)
        reply_found(r, asked, reply);
    else
        rlt_down_reply(r->out, asked->conn, id, reply->code, reply->text[0] ? reply->text : NULL);
    rlt_head_asked_over(r, asked);
}
